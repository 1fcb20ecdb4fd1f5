"""A store in a file of SQLite, for one server: `sqlite:///PATH`.

The file is open in a process of its own (sqlite_writer.py); here requests go to it and answers come back, and the
loop never waits for the disk.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any, Final

from taskyard_server.store.port import (
    LAST_KEY,
    SEGMENT_BYTES,
    BackupFailed,
    Committed,
    Group,
    OutputRow,
    OutputState,
    Page,
    Row,
    Sought,
    StoreMeta,
    StoreStats,
    Table,
    TaskRows,
    keys_of,
)

from .copies import prepare, put_in_place, remove
from .file import TABLES, free_bytes
from .pipe import WriterProcess, command

SCHEME: Final = "sqlite://"
BALLAST_BYTES: Final = 4 << 20
"""The bytes that a server sets aside for when the disk is full."""
_FIRST: Final = -(1 << 63)


class SqliteStore:
    """Implements `port.Store`.

    `synchronous` is full, or normal for who may lose the last moment at a power cut. A file that another server still
    has open is waited for up to `wait_secs`. `ballast_bytes` are set aside for when the disk is full, where there are
    that many beside `min_free_bytes`. `command` starts the writer, for tests.
    """

    def __init__(
        self,
        path: str,
        *,
        synchronous: str = "full",
        wait_secs: float = 5.0,
        ballast_bytes: int = BALLAST_BYTES,
        min_free_bytes: int = 64 << 20,
        command: Sequence[str] = command("writer"),
    ) -> None:
        # As it is now: a writer may be started again after the working directory has changed. And where a link leads:
        # there the log lies, and that disk's room counts.
        self.path = os.path.realpath(path)
        self._min_free_bytes = min_free_bytes
        self._url = f"{SCHEME}/{path}"
        arguments = [synchronous, str(wait_secs), str(ballast_bytes), str(min_free_bytes)]
        self._writer = WriterProcess(self.path, arguments, command)

    @property
    def url(self) -> str:
        """`sqlite:///` with the path as it was given."""
        return self._url

    @property
    def writer_pid(self) -> int | None:
        """The process that has the file open."""
        return self._writer.pid

    async def open(self) -> StoreMeta:
        """See `Store`."""
        return StoreMeta(*await self._writer.start())

    async def commit(self, group: Group) -> Committed:
        """See `Store`."""
        removes = [(int(table), keys) for table, keys in group.removes.items() if keys]
        puts: list[tuple[int, Sequence[Any]]] = [(int(table), rows) for table, rows in group.puts.items() if rows]
        if group.ended:
            puts.append((int(Table.ENDED), group.ended))
        # The format of the pipe has no named tuples.
        output = [list(map(tuple, rows)) for rows in (group.output_cuts, group.outputs)]
        return Committed(*await self._writer.call("commit", group.number, group.at, removes, puts, *output))

    async def rows(
        self, table: Table, *, after_key: int = -1, last_key: int = LAST_KEY, limit: int | None = None
    ) -> AsyncIterator[Sequence[Row]]:
        """See `Store`."""
        if limit is None:
            async for rows in self._slices("rows", int(table), last_key, LAST_KEY, start=after_key + 1):
                yield rows
            return
        start: int | None = after_key + 1
        while start is not None and limit > 0:
            rows, start = await self._writer.call("rows", int(table), last_key, limit, start)
            limit -= len(rows)
            if rows:
                yield rows

    async def live_tasks(self, namespace: int | None = None) -> AsyncIterator[Sequence[TaskRows]]:
        """See `Store`."""
        first, last = (_FIRST, LAST_KEY) if namespace is None else keys_of(namespace)
        async for rows in self._slices("live_tasks", last, start=first):
            yield [TaskRows(*row) for row in rows]

    async def ended_tasks(self, since_ms: int, namespace: int | None = None) -> AsyncIterator[Sequence[TaskRows]]:
        """See `Store`."""
        keys = None if namespace is None else keys_of(namespace)
        async for rows in self._slices("ended_tasks", keys, start=(since_ms, _FIRST)):
            yield [TaskRows(*row) for row in rows]

    async def _slices(self, method: str, *arguments: Any, start: Any) -> AsyncIterator[list[Any]]:
        """Slices, each with where to go on from; the next is asked for while one is worked on."""
        answer = self._writer.ask(method, *arguments, start)
        try:
            while True:
                rows, start = await answer
                if start is not None:
                    answer = self._writer.ask(method, *arguments, start)
                if rows:
                    yield rows
                if start is None:
                    return
        finally:
            answer.cancel()

    async def task(self, key: int) -> TaskRows | None:
        """See `Store`."""
        rows, _ = await self._writer.call("scan", key, key, False, 1)
        return TaskRows(*rows[0]) if rows else None

    async def output(self, key: int, after: int, limit_bytes: int) -> list[OutputRow]:
        """See `Store`."""
        return [OutputRow(*row) for row in await self._writer.call("output", key, after, limit_bytes)]

    async def steps(self, key: int) -> list[OutputRow]:
        """See `Store`."""
        return [OutputRow(*row) for row in await self._writer.call("steps", key)]

    async def output_state(self, key: int) -> OutputState | None:
        """See `Store`."""
        found = await self._writer.call("output_state", key, SEGMENT_BYTES)
        return None if found is None else OutputState(OutputRow(*found[0]), found[1])

    async def output_sizes(self, first_key: int, last_key: int) -> tuple[int, int | None]:
        """See `Store`."""
        size, next_key = await self._writer.call("output_sizes", first_key, last_key)
        return size, next_key

    async def outputs(self) -> AsyncIterator[Sequence[OutputRow]]:
        """See `Store`."""
        async for rows in self._slices("outputs", start=(_FIRST, _FIRST)):
            yield [OutputRow(*row) for row in rows]

    async def scan(
        self, first_key: int, last_key: int, *, descending: bool, limit: int, sought: Sought | None = None
    ) -> Page:
        """See `Store`. A page holds fewer than `limit` where rows are large, or `limit` is over a thousand."""
        if sought is None:
            rows, next_key = await self._writer.call("scan", first_key, last_key, descending, limit)
            return Page([TaskRows(*row) for row in rows], next_key, len(rows))
        rows, next_key, looked_at = await self._writer.call(
            "seek", first_key, last_key, descending, limit, tuple(sought)
        )
        return Page([TaskRows(*row) for row in rows], next_key, looked_at)

    async def forget(self, before_ms: int, limit: int, kept: Collection[int] = ()) -> int:
        """See `Store`."""
        return await self._removed("forget", (before_ms, list(kept)), limit)

    async def remove_namespace(self, number: int, limit: int) -> int:
        """See `Store`."""
        return await self._removed("remove_namespace", (number,), limit)

    async def _removed(self, method: str, which: tuple[object, ...], limit: int) -> int:
        """How many were removed, in slices as large as the writer makes them."""
        removed = 0
        while removed < limit and (found := await self._writer.call(method, *which, limit - removed)):
            removed += found
        return removed

    async def check(self) -> list[str]:
        """See `Store`. A copy beside the file is checked, in a process of its own, so that no commit waits."""
        copy = self.path + ".check"
        await self._prepare(copy, copy, replace=True)
        try:
            await self._writer.call("copy", copy)
            return await _checked(copy)
        finally:
            await asyncio.to_thread(remove, copy)

    async def backup(self, path: str, *, replace: bool = False) -> None:
        """See `Store`. The backup is one file, which only its owner may read; its folder must be there."""
        path = os.path.abspath(path)  # noqa: ASYNC240
        part = path + ".part"
        await self._prepare(part, path, replace=replace)
        try:
            await self._writer.call("copy", part)
            await asyncio.to_thread(put_in_place, part, path, replace)
        except BaseException:
            await asyncio.to_thread(remove, part)
            raise

    async def _prepare(self, path: str, final: str, *, replace: bool) -> None:
        free = self._min_free_bytes
        await asyncio.to_thread(prepare, self.path, path, final=final, replace=replace, min_free_bytes=free)

    async def stats(self) -> StoreStats:
        """See `Store`. Large tables are counted in slices, so while commits go on."""
        rows = {table: await self._count(table, _FIRST) for table in TABLES}
        rows["output"] = await self._count("output", (_FIRST, _FIRST))
        return StoreStats(rows, *await self._writer.call("figures"))

    async def free_bytes(self) -> int:
        """See `Store`."""
        return await asyncio.to_thread(free_bytes, os.path.dirname(self.path))

    async def _count(self, table: str, start: Any) -> int:
        total = 0
        while start is not None:
            found, start = await self._writer.call("count", table, start)
            total += found
        return total

    async def go_on_from(self, meta: StoreMeta) -> None:
        """See `Store`."""
        await self._writer.call("go_on_from", *meta)

    async def close(self) -> None:
        """See `Store`."""
        await self._writer.close()


async def _checked(path: str) -> list[str]:
    """The output of the check of a file."""
    process = await asyncio.create_subprocess_exec(
        *command("check"), path, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    try:
        printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        raise BackupFailed(f"{path}: its check ended with status {process.returncode}; try again")
    return printed.decode(errors="replace").splitlines()
