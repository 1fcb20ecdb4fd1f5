"""The reads of a store in PostgreSQL, in slices of bounded size; each sees the commit that was begun before it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final

from taskyard_server.store.port import (
    LAST_KEY,
    SEGMENT_BYTES,
    OutputRow,
    OutputState,
    Page,
    Row,
    Sought,
    Table,
    TaskRows,
    keys_of,
)

from .links import Readers

SLICE_ROWS: Final = 1000
SLICE_BYTES: Final = 1 << 20
MEASURED_TASKS: Final = 1000
_FIRST: Final = -(1 << 63)


class PostgresRows:
    """A part of `PostgresStore`."""

    _sql: dict[str, str]
    _readers: Readers
    _commit_under_way: asyncio.Future[None] | None = None

    async def rows(
        self, table: Table, *, after_key: int = -1, last_key: int = LAST_KEY, limit: int | None = None
    ) -> AsyncIterator[Sequence[Row]]:
        """See `Store`."""
        statement = self._sql["rows_of"].format(table=table.name.lower())
        left = limit
        start = after_key + 1

        async def read(start: int) -> list[Any]:
            size = SLICE_ROWS if left is None else min(left, SLICE_ROWS)
            return await self._fetch(statement, start, last_key, size, SLICE_BYTES)

        if left is None:
            async for rows in _slices(read, start, lambda row: row[0] + 1):
                yield [(key, record) for key, record in rows]
            return
        while left > 0 and (rows := await read(start)):
            start = rows[-1][0] + 1
            left -= len(rows)
            yield [(key, record) for key, record in rows]

    async def live_tasks(self, namespace: int | None = None) -> AsyncIterator[Sequence[TaskRows]]:
        """See `Store`."""
        first, last = (_FIRST, LAST_KEY) if namespace is None else keys_of(namespace)

        async def read(start: int) -> list[Any]:
            return await self._fetch(self._sql["live_tasks"], start, last, SLICE_ROWS, SLICE_BYTES)

        async for rows in _slices(read, first, lambda row: row[0] + 1):
            yield [TaskRows(*row) for row in rows]

    async def ended_tasks(self, since_ms: int, namespace: int | None = None) -> AsyncIterator[Sequence[TaskRows]]:
        """See `Store`."""
        of_space = "true" if namespace is None else "key >> 40 = $5::bigint"
        statement = self._sql["ended_tasks"].format(of_space=of_space)
        space = () if namespace is None else (namespace,)

        async def read(start: tuple[int, int]) -> list[Any]:
            return await self._fetch(statement, *start, SLICE_ROWS, SLICE_BYTES, *space)

        async for rows in _slices(read, (since_ms, _FIRST), lambda row: (row[4], row[0] + 1)):
            yield [TaskRows(*row) for row in rows]

    async def task(self, key: int) -> TaskRows | None:
        """See `Store`."""
        page = await self.scan(key, key, descending=False, limit=1)
        return page.rows[0] if page.rows else None

    async def output(self, key: int, after: int, limit_bytes: int) -> list[OutputRow]:
        """See `Store`."""
        rows: list[OutputRow] = []
        size, read = 0, -1
        while size <= limit_bytes:
            bounds = (after + 1, read, SLICE_ROWS, limit_bytes - size)
            found = [OutputRow(*row) for row in await self._fetch(self._sql["output"], key, *bounds)]
            rows += found
            if len(found) < SLICE_ROWS:
                break
            size += sum(len(row.record) for row in found)
            after = read = found[-1].first
        return rows

    async def steps(self, key: int) -> list[OutputRow]:
        """See `Store`."""
        return [OutputRow(*row) for row in await self._fetch(self._sql["steps"], key)]

    async def output_state(self, key: int) -> OutputState | None:
        """See `Store`."""
        for *newest, firsts, begins in await self._fetch(self._sql["output_state"], key, SEGMENT_BYTES):
            return OutputState(OutputRow(*newest), list(zip(firsts, begins, strict=True)))
        return None

    async def output_sizes(self, first_key: int, last_key: int) -> tuple[int, int | None]:
        """See `Store`."""
        rows = await self._fetch(self._sql["output_sizes"], first_key, last_key, MEASURED_TASKS)
        return sum([size for _, size in rows]), rows[-1][0] + 1 if len(rows) == MEASURED_TASKS else None

    async def outputs(self) -> AsyncIterator[Sequence[OutputRow]]:
        """See `Store`."""

        async def read(start: tuple[int, int]) -> list[Any]:
            return await self._fetch(self._sql["outputs"], *start, SLICE_ROWS, SLICE_BYTES)

        async for rows in _slices(read, (_FIRST, _FIRST), lambda row: (row[0], row[1] + 1)):
            yield [OutputRow(*row) for row in rows]

    async def scan(
        self, first_key: int, last_key: int, *, descending: bool, limit: int, sought: Sought | None = None
    ) -> Page:
        """See `Store`. A page holds fewer than `limit` where rows are large, or `limit` is over a thousand."""
        if sought is not None:
            return await self._seek(first_key, last_key, descending, limit, sought)
        statement = self._sql["scan"].format(order="DESC" if descending else "ASC")
        limit = max(1, min(limit, SLICE_ROWS))
        found = await self._fetch(statement, first_key, last_key, limit + 1, SLICE_BYTES)
        rows = [TaskRows(*row) for row in found[:limit]]
        is_cut = len(found) > limit or _size(found) >= SLICE_BYTES
        next_key = rows[-1].key + (-1 if descending else 1) if is_cut else None
        # A row that is neither live nor ended, which check finds, is none that is shown.
        return Page([row for row in rows if row.state is not None or row.ended is not None], next_key, len(rows))

    async def _seek(self, first_key: int, last_key: int, descending: bool, limit: int, sought: Sought) -> Page:
        statement = self._sql["seek"].format(
            order="DESC" if descending else "ASC",
            last="min" if descending else "max",
            conditions=_conditions(sought, first=6),
        )
        limit = max(1, min(limit, SLICE_ROWS))
        groups = [list(group) for group in sought.task + sought.state]
        arguments = (first_key, last_key, SLICE_ROWS, SLICE_BYTES, limit + 1, *groups, *(sought.ended or ()))
        found = await self._fetch(statement, *arguments)
        looked_at, last = found[0]["looked_at"], found[0]["last"]
        rows = [TaskRows(*row[:5]) for row in found if row["key"] is not None]
        if len(rows) > limit or (rows and sum(map(_size_of, rows)) >= SLICE_BYTES):
            rows = rows[:limit]
            last = rows[-1].key
        elif looked_at < SLICE_ROWS:
            return Page(rows, None, looked_at)
        return Page(rows, last + (-1 if descending else 1), looked_at)

    async def _fetch(self, statement: str, *arguments: Any) -> list[Any]:
        while (commit := self._commit_under_way) is not None:
            await asyncio.wait((commit,))
        return await self._readers.fetch(statement, *arguments)


async def _slices(
    read: Callable[[Any], Awaitable[list[Any]]], start: Any, after: Callable[[Any], Any]
) -> AsyncIterator[list[Any]]:
    """Slices until there is nothing more; the next is read while one is worked on."""
    reading = asyncio.ensure_future(read(start))
    try:
        while True:
            rows = await reading
            if not rows:
                return
            is_last = len(rows) < SLICE_ROWS and _size(rows) < SLICE_BYTES
            if not is_last:
                reading = asyncio.ensure_future(read(after(rows[-1])))
            yield rows
            if is_last:
                return
    finally:
        if not reading.done():
            reading.cancel()


def _conditions(sought: Sought, first: int) -> str:
    """That a row holds what is sought, whose groups and times are parameters from the `first` one on."""
    state = "coalesce(state, ended)"
    is_in = "EXISTS (SELECT FROM unnest(${}::bytea[]) AS f (part) WHERE position(f.part IN {}) > 0)"
    numbers = iter(range(first, first + len(sought.task) + len(sought.state) + 2))
    conditions = [f"{state} IS NOT NULL", *[is_in.format(next(numbers), "task") for _ in sought.task]]
    of_state = " AND ".join([is_in.format(next(numbers), state) for _ in sought.state]) or "true"
    conditions.append(f"CASE WHEN {state} = '' THEN {sought.may_be_as_submitted} ELSE {of_state} END")
    if sought.ended is not None:
        conditions.append(f"at BETWEEN ${next(numbers)}::bigint AND ${next(numbers)}::bigint")
    return " AND ".join(conditions)


def _size_of(row: TaskRows) -> int:
    return len(row.task) + len(row.state or b"") + len(row.ended or b"")


def _size(rows: list[Any]) -> int:
    return sum(len(value) for row in rows for value in row if type(value) is bytes)
