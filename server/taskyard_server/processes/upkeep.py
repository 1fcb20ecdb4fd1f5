"""Checks, backups and figures of a folder while its processes serve: each file is asked of who has it open."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, Final

from taskyard_server.store.folder import COMMON_FILE, file_of
from taskyard_server.store.folder_copies import Snapshot, sum_of
from taskyard_server.store.port import BackupFailed
from taskyard_server.store.sqlite import SqliteStore

from .members import Members

TRIES: Final = 50
PAUSE_SECS: Final = 0.1
"""A namespace that changes hands is looked for again after this."""
CHECK: Final = "check"
STATS: Final = "stats"
BACKUP: Final = "backup"


class Upkeep:
    """What processes ask for on behalf of all. `ask` asks the process of an instance; None if it has gone."""

    CALLED: Final = frozenset({"check_all", "stats_all", "backup_all"})

    def __init__(self, members: Members, ask: Callable[..., Awaitable[Any]]) -> None:
        self._members = members
        self._ask = ask

    async def check_all(self) -> list[str]:
        """See `Store.check`."""
        lines = [f"{COMMON_FILE}: {line}" for line in await self._members.common.check()]
        for number, name in self._members.named():
            found = await self._at(number, name, CHECK)
            lines += [f"{number}-{name}.db: {line}" for line in found or ()]
        return lines

    async def stats_all(self) -> tuple[Any, ...]:
        """See `Store.stats`."""
        found = [tuple(await self._members.common.stats())]
        for number, name in self._members.named():
            stats = await self._at(number, name, STATS)
            found += [] if stats is None else [tuple(stats)]
        return sum_of(found)

    async def backup_all(self, path: str, replace: bool) -> None:
        """See `Store.backup`. A new folder, in which each file is as of one commit of its own."""
        snapshot = Snapshot(path, replace=replace)
        folder = await asyncio.to_thread(snapshot.begin)
        try:
            kept = []
            for number, name in self._members.named():
                if await self._at(number, name, BACKUP, file_of(folder, number, name)) is not None:
                    kept.append(number)
            # Last, so that it has the terms of all that was written before.
            await self._members.common.backup(os.path.join(folder, COMMON_FILE))
            await asyncio.to_thread(snapshot.finish, self._members.noted(kept))
        except BaseException:
            await asyncio.to_thread(snapshot.give_up)
            raise

    async def _at(self, number: int, name: str, what: str, *arguments: Any) -> Any:
        """What is found at the file of a namespace; None if it was deleted meanwhile, or nothing was ever written."""
        for _ in range(TRIES):
            instance = self._members.owner_of(number)
            if instance is not None:
                answer = await self._ask(instance, "file", what, number, *arguments)
                if answer is not None:
                    return answer[0]
            elif not self._members.is_there(number):
                return None
            else:
                with self._members.borrowed(number) as term:
                    return await self._at_free_file(number, name, term, what, *arguments)
            await asyncio.sleep(PAUSE_SECS)
        raise BackupFailed(f"the namespace {name} changes hands all the time; try again")

    async def _at_free_file(self, number: int, name: str, term: int, what: str, *arguments: Any) -> Any:
        path = file_of(self._members.folder, number, name)
        if not os.path.exists(path):  # noqa: ASYNC240
            return None
        store = SqliteStore(path, ballast_bytes=0, min_free_bytes=0, term=term)
        await store.open()
        try:
            return await at_file(store, what, *arguments)
        finally:
            await store.close()


async def at_file(store: SqliteStore, what: str, *arguments: Any) -> Any:
    """Check, count or back up one file."""
    if what == CHECK:
        return await store.check()
    if what == STATS:
        return tuple(await store.stats())
    await store.backup(*arguments)
    return True
