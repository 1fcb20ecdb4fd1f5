"""A folder of stores in the hands of one process: copied, checked and counted as one store, while no server runs on it.

What is read comes in the order of the namespaces' numbers, which is that of the keys.
"""

from __future__ import annotations

import asyncio
import glob
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from .folder import COMMON, COMMON_FILE, NAMESPACES, file_of, parts_of
from .folder_copies import Snapshot, sum_of
from .owners_file import FILE, Owned, OwnersFile
from .port import (
    LAST_KEY,
    Committed,
    Group,
    Kept,
    Page,
    Row,
    Sought,
    StoreError,
    StoreStats,
    Table,
    TaskRows,
    namespace_of,
)
from .records import decode_namespace
from .sqlite import SqliteStore

WAIT_SECS: Final = 5.0
NEW: Final = "new"
"""Stands for the name in that of a file whose namespace is not known by name yet."""


class WholeFolder:
    """Implements `port.Store`. A folder that `must_exist` is not made."""

    def __init__(self, folder: str, *, synchronous: str = "full", must_exist: bool = False) -> None:
        self._folder = folder
        self._synchronous = synchronous
        self._must_exist = must_exist
        self._owners = OwnersFile(folder)
        self._common = self._store(os.path.join(folder, COMMON_FILE))
        self._stores: dict[int, SqliteStore] = {}
        self._rows: dict[int, Owned] = {}
        self._numbers: dict[int | None, int] = {}
        self._kept = Kept(0, 0.0, 0)

    @property
    def url(self) -> str:
        """`sqlite:///` with the folder."""
        return f"sqlite:///{self._folder}/"

    async def open(self) -> Kept:
        """See `Store`. No server may have it."""
        if self._must_exist and not os.path.exists(os.path.join(self._folder, FILE)):  # noqa: ASYNC240
            raise StoreError(f"no store in {self._folder}")
        _, _, rows = await asyncio.to_thread(self._owners.open, WAIT_SECS)
        try:
            self._kept = await self._common.open()
            for row in rows:
                if row.name is not None:
                    self._rows[row.number] = row
                    path = file_of(self._folder, row.number, row.name)
                    if os.path.exists(path):  # noqa: ASYNC240
                        await self._open(row.number, path)
        except BaseException:
            await self.close()
            raise
        return await self._whole()

    async def _open(self, number: int, path: str) -> SqliteStore:
        store = self._stores[number] = self._store(path)
        self._numbers[number] = (await store.open()).number
        return store

    def _store(self, path: str) -> SqliteStore:
        return SqliteStore(path, synchronous=self._synchronous, ballast_bytes=0, min_free_bytes=0)

    async def _whole(self) -> Kept:
        stats = await self.stats()
        return Kept(stats.number, stats.at, self._kept.epoch)

    async def close(self) -> None:
        """See `Store`."""
        await asyncio.gather(*(store.close() for store in (self._common, *self._stores.values())))
        await asyncio.to_thread(self._owners.close)

    async def commit(self, group: Group) -> Committed:
        """See `Store`. Of a copy: each file has its own numbers, which go on from those of the source."""
        began = time.perf_counter()
        for number, part in parts_of(group).items():
            store = self._common if number is None else self._stores.get(number)
            if store is None:
                assert number is not None
                store = await self._open(number, file_of(self._folder, number, NEW))
                await store.go_on_from(self._kept)
                self._numbers[number] = self._kept.number
            self._numbers[number] = part.number = self._numbers.get(number, self._kept.number) + 1
            await store.commit(part)
        return Committed(time.perf_counter() - began, 0, 1 << 62)

    async def go_on_from(self, kept: Kept) -> None:
        """See `Store`."""
        if self._stores:
            raise StoreError(f"{self.url} is in use already; name a new folder")
        await self._common.go_on_from(kept)
        self._kept = kept

    async def adopt(self, names: Mapping[int, str | None]) -> None:
        """Give the namespaces whose rows were copied here their names; nobody owns them yet."""
        rows = []
        for number, name in names.items():
            if name is None:
                # The server that has the folder next removes its file.
                rows.append(Owned(number, None, 1, self._kept.at, False, False))
                continue
            store = self._stores.pop(number, None)
            if store is not None:
                await store.close()
            final = file_of(self._folder, number, name)
            await asyncio.to_thread(_move, file_of(self._folder, number, NEW), final)
            rows.append(Owned(number, name, 1, self._kept.at, True, False))
            await self._open(number, final)
        self._rows = {row.number: row for row in rows if row.name is not None}
        await asyncio.to_thread(self._owners.note, self._kept.at, max(names, default=0), rows)

    # Reads

    async def rows(
        self, table: Table, *, after_key: int = -1, last_key: int = LAST_KEY, limit: int | None = None
    ) -> AsyncIterator[Sequence[Row]]:
        """See `Store`."""
        left = limit
        for store in [self._common] if table in COMMON else self._in_order():
            if left is not None and left <= 0:
                return
            async for rows in store.rows(table, after_key=after_key, last_key=last_key, limit=left):
                left = None if left is None else left - len(rows)
                yield rows

    async def live_tasks(self, namespace: int | None = None) -> AsyncIterator[Sequence[TaskRows]]:
        """See `Store`."""
        for store in self._in_order(namespace):
            async for rows in store.live_tasks(namespace):
                yield rows

    async def ended_tasks(self, since_ms: int, namespace: int | None = None) -> AsyncIterator[Sequence[TaskRows]]:
        """See `Store`; in order of their ends within each namespace."""
        for store in self._in_order(namespace):
            async for rows in store.ended_tasks(since_ms):
                yield rows

    def _in_order(self, namespace: int | None = None) -> list[SqliteStore]:
        return [self._stores[number] for number in sorted(self._stores) if namespace in (None, number)]

    async def task(self, key: int) -> TaskRows | None:
        """See `Store`."""
        store = self._stores.get(namespace_of(key))
        return None if store is None else await store.task(key)

    async def scan(
        self, first_key: int, last_key: int, *, descending: bool, limit: int, sought: Sought | None = None
    ) -> Page:
        """See `Store`. Both keys are of one namespace."""
        store = self._stores.get(namespace_of(first_key))
        if store is None:
            return Page([], None, 0)
        return await store.scan(first_key, last_key, descending=descending, limit=limit, sought=sought)

    async def forget(self, before_ms: int, limit: int) -> int:
        """See `Store`."""
        return sum([await store.forget(before_ms, limit) for store in self._in_order()])

    async def remove_namespace(self, number: int, limit: int) -> int:
        """See `Store`."""
        store = self._stores.get(number)
        return 0 if store is None else await store.remove_namespace(number, limit)

    async def check(self) -> list[str]:
        """See `Store`. Each file, and whether it is the one of its namespace."""
        lines = [f"{COMMON_FILE}: {line}" for line in await self._common.check()]
        for number, row in sorted(self._rows.items()):
            assert row.name is not None
            name = os.path.basename(file_of(self._folder, number, row.name))
            store = self._stores.get(number)
            if store is None:
                # One that was made, and nothing of it was kept before its process was killed.
                continue
            lines += [f"{name}: {line}" for line in await store.check()]
            async for rows in store.rows(Table.NAMESPACES):
                found = {key: decode_namespace(record).name for key, record in rows}
                if found != {number: row.name}:
                    lines.append(f"{name}: holds {found}, and not the namespace {row.name} alone")
        known = {os.path.basename(file_of(self._folder, number, row.name or "")) for number, row in self._rows.items()}
        for path in sorted(glob.glob(os.path.join(glob.escape(self._folder), NAMESPACES, "*.db"))):
            if os.path.basename(path) not in known:
                lines.append(f"{os.path.basename(path)}: is the file of no namespace that {FILE} names")
        return lines

    async def backup(self, path: str, *, replace: bool = False) -> None:
        """See `Store`. The backup is a folder."""
        snapshot = Snapshot(path, replace=replace)
        folder = await asyncio.to_thread(snapshot.begin)
        try:
            for number, store in self._stores.items():
                await store.backup(file_of(folder, number, self._rows[number].name or ""))
            await self._common.backup(os.path.join(folder, COMMON_FILE))
            await asyncio.to_thread(snapshot.finish, [self._rows[number] for number in self._stores])
        except BaseException:
            await asyncio.to_thread(snapshot.give_up)
            raise

    async def stats(self) -> StoreStats:
        """See `Store`."""
        return StoreStats(*sum_of([tuple(await store.stats()) for store in (self._common, *self._in_order())]))


def _move(path: str, final: str) -> None:
    """Give a closed file its name, with the log that may lie beside it."""
    for end in ("-wal", ""):
        if os.path.exists(path + end):
            os.rename(path + end, final + end)
