"""Who the processes are that share a folder of stores, and which of them owns a namespace: the parent's table.

It does for processes of one machine what the tables of PostgreSQL do for replicas (store/shared_port.py). A process is
dead when it has ended, never because it is slow. Who owns what is on the disk before anybody is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import os
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog

from taskyard_server.store.folder import COMMON_FILE, file_of
from taskyard_server.store.owners_file import Owned, OwnersFile
from taskyard_server.store.port import CommitDelayed, Group, Kept, StoreError, Table
from taskyard_server.store.shared_port import Replica, ReplicaRow
from taskyard_server.store.sqlite import SqliteStore

log = structlog.get_logger(__name__)

PARENT: Final = "parent"
"""Owns what is looked at while nobody else owns it."""
MEMBERS: Final = "members"
TOKENS: Final = "tokens"
"""What the processes are told of: owners or processes have changed, or tokens have."""
WAIT_SECS: Final = 5.0
"""How long a folder is waited for that another parent is just letting go of."""
KEEP_TIME_SECS: Final = 5.0
"""How often it is noted that namespaces are served, since default deadlines stand still while they are not."""
FORGOTTEN_AFTER_SECS: Final = 86_400.0


@dataclass(slots=True)
class _Owner:
    number: int
    name: str | None
    instance: str | None
    term: int
    served_until: float
    needs_owner: bool
    changed: int

    def row(self) -> tuple[int, str | None, str | None, int]:
        """As `OwnerRow` has it."""
        return self.number, self.name, self.instance, self.term


class Members:
    """The table of one folder. `tell` is called with `MEMBERS` or `TOKENS` after they have changed.

    The methods that processes call are those of `SharedStore`; they take and return what marshal can carry.
    """

    CALLED: Final = frozenset(
        {
            *("join", "renew", "replicas", "drain", "raise_level", "leave", "owners", "needing_owner", "create"),
            *("take", "release", "rename", "epoch", "commit_common", "rows_common"),
        }
    )

    def __init__(self, folder: Path, common: SqliteStore, tell: Callable[[str], None]) -> None:
        self.folder = str(folder)
        self.common = common
        self._file = OwnersFile(self.folder)
        self._tell = tell
        self._disk = ThreadPoolExecutor(1, "owners")
        self._replicas: dict[str, ReplicaRow] = {}
        self._owners: dict[int, _Owner] = {}
        self._names: dict[str, int] = {}
        self._level = 0
        self._last = 0
        self._changes = 0
        self._number = 0
        self._kept = Kept(0, 0.0, 0)
        self._committing = asyncio.Lock()

    async def open(self) -> None:
        """Open the folder, and keep other parents out. Raises `StoreError`."""
        loop = asyncio.get_running_loop()
        at, self._last, rows = await loop.run_in_executor(self._disk, self._file.open, WAIT_SECS)
        try:
            self._kept = await self.common.open()
        except StoreError:
            await loop.run_in_executor(self._disk, self._file.close)
            raise
        self._number = self._kept.number
        for row in rows:
            if row.name is None:
                await self._remove(row.number)
                continue
            until = max(row.served_until, at) if row.is_owned else row.served_until
            self._owners[row.number] = _Owner(row.number, row.name, None, row.term, until, row.needs_owner, 0)
            self._names[row.name] = row.number

    async def run(self) -> None:
        """Note the time while anything is served, until cancelled."""
        while True:
            await asyncio.sleep(KEEP_TIME_SECS)
            if any(self._lives(owner.instance) for owner in self._owners.values()):
                # A full disk delays it.
                with contextlib.suppress(CommitDelayed):
                    await self._note()

    async def close(self) -> None:
        """Let go of the folder."""
        await self.common.close()
        await asyncio.get_running_loop().run_in_executor(self._disk, self._file.close)
        self._disk.shutdown()

    # What looks after the files

    def named(self) -> list[tuple[int, str]]:
        """The namespaces, by their numbers."""
        return [(owner.number, owner.name) for owner in self._owners.values() if owner.name is not None]

    def is_there(self, number: int) -> bool:
        """Whether a namespace was not deleted."""
        owner = self._owners.get(number)
        return owner is not None and owner.name is not None

    def owner_of(self, number: int) -> str | None:
        """The living instance that owns a namespace."""
        owner = self._owners.get(number)
        return owner.instance if owner is not None and self._lives(owner.instance) else None

    @contextlib.contextmanager
    def borrowed(self, number: int) -> Iterator[int]:
        """Keep a namespace that nobody owns from being taken; the term under which its file may be opened."""
        owner = self._owners[number]
        before, owner.instance = owner.instance, PARENT
        try:
            yield owner.term
        finally:
            if owner.instance == PARENT:
                owner.instance = before
            self._tell(MEMBERS)

    def noted(self, numbers: Collection[int]) -> list[Owned]:
        """What is noted of these namespaces."""
        return [self._owned(self._owners[number], is_owned=False) for number in numbers if self.is_there(number)]

    def died(self, instance: str) -> None:
        """A process has ended."""
        known = self._replicas.get(instance)
        if known is None or known.died_at is not None:
            return
        now = time.time()
        self._replicas[instance] = known._replace(died_at=now)
        for owner in self._owners.values():
            if owner.instance == instance:
                owner.served_until = max(owner.served_until, now)
        self._tell(MEMBERS)

    # What the processes ask: who there is

    async def join(self, *replica: Any) -> float:
        """See `SharedStore`."""
        now, joined = time.time(), Replica(*replica)
        self._replicas[joined.instance] = ReplicaRow(joined, now, now, None)
        self._tell(MEMBERS)
        return now

    async def renew(self, instance: str) -> tuple[float, int, list[Any]] | None:
        """See `SharedStore`."""
        now = time.time()
        known = self._replicas.get(instance)
        if known is None or known.died_at is not None:
            return None
        self._replicas[instance] = known._replace(renewed_at=now)
        for row in list(self._replicas.values()):
            if row.died_at is not None and now - row.died_at > FORGOTTEN_AFTER_SECS:
                del self._replicas[row.replica.instance]
        return now, self._level, await self.replicas(60.0)

    async def replicas(self, died_within_secs: float) -> list[Any]:
        """See `SharedStore`."""
        since = time.time() - died_within_secs
        found = [row for row in self._replicas.values() if row.died_at is None or row.died_at > since]
        now = time.time()
        # Who has not ended lives, as far as this table goes.
        return [
            (tuple(row.replica), row.started_at, now if row.died_at is None else row.renewed_at, row.died_at)
            for row in found
        ]

    async def drain(self, name: str, is_draining: bool) -> bool:
        """See `SharedStore`."""
        living = [row for row in self._replicas.values() if row.died_at is None]
        own = [row for row in living if name in (row.replica.name, row.replica.instance)]
        for row in own:
            replica = row.replica._replace(is_draining=is_draining)
            self._replicas[row.replica.instance] = row._replace(replica=replica)
        if own:
            self._tell(MEMBERS)
        return bool(own)

    async def raise_level(self, level: int) -> bool:
        """See `SharedStore`."""
        if any(row.died_at is None and row.replica.level < level for row in self._replicas.values()):
            return False
        self._level = max(self._level, level)
        return True

    async def leave(self, instance: str) -> None:
        """See `SharedStore`."""
        self.died(instance)

    # Who owns what

    async def owners(self, since: int | None) -> tuple[int, list[Any]]:
        """See `SharedStore`; `since` counts changes."""
        return self._changes, [owner.row() for owner in self._owners.values() if since is None or owner.changed > since]

    async def needing_owner(self, limit: int) -> list[Any]:
        """See `SharedStore`."""
        found = (each for each in self._owners.values() if each.needs_owner and each.name is not None)
        free = (each.row() for each in found if not self._lives(each.instance))
        return [row for row, _ in zip(free, range(limit), strict=False)]

    async def create(self, name: str, instance: str) -> tuple[int, str, int, float] | None:
        """See `SharedStore`."""
        if name in self._names or not self._lives(instance):
            return None
        self._last += 1
        owner = self._owners[self._last] = _Owner(self._last, name, instance, 1, time.time(), True, 0)
        self._names[name] = owner.number
        # A namespace that is known has a file from then on: one that is missing has been lost, and is not made anew.
        file = file_of(self.folder, owner.number, name)
        await asyncio.get_running_loop().run_in_executor(self._disk, _make_file, Path(file))
        return await self._given(owner)

    async def take(self, number: int, instance: str) -> tuple[int, str, int, float] | None:
        """See `SharedStore`."""
        owner = self._owners.get(number)
        if owner is None or owner.name is None or not self._lives(instance):
            return None
        if owner.instance != instance and self._lives(owner.instance):
            return None
        owner.instance, owner.term, owner.needs_owner = instance, owner.term + 1, True
        return await self._given(owner)

    async def release(
        self, fences: dict[int, int], instance: str, served_until: float, to: str | None, needs: dict[int, bool]
    ) -> None:
        """See `SharedStore`. `needs` says of which it is known whether anything will come due in them."""
        released = []
        for number, term in fences.items():
            owner = self._owners.get(number)
            if owner is not None and (owner.instance, owner.term) == (instance, term):
                owner.instance = to if self._lives(to) else None
                owner.served_until = max(owner.served_until, served_until)
                owner.needs_owner = needs.get(number, True)
                released.append(owner)
        if released:
            self._changed(*released)
            await self._note(*(self._owned(owner, is_owned=False) for owner in released))

    async def rename(self, number: int, name: str | None) -> None:
        """See `SharedStore`. The file of a namespace without a name is removed; nobody has it open any more."""
        owner = self._owners.get(number)
        if owner is None or name is not None:
            return
        if owner.name is not None:
            del self._names[owner.name]
            owner.name, owner.instance = None, None
            self._changed(owner)
        await self._note(self._owned(owner, is_owned=False))
        await self._remove(number)

    # What belongs to no namespace

    async def epoch(self) -> int:
        """That of all files."""
        return self._kept.epoch

    async def commit_common(self, puts: list[Any], removes: list[Any]) -> None:
        """Write rows of tokens and the like."""
        async with self._committing:
            group = Group(self._number + 1, time.time())
            for table, rows in puts:
                group.puts[Table(table)] = rows
            for table, keys in removes:
                group.removes[Table(table)] = keys
            await self.common.commit(group)
            self._number += 1
        if Table.TOKENS in group.puts or Table.TOKENS in group.removes:
            self._tell(TOKENS)

    async def rows_common(self, table: int, after_key: int, last_key: int, limit: int) -> list[Any]:
        """Some rows of tokens and the like."""
        async for rows in self.common.rows(Table(table), after_key=after_key, last_key=last_key, limit=limit):
            return list(rows)
        return []

    # How it is done

    def _lives(self, instance: str | None) -> bool:
        row = None if instance is None else self._replicas.get(instance)
        return (row is not None and row.died_at is None) or instance == PARENT

    async def _given(self, owner: _Owner) -> tuple[int, str, int, float]:
        assert owner.name is not None
        answer = owner.number, owner.name, owner.term, owner.served_until
        self._changed(owner)
        await self._note(self._owned(owner, is_owned=True))
        return answer

    def _changed(self, *owners: _Owner) -> None:
        self._changes += 1
        for owner in owners:
            owner.changed = self._changes
        self._tell(MEMBERS)

    def _owned(self, owner: _Owner, *, is_owned: bool) -> Owned:
        return Owned(owner.number, owner.name, owner.term, owner.served_until, owner.needs_owner, is_owned)

    async def _note(self, *rows: Owned, gone: tuple[int, ...] = ()) -> None:
        loop, last = asyncio.get_running_loop(), self._last
        await loop.run_in_executor(self._disk, self._file.note, time.time(), last, rows, gone)

    async def _remove(self, number: int) -> None:
        """Remove the files of a deleted namespace, and its row."""
        await asyncio.to_thread(_remove_files, self.folder, number)
        await self._note(gone=(number,))


def _make_file(file: Path) -> None:
    file.parent.mkdir(mode=0o700, exist_ok=True)
    file.touch(mode=0o600)


def _remove_files(folder: str, number: int) -> None:
    # The name itself last: what is left of a removal that was cut off is found by it.
    found = glob.glob(glob.escape(file_of(folder, number, "")).removesuffix(".db") + "*")
    for path in sorted(found, key=len, reverse=True):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def common_store(folder: Path, synchronous: str) -> SqliteStore:
    """The file of what belongs to no namespace."""
    return SqliteStore(str(folder / COMMON_FILE), synchronous=synchronous, min_free_bytes=0)
