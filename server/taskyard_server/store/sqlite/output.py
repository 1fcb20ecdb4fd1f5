"""The output of tasks and their steps in a SQLite store, a part of `YardRows`.

Rows are kept in the order of tasks, so that those of one are read and removed together. What many tasks say at once
would then change a page of each of them in each commit, of four thousand bytes for sixty. So short rows first go to the
end of a table, `output_tail`, and are moved many at once: a fifth of the time and of what is written for a thousand
tasks that speak all the time. Reads see both tables as one.
"""

from __future__ import annotations

import sqlite3

from .many_rows import for_each, putting, read_slice, removing

TYPE_CHECKING = False  # typing would be a quarter of what the process takes to start.
if TYPE_CHECKING:
    from typing import Final

    from .many_rows import Rows

SLICE_ROWS: Final = 1000
COUNTED_ROWS: Final = 20_000
MEASURED_TASKS: Final = 200
SHORT_BYTES: Final = 1 << 10
"""Records from this size on fill a good part of a page alone, and go to their place at once."""
REMOVED_BYTES: Final = 8 << 20
"""No more output is removed at once, but for that of one task."""


class YardOutput:
    """The output in an open file. Its changes belong to the transaction of who calls."""

    def __init__(self, db: sqlite3.Connection, sql: dict[str, str]) -> None:
        self._db = db
        self._sql = sql
        self._put_output = putting(sql["put_output"])
        self._put_output_tail = putting(sql["put_output_tail"])
        self._remove_output = [removing(sql["remove_output"]), removing(sql["remove_output_tail"])]
        (self._tail,) = db.execute(sql["count_output_tail"]).fetchone()
        """As many rows as the tail has, or more."""

    def _write_output(self, cuts: Rows, rows: Rows) -> None:
        if cuts:
            self._db.executemany(self._sql["cut_output"], cuts)
            if self._tail:
                self._db.executemany(self._sql["cut_output_tail"], cuts)
        if rows:
            short = [row for row in rows if len(row[3]) < SHORT_BYTES]
            self._tail += len(short)
            for_each(self._db, self._put_output_tail, short)
            if len(short) < len(rows):
                for_each(self._db, self._put_output, [row for row in rows if len(row[3]) >= SHORT_BYTES])

    def _remove_output_of(self, keys: Rows) -> None:
        for statements in self._remove_output[: 2 if self._tail else 1]:
            for_each(self._db, statements, keys)

    def _move_tail(self) -> None:
        self._db.execute(self._sql["move_output_tail"])
        self._db.execute(self._sql["empty_output_tail"])

    def _removed_at_once(self, keys: Rows) -> Rows:
        """The first of these tasks, with up to `REMOVED_BYTES` of output in all, and with the one that exceeds it."""
        size = 0
        for count, key in enumerate(keys, 1):
            size += (self._db.execute(self._sql["output_begin"], key).fetchone() or (0,))[0]
            if size > REMOVED_BYTES:
                return keys[:count]
        return keys

    def output(self, key: int, after: int, limit_bytes: int) -> Rows:
        """The rows of a task's output from the one on that holds the number after `after`, if one does."""
        return read_slice(self._db, self._sql["output"], (key, after), None, limit_bytes)[0]

    def steps(self, key: int) -> Rows:
        """The steps of a task, in order."""
        return self._db.execute(self._sql["steps"], (key,)).fetchall()

    def output_state(self, key: int, segment_bytes: int) -> tuple[tuple[int, int, int, bytes], Rows] | None:
        """The newest row of a task's output, and the first number and byte of each segment."""
        newest = self._db.execute(self._sql["newest_output"], (key,)).fetchone()
        segments = self._db.execute(self._sql["output_segments"], (key, segment_bytes)).fetchall()
        return None if newest is None else (newest, segments)

    def output_sizes(self, first_key: int, last_key: int) -> tuple[int, int | None]:
        """The bytes of output of some tasks between two keys, and the key to go on from; None at the end."""
        sizes = self._db.execute(self._sql["output_sizes"], (first_key, last_key, MEASURED_TASKS)).fetchall()
        return sum([size for _, size in sizes]), sizes[-1][0] + 1 if len(sizes) == MEASURED_TASKS else None

    def outputs(self, start: tuple[int, int]) -> tuple[Rows, tuple[int, int] | None]:
        """Some output from a key and first number on, and where to go on from; None at the end."""
        rows, more = read_slice(self._db, self._sql["outputs"], start, SLICE_ROWS)
        return rows, (rows[-1][0], rows[-1][1] + 1) if more else None

    def _count_output(self, start: tuple[int, int]) -> tuple[int, tuple[int, int] | None]:
        """How many rows of output there are in a slice, and where to go on from; the same while rows are moved."""
        following = self._db.execute(self._sql["output_at"], (*start, COUNTED_ROWS)).fetchone()
        if following is not None:
            return COUNTED_ROWS, following
        return self._db.execute(self._sql["count_output"], start).fetchone()[0], None
