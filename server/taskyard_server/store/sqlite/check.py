"""The check of a SQLite store's file: SQLite's own, then what must hold between our rows.

A process of its own: it takes long, and holds up nobody there. Imports little, like the writer.
"""

from __future__ import annotations

import sqlite3
import sys
from typing import Final

from .file import explain, statements

LINES: Final = 20
"""This many findings of a kind are named, the rest is counted."""
_NAMESPACE_SHIFT: Final = 40
_RULES: Final = {
    "states_without_task": "has a state and no task row",
    "ended_without_task": "has ended and has no task row",
    "live_and_ended": "is live and has ended",
    "neither_live_nor_ended": "has neither a state nor an end",
    "output_without_task": "has output and no task row",
}


def check_file(path: str) -> list[str]:
    """The faults, a line each, of a file that nobody writes to."""
    try:
        db = sqlite3.connect(path, timeout=0, isolation_level=None)
        try:
            return _damage(db) or _broken_rules(db)
        finally:
            db.close()
    except sqlite3.Error as error:
        return [explain(path, error)]


def _damage(db: sqlite3.Connection) -> list[str]:
    lines = [line for (line,) in db.execute(f"PRAGMA integrity_check({LINES})")]
    return [] if lines == ["ok"] else lines


def _broken_rules(db: sqlite3.Connection) -> list[str]:
    sql = statements()
    lines = []
    for rule, words in _RULES.items():
        keys = [key for (key,) in db.execute(sql[rule])]
        lines += [f"{_name(key)} {words}" for key in keys[:LINES]]
        if len(keys) > LINES:
            lines.append(f"and {len(keys) - LINES} more, each of which {words}")
    for namespace, table, key in db.execute(sql["without_namespace"]):
        lines.append(f"namespace {namespace} has no row, and table {table} has rows of it, the first at key {key}")
    return lines


def _name(key: int) -> str:
    return f"task {key & (1 << _NAMESPACE_SHIFT) - 1} of namespace {key >> _NAMESPACE_SHIFT}"


def main(arguments: list[str]) -> int:
    """Check the file that is named, and print what is wrong."""
    (path,) = arguments
    for line in check_file(path):
        sys.stdout.write(line + "\n")
    return 0
