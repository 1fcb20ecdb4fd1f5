"""Many rows of a SQLite store at once: written by few statements, and read in slices."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from itertools import chain

TYPE_CHECKING = False  # typing would be a quarter of what the process takes to start.
if TYPE_CHECKING:
    from typing import Any, Final

    Rows = list[tuple[Any, ...]]

AT_ONCE: Final = (100, 10)
"""This many rows are written by one statement, where there are as many: that takes half the time of one for each."""
SLICE_BYTES: Final = 1 << 20


def putting(statement: str) -> list[str]:
    """The statements that put as many rows as `AT_ONCE` says, and the one that puts one row."""
    head, one = statement.rstrip(";").split("VALUES ")
    return [*(f"{head}VALUES {', '.join([one] * count)}" for count in AT_ONCE), statement]


def removing(statement: str) -> list[str]:
    """The statements that remove as many rows as `AT_ONCE` says, and the one that removes one row."""
    head = statement.removesuffix("= ?;")
    return [*(f"{head}IN ({', '.join('?' * count)})" for count in AT_ONCE), statement]


def for_each(db: sqlite3.Connection, statements: list[str], rows: Rows) -> None:
    """Do for each row, in their order, what the last of these statements does for one."""
    begin = 0
    for count, statement in zip(AT_ONCE, statements, strict=False):
        while len(rows) - begin >= count:
            db.execute(statement, tuple(chain.from_iterable(rows[begin : begin + count])))
            begin += count
    if begin < len(rows):
        db.executemany(statements[-1], rows[begin:])


def read_slice(
    db: sqlite3.Connection, statement: str, parameters: Iterable[Any], limit: int | None, limit_bytes: int = SLICE_BYTES
) -> tuple[Rows, bool]:
    """Up to `limit` rows, fewer if they are large, at least one; and whether there are more."""
    rows: Rows = []
    size = 0
    cursor = db.execute(statement, tuple(parameters))
    try:
        for row in cursor:
            if len(rows) == limit or size > limit_bytes:
                return rows, True
            rows.append(row)
            size += sum(len(value) for value in row if type(value) is bytes)
    finally:
        cursor.close()
    return rows, False
