"""A store of plain dicts, for tests: it keeps what was committed for as long as the object lives.

What a process has not committed when it ends is lost by not being given to `commit`; `copy` is the same store after
the process ended.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any

from taskyard_server.store.port import (
    LAST_KEY,
    SEGMENT_BYTES,
    BackupFailed,
    Committed,
    Group,
    OutputCut,
    OutputRow,
    OutputState,
    Page,
    Row,
    Sought,
    Store,
    StoreError,
    StoreMeta,
    StoreStats,
    Table,
    TaskRows,
    namespace_of,
)

SLICE = 1000


class DictStore:
    """Rows by table and key. `ended` holds the time with the record, `said` the output of tasks by first numbers."""

    url = "dict://"

    def __init__(self) -> None:
        self.tables: dict[Table, dict[int, bytes]] = {table: {} for table in Table if table is not Table.ENDED}
        self.ended: dict[int, tuple[int, bytes]] = {}
        self.said: dict[int, dict[int, OutputRow]] = {}
        self.meta = StoreMeta(0, 0.0, 0)

    def copy(self) -> DictStore:
        """Another store that holds the same."""
        other = DictStore()
        other.tables = {table: dict(rows) for table, rows in self.tables.items()}
        other.ended, other.meta = dict(self.ended), self.meta
        other.said = {key: dict(rows) for key, rows in self.said.items()}
        return other

    async def open(self) -> StoreMeta:
        return self.meta

    async def commit(self, group: Group) -> Committed:
        self.write(group)
        return Committed(0.0, 0, 1 << 40)

    def write(self, group: Group) -> None:
        """Commit at once. As a real one does, it refuses gaps and takes a repeated group as written."""
        if group.number <= self.meta.number:
            return
        if group.number != self.meta.number + 1:
            raise StoreError(f"group {group.number} follows {self.meta.number}")
        self.cut_output(group.output_cuts)
        self.put_output(group.outputs)
        for key in group.removes.get(Table.TASKS, ()):
            self.said.pop(key, None)
        for table, keys in group.removes.items():
            rows = self.ended if table is Table.ENDED else self.tables[table]
            for key in keys:
                rows.pop(key, None)
        for table, puts in group.puts.items():
            keys = [key for key, _ in puts]
            assert len(keys) == len(set(keys)), f"a row of {table.name} is written twice"
            if table is Table.SECRETS:
                puts = [row for row in puts if row[0] not in self.tables[table]]
            self.tables[table].update(puts)
        for key, at, record in group.ended:
            self.ended[key] = (at, record)
        self.meta = StoreMeta(group.number, group.at, self.meta.epoch)

    def cut_output(self, cuts: Sequence[OutputCut]) -> None:
        for key, before in cuts:
            rows = self.said.get(key, {})
            self.said[key] = {first: row for first, row in rows.items() if first < 0 or first >= before}

    def put_output(self, rows: Sequence[OutputRow]) -> None:
        for row in rows:
            self.said.setdefault(row.key, {})[row.first] = row

    async def rows(
        self, table: Table, *, after_key: int = -1, last_key: int = LAST_KEY, limit: int | None = None
    ) -> AsyncIterator[Sequence[Row]]:
        rows = sorted(row for row in self.tables[table].items() if after_key < row[0] <= last_key)[:limit]
        for first in range(0, len(rows), SLICE):
            yield rows[first : first + SLICE]
            await asyncio.sleep(0)

    async def live_tasks(self, namespace: int | None = None) -> AsyncIterator[Sequence[TaskRows]]:
        rows = sorted(row for row in self.tables[Table.STATES].items() if namespace in (None, namespace_of(row[0])))
        tasks = self.tables[Table.TASKS]
        for first in range(0, len(rows), SLICE):
            yield [TaskRows(key, tasks[key], state, None, None) for key, state in rows[first : first + SLICE]]
            await asyncio.sleep(0)

    async def ended_tasks(self, since_ms: int, namespace: int | None = None) -> AsyncIterator[Sequence[TaskRows]]:
        found = ((at, key) for key, (at, _) in self.ended.items() if namespace in (None, namespace_of(key)))
        rows = sorted(row for row in found if row[0] >= since_ms)
        for first in range(0, len(rows), SLICE):
            yield [self._of(key) for _, key in rows[first : first + SLICE]]
            await asyncio.sleep(0)

    async def task(self, key: int) -> TaskRows | None:
        return self._of(key) if key in self.tables[Table.TASKS] else None

    async def output(self, key: int, after: int, limit_bytes: int) -> list[OutputRow]:
        rows = self._output(key)
        start = max((row.first for row in rows if row.first <= after + 1), default=0)
        found: list[OutputRow] = []
        for row in rows:
            if row.first >= start and sum(len(each.record) for each in found) <= limit_bytes:
                found.append(row)
        return found

    async def steps(self, key: int) -> list[OutputRow]:
        return sorted([row for row in self.said.get(key, {}).values() if row.first < 0], reverse=True)

    def _output(self, key: int) -> list[OutputRow]:
        return sorted([row for row in self.said.get(key, {}).values() if row.first > 0])

    async def output_state(self, key: int) -> OutputState | None:
        rows = self._output(key)
        if not rows:
            return None
        segments = {row.begin // SEGMENT_BYTES: (row.first, row.begin) for row in reversed(rows)}
        return OutputState(rows[-1], sorted(segments.values()))

    async def output_sizes(self, first_key: int, last_key: int) -> tuple[int, int | None]:
        rows = [row for key in self.said if first_key <= key <= last_key for row in self._output(key)]
        return sum(len(row.record) for row in rows), None

    async def outputs(self) -> AsyncIterator[Sequence[OutputRow]]:
        for key in sorted(self.said):
            if rows := sorted(self.said[key].values()):
                yield rows
                await asyncio.sleep(0)

    async def scan(
        self, first_key: int, last_key: int, *, descending: bool, limit: int, sought: Sought | None = None
    ) -> Page:
        keys: list[int] = []
        for key in self.tables[Table.TASKS]:
            if first_key <= key <= last_key:
                insort(keys, key)
        if descending:
            keys.reverse()
        rows = [self._of(key) for key in keys[:limit]]
        found = [row for row in rows if sought is None or holds(row, sought)]
        return Page(found, keys[limit] if len(keys) > limit else None, len(rows))

    async def forget(self, before_ms: int, limit: int, kept: Collection[int] = ()) -> int:
        keys = [key for key, (at, _) in self.ended.items() if at < before_ms and key not in kept][:limit]
        for key in keys:
            del self.ended[key]
            del self.tables[Table.TASKS][key]
            self.said.pop(key, None)
        return len(keys)

    async def remove_namespace(self, number: int, limit: int) -> int:
        tasks, states = self.tables[Table.TASKS], self.tables[Table.STATES]
        of_tasks: tuple[dict[int, Any], ...] = (tasks, states, self.ended, self.said)
        belong = (*range(Table.STOPPING, Table.OUTBOX + 1), Table.OPERATIONS, Table.RULES, Table.EVENTS)
        others = [self.tables[table] for table in Table if table in belong]
        for rows, beside in (
            (tasks, of_tasks),
            *((rows, (rows,)) for rows in (states, self.ended, self.said, *others)),
        ):
            if keys := [key for key in rows if namespace_of(key) == number][:limit]:
                for table in beside:
                    for key in keys:
                        table.pop(key, None)
                return len(keys)
        return int(self.tables[Table.NAMESPACES].pop(number, None) is not None)

    async def check(self) -> list[str]:
        return self.wrong()

    def wrong(self) -> list[str]:
        """What is wrong with it, a line each."""
        tasks, states = self.tables[Table.TASKS], self.tables[Table.STATES]
        wrong = [f"task {key} is live and has ended" for key in states.keys() & self.ended.keys()]
        wrong += [f"task {key} has no state" for key in tasks.keys() - states.keys() - self.ended.keys()]
        wrong += [f"state {key} is of no task" for key in (states.keys() | self.ended.keys()) - tasks.keys()]
        wrong += [f"output of {key} is of no task" for key, rows in self.said.items() if rows and key not in tasks]
        return wrong

    async def backup(self, path: str, *, replace: bool = False) -> None:
        raise BackupFailed(f"a dict has no file {path} to replace: {replace}")

    async def stats(self) -> StoreStats:
        rows = {table.name.lower(): len(rows) for table, rows in self.tables.items()}
        rows |= {"ended": len(self.ended), "output": sum(map(len, self.said.values()))}
        return StoreStats(rows, 0, 1 << 40, *self.meta, 0)

    async def free_bytes(self) -> int:
        return 1 << 40

    async def go_on_from(self, meta: StoreMeta) -> None:
        if self.meta.number:
            raise StoreError("the dict is in use already")
        self.meta = meta

    async def close(self) -> None:
        pass

    def _of(self, key: int) -> TaskRows:
        at, ended = self.ended.get(key, (None, None))
        return TaskRows(key, self.tables[Table.TASKS][key], self.tables[Table.STATES].get(key), ended, at)


def is_a_store(store: DictStore) -> Store:
    """For the type checker."""
    return store


def holds(row: TaskRows, sought: Sought) -> bool:
    """True if the rows of a task hold what is sought, as the port says it."""
    state = row.ended if row.state is None else row.state
    if state is None:
        return False
    if sought.ended is not None and (row.ended_at is None or not sought.ended[0] <= row.ended_at <= sought.ended[1]):
        return False
    if state == b"" and not sought.may_be_as_submitted:
        return False
    groups = [(row.task, group) for group in sought.task] + [(state, group) for group in sought.state if state]
    return all(any(part in record for part in group) for record, group in groups)
