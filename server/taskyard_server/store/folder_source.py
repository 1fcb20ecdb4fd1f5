"""Reads a folder of SQLite files, one for each namespace, which servers kept before 0.3.0: `copying.py` copies it.

    owners.db                 numbers and names
    common.db                 tokens and secrets, and the epoch of all
    namespaces/3-shop.db      a file as that of a server, with one namespace

What is read comes in the order of the namespaces' numbers, which is that of the keys. Goes with 0.4.0.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from typing import Final

from .port import OutputRow, Row, StoreError, StoreMeta, StoreStats, Table, TaskRows
from .sqlite.file import Unusable, explain, lock, no_yard, pragma
from .sqlite.store import SqliteStore

OWNERS_ID: Final = 0x54594F57
"""Marks the file of owners ("TYOW")."""
COMMON: Final = frozenset({Table.TOKENS, Table.SECRETS, Table.TOKEN_USES})
"""Their rows belong to no namespace."""
WAIT_SECS: Final = 5.0


class FolderSource:
    """Implements `copying.Source`. No server may have the folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._common = _file(os.path.join(folder, "common.db"))
        self._stores: list[SqliteStore] = []

    @property
    def url(self) -> str:
        """`sqlite:///` with the folder."""
        return f"sqlite:///{self._folder}/"

    async def open(self) -> StoreMeta:
        """Open every file. Raises `StoreError`."""
        paths = await asyncio.to_thread(_paths, self._folder)
        try:
            meta = await self._common.open()
            for path in paths:
                self._stores.append(store := _file(path))
                await store.open()
        except BaseException:
            await self.close()
            raise
        return meta

    async def close(self) -> None:
        """Let go of every file."""
        await asyncio.gather(*(store.close() for store in (self._common, *self._stores)))

    async def stats(self) -> StoreStats:
        """The figures of all files together; the epoch is that of all."""
        common, *others = [await store.stats() for store in (self._common, *self._stores)]
        rows = dict(common.rows)
        for each in others:
            for table, count in each.rows.items():
                rows[table] = rows.get(table, 0) + count
        last = max(each.number for each in (common, *others))
        return common._replace(rows=rows, number=last, at=max(each.at for each in (common, *others)))

    async def rows(self, table: Table) -> AsyncIterator[Sequence[Row]]:
        """The rows of a table, in slices."""
        for store in [self._common] if table in COMMON else self._stores:
            async for rows in store.rows(table):
                yield rows

    async def live_tasks(self) -> AsyncIterator[Sequence[TaskRows]]:
        """The tasks that have not ended, in slices."""
        for store in self._stores:
            async for rows in store.live_tasks():
                yield rows

    async def ended_tasks(self, since_ms: int) -> AsyncIterator[Sequence[TaskRows]]:
        """The tasks that ended at this time or later, in slices; in order of their ends within each namespace."""
        for store in self._stores:
            async for rows in store.ended_tasks(since_ms):
                yield rows

    async def outputs(self) -> AsyncIterator[Sequence[OutputRow]]:
        """The output of tasks, in slices."""
        for store in self._stores:
            async for rows in store.outputs():
                yield rows


def _file(path: str) -> SqliteStore:
    return SqliteStore(path, ballast_bytes=0, min_free_bytes=0)


def _paths(folder: str) -> list[str]:
    """The files of the namespaces that have names. Raises `StoreError` if there are none, or a server has them."""
    path = os.path.join(folder, "owners.db")
    if not os.path.isfile(path):
        raise StoreError(f"no store in {folder}")
    try:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as db:
            lock(db, path, time.monotonic() + WAIT_SECS)
            if pragma(db, "application_id") != OWNERS_ID:
                raise Unusable(no_yard(path))
            names = db.execute("SELECT number, name FROM owners WHERE name IS NOT NULL ORDER BY number").fetchall()
    except sqlite3.Error as error:
        raise StoreError(explain(path, error)) from error
    except Unusable as error:
        raise StoreError(str(error)) from error
    paths = [os.path.join(folder, "namespaces", f"{number}-{name}.db") for number, name in names]
    # One that was made, and nothing of it was kept before its process was killed.
    return [path for path in paths if os.path.exists(path)]
