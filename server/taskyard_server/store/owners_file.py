"""The file that says which namespaces a folder of stores has, and under which terms they were owned (store/folder.py).

One process has it open at a time, and with that the folder. What it notes is on the disk when it returns.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from typing import Final, NamedTuple

from .port import CommitDelayed, StoreError
from .sqlite_file import Delayed, Unusable, explain, in_words, lock, newer, no_yard, pragma, sync_folder

APPLICATION_ID: Final = 0x54594F57
"""Marks the file ("TYOW")."""
VERSION: Final = 1
FILE: Final = "owners.db"
_SCHEMA: Final = f"""
BEGIN IMMEDIATE;
CREATE TABLE meta (id INTEGER PRIMARY KEY CHECK (id = 1), at REAL NOT NULL, last INTEGER NOT NULL);
INSERT INTO meta VALUES (1, 0.0, 0);
CREATE TABLE owners (
  number INTEGER PRIMARY KEY, name TEXT, term INTEGER NOT NULL, served_until REAL NOT NULL,
  needs_owner INTEGER NOT NULL, is_owned INTEGER NOT NULL
);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
COMMIT;
"""


class Owned(NamedTuple):
    """What is noted of a namespace. A `name` of None is that of a deleted one, whose file may still be there.

    `needs_owner` is noted when it is let go, and true while somebody owns it: who was killed cannot say.
    """

    number: int
    name: str | None
    term: int
    served_until: float
    needs_owner: bool
    is_owned: bool


class OwnersFile:
    """The open file. All methods wait for the disk."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, FILE)
        self._db: sqlite3.Connection | None = None

    def open(self, wait_secs: float) -> tuple[float, int, list[Owned]]:
        """The time that was noted last, the highest number, and all namespaces. Raises `StoreError`."""
        try:
            os.makedirs(os.path.dirname(self.path), 0o700, exist_ok=True)
            db = sqlite3.connect(self.path, timeout=0, isolation_level=None, check_same_thread=False)
            try:
                lock(db, self.path, time.monotonic() + wait_secs)
                mark, version = pragma(db, "application_id"), pragma(db, "user_version")
                if not version and not mark:
                    os.chmod(self.path, 0o600)
                    db.executescript(_SCHEMA)
                elif mark != APPLICATION_ID:
                    raise Unusable(no_yard(self.path))
                elif version > VERSION:
                    raise Unusable(newer(self.path, version))
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("PRAGMA synchronous = FULL")
                sync_folder(os.path.dirname(self.path))
                at, last = db.execute("SELECT at, last FROM meta").fetchone()
                rows = [
                    Owned(number, name, term, until, bool(needs), bool(is_owned))
                    for number, name, term, until, needs, is_owned in db.execute("SELECT * FROM owners ORDER BY number")
                ]
            except BaseException:
                db.close()
                raise
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}; name another folder") from error
        except sqlite3.Error as error:
            raise StoreError(explain(self.path, error)) from error
        except Unusable as error:
            raise StoreError(str(error)) from error
        self._db = db
        return at, last, rows

    def note(self, at: float, last: int, rows: Iterable[Owned], gone: Iterable[int] = ()) -> None:
        """Note these namespaces, and forget those. Raises `CommitDelayed`, with nothing noted, and `StoreError`."""
        db = self._db
        if db is None:
            raise StoreError(f"{self.path} is closed")
        try:
            db.execute("BEGIN IMMEDIATE")
            try:
                db.executemany("INSERT OR REPLACE INTO owners VALUES (?, ?, ?, ?, ?, ?)", rows)
                db.executemany("DELETE FROM owners WHERE number = ?", ((number,) for number in gone))
                db.execute("UPDATE meta SET at = max(at, ?), last = max(last, ?)", (at, last))
                db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")
        except sqlite3.Error as error:
            known = in_words(self.path, error)
            raise (CommitDelayed if isinstance(known, Delayed) else StoreError)(str(known)) from error

    def close(self) -> None:
        """Let go of the folder."""
        if self._db is not None:
            with closing(self._db):
                self._db = None
