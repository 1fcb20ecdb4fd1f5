"""Copies all rows of a store into another, empty one, which may be of another kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol

from .port import Group, OutputRow, Row, Store, StoreError, StoreMeta, StoreStats, Table, TaskRows
from .records.records import decode_namespace
from .shared_port import is_shared

OTHER_TABLES: Final = tuple(
    table for table in Table if table not in (Table.NAMESPACES, Table.TASKS, Table.STATES, Table.ENDED)
)


class CopySource(Protocol):
    """The part of a store that is read to copy it. See `Store`."""

    @property
    def url(self) -> str: ...
    async def open(self) -> StoreMeta: ...
    async def close(self) -> None: ...
    async def stats(self) -> StoreStats: ...
    def rows(self, table: Table) -> AsyncIterator[Sequence[Row]]: ...
    def live_tasks(self) -> AsyncIterator[Sequence[TaskRows]]: ...
    def ended_tasks(self, since_ms: int) -> AsyncIterator[Sequence[TaskRows]]: ...
    def outputs(self) -> AsyncIterator[Sequence[OutputRow]]: ...


async def copy(source: CopySource, target: Store) -> StoreStats:
    """Copy all rows between two opened stores; the figures of the copy.

    The copy goes on with the numbers and the epoch of the source, whose rows must not change meanwhile. Raises
    `StoreError` if the target was ever used, or does not hold as many rows as the source afterwards.
    """
    before = await source.stats()
    await target.go_on_from(StoreMeta(before.number, before.at, before.epoch))
    number = before.number
    async for group in _groups(source, before.at):
        number += 1
        group.number = number
        await target.commit(group)
    if is_shared(target):
        await target.adopt(await _names(target))
    copied = await target.stats()
    if copied.rows != before.rows:
        raise StoreError(f"{target.url} holds other rows than {source.url} after the copy; copy again")
    return copied


async def _names(store: Store) -> dict[int, str | None]:
    """The names of the namespaces by number; None for one that is deleted, and of which some rows are left."""
    names: dict[int, str | None] = {}
    async for rows in store.rows(Table.NAMESPACES):
        for number, row in rows:
            record = decode_namespace(row)
            names[number] = None if record.is_deleted else record.name
    return names


async def _groups(source: CopySource, at: float) -> AsyncIterator[Group]:
    """A group for each slice. The namespaces come last: without them a copy that was cut off is found by a check."""
    async for tasks in source.live_tasks():
        group = Group(0, at)
        for task in tasks:
            group.put(Table.TASKS, task.key, task.task)
            group.put(Table.STATES, task.key, task.state or b"")
        yield group
    async for tasks in source.ended_tasks(0):
        group = Group(0, at)
        for task in tasks:
            group.put(Table.TASKS, task.key, task.task)
            group.ended.append((task.key, task.ended_at or 0, task.ended or b""))
        yield group
    async for output in source.outputs():
        yield Group(0, at, outputs=list(output))
    for table in (*OTHER_TABLES, Table.NAMESPACES):
        async for rows in source.rows(table):
            group = Group(0, at)
            for key, record in rows:
                group.put(table, key, record)
            yield group
