"""The writer's work on rows of a SQLite store: a method a request.

Each takes and returns what marshal can carry. Reads come in slices, so that none holds up a commit for long.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable
from functools import partial

from .file import TABLES, VERSION, Unusable, primary
from .many_rows import SLICE_BYTES, for_each, putting, read_slice, removing
from .output import COUNTED_ROWS, SLICE_ROWS, YardOutput
from .upkeep import Ballast, Log

TYPE_CHECKING = False  # typing would be a quarter of what the process takes to start.
if TYPE_CHECKING:
    from typing import Any, Final

    from .many_rows import Rows

    Removes = tuple[int, list[int]]
    Groups = tuple[tuple[bytes, ...], ...]
    Sought = tuple[Groups, Groups, bool, tuple[int, int] | None]
    """`port.Sought`, which is not imported here."""
    Puts = tuple[int, Rows]
    """A table, by its index in `TABLES`, with keys or rows."""

SOUGHT_ROWS: Final = 1_000
"""How many rows are looked at in a slice, of which most are passed by."""
FORGOTTEN_ROWS: Final = 500
MOVED_ROWS: Final = 20_000
"""This many rows in the tail of the output are moved even while commits come without a pause."""
MOVED_IN_PAUSE: Final = 2_000
NAMESPACE_SHIFT: Final = 40
OF_TASKS: Final = ("states", "ended", "tasks")
WITH_OUTPUT: Final = ("tasks", "output")
OF_NAMESPACES: Final = (
    "stopping",
    "hosts",
    "agents",
    "schedules",
    "triggers",
    "outbox",
    "operations",
    "rules",
    "events",
)


class YardRows(YardOutput):
    """The rows of an open file."""

    def __init__(self, db: sqlite3.Connection, path: str, log: Log, ballast: Ballast, sql: dict[str, str]) -> None:
        super().__init__(db, sql)
        self._path = path
        self._log = log
        self._ballast = ballast
        self._left_in_tail = 0
        """How many rows the tail of the output had when there was no room to move it."""
        self._puts = [putting(sql[f"put_{table}"]) for table in TABLES]
        self._removes = [removing(sql[f"remove_{table}"]) for table in TABLES]
        self._number: int
        self._at: float
        self._epoch: int
        self._number, self._at, self._epoch = db.execute(sql["read_meta"]).fetchone()

    def meta(self) -> tuple[int, float, int]:
        """The number and time of the last commit, and the epoch."""
        return self._number, self._at, self._epoch

    def commit(
        self, number: int, at: float, removes: list[Removes], puts: list[Puts], cuts: Rows, outputs: Rows
    ) -> tuple[float, int, int]:
        """Write a group. The seconds that it took, the bytes used and free."""
        began = time.perf_counter()
        if number > self._number + 1:
            raise Unusable(f"{self._path}: commit {number} came after {self._number}; this is a defect of Taskyard")
        if number > self._number:
            self._write(lambda: self._write_group(number, at, removes, puts, cuts, outputs))
            self._number = number
            self._at = at
        return (time.perf_counter() - began, self._used_bytes(), self._ballast.free_bytes())

    def go_on_from(self, number: int, at: float, epoch: int) -> None:
        """Take over the numbers of another store, as long as nothing was committed; again changes nothing."""
        if self._number and self.meta() != (number, at, epoch):
            raise Unusable(f"{self._path} is in use already; name a new file")
        self._write(lambda: self._write_meta(number, at, epoch))
        self._number, self._at, self._epoch = number, at, epoch

    def _write_meta(self, number: int, at: float, epoch: int) -> None:
        self._db.execute(self._sql["go_on_from"], (number, at, epoch))

    def _write_group(
        self, number: int, at: float, removes: list[Removes], puts: list[Puts], cuts: Rows, outputs: Rows
    ) -> None:
        self._write_output(cuts, outputs)
        for table, keys in removes:
            self._remove_each((TABLES[table],), list(zip(keys)))
        for table, rows in puts:
            for_each(self._db, self._puts[table], rows)
        self._db.execute(self._sql["write_meta"], (number, at))

    def forget(self, before_ms: int, kept: list[int], limit: int) -> int:
        """Remove some tasks that ended before a time, but none with these keys; how many."""
        limit = min(limit, FORGOTTEN_ROWS)
        keys = self._db.execute(self._sql["ended_before"], (before_ms, f"{kept}", limit)).fetchall()
        if keys:
            keys = self._removed_at_once(keys)
            self._write(lambda: self._remove_each(("ended", "tasks"), keys))
        return len(keys)

    def remove_namespace(self, number: int, limit: int) -> int:
        """Remove some rows of a namespace, its own row last; how many, those of a task counted once."""
        first, last = number << NAMESPACE_SHIFT, (number + 1 << NAMESPACE_SHIFT) - 1
        limit = min(limit, FORGOTTEN_ROWS)
        # Tasks as a whole, so that none is ever half there.
        alone = (*OF_TASKS, "output", *OF_NAMESPACES)
        for table, others in (("tasks", OF_TASKS), *((table, (table,)) for table in alone)):
            keys = self._db.execute(self._sql[f"keys_of_{table}"], (first, last, limit)).fetchall()
            if keys:
                keys = self._removed_at_once(keys) if table in WITH_OUTPUT else keys
                self._write(partial(self._remove_each, others, keys))
                return len(keys)
        keys = self._db.execute(self._sql["keys_of_namespaces"], (number, number, 1)).fetchall()
        if keys:
            self._write(lambda: self._remove_each(("namespaces",), keys))
        return len(keys)

    def _remove_each(self, tables: Iterable[str], keys: Rows) -> None:
        """Remove these keys from each table; output goes with its task."""
        for table in tables:
            if table in WITH_OUTPUT:
                self._remove_output_of(keys)
            if table != "output":
                for_each(self._db, self._removes[TABLES.index(table)], keys)

    def move_output(self, rows: int = MOVED_ROWS) -> None:
        """Move the tail of the output if it has grown by this many rows."""
        if self._tail - self._left_in_tail < rows:
            return
        try:
            self._transact(self._move_tail)
        except sqlite3.OperationalError as error:
            if primary(error) != sqlite3.SQLITE_FULL:
                raise
            # It stays where it is, and grows on, until there is room.
            self._left_in_tail = self._tail
        else:
            self._tail = self._left_in_tail = 0
            self._log.written()

    def _write(self, write: Callable[[], None]) -> None:
        """Do it in one transaction, with the room of the ballast where the disk is full. Raises `Delayed`."""
        try:
            self._transact(write)
        except sqlite3.OperationalError as error:
            if primary(error) != sqlite3.SQLITE_FULL or not self._ballast.give_up():
                raise
            self._transact(write)
        self._log.written()

    def _transact(self, write: Callable[[], None]) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            write()
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def rows(self, table: int, last_key: int, limit: int, first_key: int) -> tuple[Rows, int | None]:
        """Some rows of a table between two keys, and the key to go on from; None at the end."""
        statement = self._sql[f"rows_of_{TABLES[table]}"]
        rows, more = read_slice(self._db, statement, (first_key, last_key), max(1, min(limit, SLICE_ROWS)))
        return rows, rows[-1][0] + 1 if more else None

    def live_tasks(self, last_key: int, first_key: int) -> tuple[Rows, int | None]:
        """Some live tasks between two keys, and the key to go on from."""
        rows, more = read_slice(self._db, self._sql["live_tasks"], (first_key, last_key), SLICE_ROWS)
        return rows, rows[-1][0] + 1 if more else None

    def ended_tasks(self, keys: tuple[int, int] | None, since: tuple[int, int]) -> tuple[Rows, tuple[int, int] | None]:
        """Some ended tasks, all or those between two keys, from a time and key on, and where to go on from."""
        if keys is None:
            rows, more = read_slice(self._db, self._sql["ended_tasks"], since, SLICE_ROWS)
        else:
            rows, more = read_slice(self._db, self._sql["ended_tasks_of"], (*since, *keys), SLICE_ROWS)
        return rows, (rows[-1][4], rows[-1][0] + 1) if more else None

    def scan(self, first_key: int, last_key: int, descending: bool, limit: int) -> tuple[Rows, int | None]:
        """Some tasks between two keys, and the key to go on from."""
        statement = self._sql["scan_down" if descending else "scan_up"]
        rows, more = read_slice(self._db, statement, (first_key, last_key), max(1, min(limit, SLICE_ROWS)))
        return rows, rows[-1][0] + (-1 if descending else 1) if more else None

    def seek(
        self, first_key: int, last_key: int, descending: bool, limit: int, sought: Sought
    ) -> tuple[Rows, int | None, int]:
        """Some tasks between two keys that hold what is sought, the key to go on from, and how many it looked at."""
        task_groups, state_groups, may_be_as_submitted, ended = sought
        rows: Rows = []
        looked_at = size = key = 0
        cursor = self._db.execute(self._sql["scan_down" if descending else "scan_up"], (first_key, last_key))
        try:
            for key, task, state, end, at in cursor:
                looked_at += 1
                record = end if state is None else state
                if (
                    _holds(task, task_groups)
                    and (_holds(record, state_groups) if record else may_be_as_submitted)
                    and (ended is None or (at is not None and ended[0] <= at <= ended[1]))
                ):
                    rows.append((key, task, state, end, at))
                    size += len(task) + len(record)
                if looked_at >= SOUGHT_ROWS or len(rows) >= limit or size > SLICE_BYTES:
                    return rows, key + (-1 if descending else 1), looked_at
        finally:
            cursor.close()
        return rows, None, looked_at

    def count(self, table: str, start: Any) -> tuple[int, Any]:
        """How many rows there are in a slice of a table from a key on, and the key to go on from.

        Both are a key and a first number for output.
        """
        if table == "output":
            return self._count_output(start)
        found, last = self._db.execute(self._sql[f"count_{table}"], (start, COUNTED_ROWS)).fetchone()
        return found, last + 1 if found == COUNTED_ROWS else None

    def figures(self) -> tuple[int, int, int, float, int, int]:
        """Bytes used and free, the number and time of the last commit, the epoch, the version of the schema."""
        return self._used_bytes(), self._ballast.free_bytes(), *self.meta(), VERSION

    def _used_bytes(self) -> int:
        return os.stat(self._path).st_size + self._log.bytes()


def _holds(record: bytes, groups: Groups) -> bool:
    """True if one of each group stands in a record."""
    return all(any(each in record for each in group) for group in groups)
