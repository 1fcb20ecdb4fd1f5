"""A store in a folder, with a file of SQLite for each namespace, that processes of one machine share.

Their parent has the table of who owns what (processes/members.py), and is asked over a channel. Each process opens the
files of the namespaces that it was given, each under the term of its ownership: nobody else can open a file meanwhile,
nor under a lower term later. What belongs to no namespace lies in a file of the parent.

    owners.db                 numbers, names and terms
    common.db                 tokens and secrets, and the epoch of all
    namespaces/3-shop.db      each is a file as that of one server, with one namespace
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import structlog

from taskyard_server.core.errors import Unavailable
from taskyard_server.process_channel import Channel, ChannelClosed

from .port import (
    LAST_KEY,
    CommitDelayed,
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
from .shared_port import OwnerRow, Renewal, Replica, ReplicaRow, SharedStore, Taken
from .sqlite import SqliteStore

log = structlog.get_logger(__name__)

COMMON: Final = frozenset({Table.TOKENS, Table.SECRETS, Table.TOKEN_USES})
"""Their rows belong to no namespace."""
COMMON_FILE: Final = "common.db"
NAMESPACES: Final = "namespaces"
BALLAST_BYTES: Final = 1 << 20
"""For when the disk is full, of each file that is open."""
SLICE: Final = 500
AGAIN_SECS: Final = 5.0
"""So long after a file could not be opened it is tried again."""
UNOPENED: Final = "the file of this namespace cannot be opened, see the server's log"
MOVED: Final = "another process has the namespace by now"


def file_of(folder: str, number: int, name: str) -> str:
    """The file of a namespace. The number tells it from one of the same name that was deleted."""
    return os.path.join(folder, NAMESPACES, f"{number}-{name}.db")


class _Open(NamedTuple):
    """An open file, and the term under which it is."""

    store: SqliteStore
    term: int


class FolderStore:
    """Implements `shared_port.SharedStore` for one process. `listeners` are called by the name of what has changed."""

    def __init__(
        self,
        folder: str,
        channel: Channel,
        listeners: dict[str, Callable[[], None]],
        *,
        synchronous: str = "full",
        min_free_bytes: int = 64 << 20,
    ) -> None:
        self._folder = folder
        self._channel = channel
        self._options = {"synchronous": synchronous, "min_free_bytes": min_free_bytes}
        self._open: dict[int, _Open] = {}
        self._needs: dict[int, bool] = {}
        self._failed: dict[int, float] = {}
        self._epoch = 0
        self._news = {name: asyncio.Event() for name in ("members", "tokens")}
        listeners.update({name: news.set for name, news in self._news.items()})

    @property
    def url(self) -> str:
        """`sqlite:///` with the folder."""
        return f"sqlite:///{self._folder}/"

    async def open(self) -> Kept:
        """See `Store`. Files are opened as namespaces are taken."""
        self._epoch = int(await self._ask("epoch"))
        return Kept(0, 0.0, self._epoch)

    async def close(self) -> None:
        """See `Store`."""
        await asyncio.gather(*(self._close(number) for number in list(self._open)))

    # Commits

    async def commit(self, group: Group) -> Committed:
        """See `Store`. Each namespace is committed to its own file, all at once; one of them failing delays it all."""
        began = time.perf_counter()
        parts = parts_of(group)
        common = parts.pop(None, None)
        works: list[Awaitable[Committed | None]] = []
        lost = set()
        for number, fence in group.fences.items():
            found = self._open.get(number)
            if found is None or found.term != fence.term:
                lost.add(number)
                continue
            part = parts.get(number) or Group(0, group.at)
            part.number, part.at = fence.number, group.at
            self._needs[number] = fence.needs_owner
            works.append(found.store.commit(part))
        if common is not None:
            works.append(self._commit_common(common))
        outcomes = await asyncio.gather(*works, return_exceptions=True)
        # What is final first; then what is repeated, where all that is written counts as written.
        for kind in (StoreError, BaseException):
            for outcome in outcomes:
                if isinstance(outcome, kind):
                    raise outcome
        done = [outcome for outcome in outcomes if isinstance(outcome, Committed)]
        used = sum(each.used_bytes for each in done)
        free = min((each.free_bytes for each in done), default=1 << 62)
        return Committed(time.perf_counter() - began, used, free, frozenset(lost))

    async def _commit_common(self, part: Group) -> None:
        puts = [(int(table), rows) for table, rows in part.puts.items() if rows]
        removes = [(int(table), keys) for table, keys in part.removes.items() if keys]
        await self._ask("commit_common", puts, removes)

    # Reads

    async def rows(
        self, table: Table, *, after_key: int = -1, last_key: int = LAST_KEY, limit: int | None = None
    ) -> AsyncIterator[Sequence[Row]]:
        """See `Store`. Of namespaces, those that this process owns."""
        if table in COMMON:
            async for rows in self._common_rows(table, after_key, last_key, limit):
                yield rows
            return
        is_number = table is Table.NAMESPACES
        first, last = (after_key + 1, last_key) if is_number else (namespace_of(after_key + 1), namespace_of(last_key))
        left = limit
        for number in sorted(number for number in self._open if first <= number <= last):
            found = self._open.get(number)
            if found is None or (left is not None and left <= 0):
                continue
            async for rows in found.store.rows(table, after_key=after_key, last_key=last_key, limit=left):
                left = None if left is None else left - len(rows)
                yield rows

    async def _common_rows(
        self, table: Table, after_key: int, last_key: int, limit: int | None
    ) -> AsyncIterator[Sequence[Row]]:
        left = LAST_KEY if limit is None else limit
        while left > 0:
            rows = await self._ask("rows_common", int(table), after_key, last_key, min(left, SLICE))
            if not rows:
                return
            after_key, left = rows[-1][0], left - len(rows)
            yield rows

    async def live_tasks(self, namespace: int | None = None) -> AsyncIterator[Sequence[TaskRows]]:
        """See `Store`."""
        for number in [namespace] if namespace is not None else sorted(self._open):
            async for rows in self._file(number).live_tasks(number):
                yield rows

    async def ended_tasks(self, since_ms: int, namespace: int | None = None) -> AsyncIterator[Sequence[TaskRows]]:
        """See `Store`. All of a file are those of its namespace, so that none are sorted out."""
        for number in [namespace] if namespace is not None else sorted(self._open):
            async for rows in self._file(number).ended_tasks(since_ms):
                yield rows

    async def task(self, key: int) -> TaskRows | None:
        """See `Store`."""
        return await self._file(namespace_of(key)).task(key)

    async def scan(
        self, first_key: int, last_key: int, *, descending: bool, limit: int, sought: Sought | None = None
    ) -> Page:
        """See `Store`. Both keys are of one namespace."""
        store = self._file(namespace_of(first_key))
        return await store.scan(first_key, last_key, descending=descending, limit=limit, sought=sought)

    async def forget(self, before_ms: int, limit: int) -> int:
        """See `Store`. Of the namespaces that this process owns."""
        removed = 0
        for number in list(self._open):
            if removed < limit and (found := self._open.get(number)) is not None:
                removed += await found.store.forget(before_ms, limit - removed)
        return removed

    async def remove_namespace(self, number: int, limit: int) -> int:  # noqa: ARG002
        """See `Store`. Its file was removed when it lost its name."""
        return 0

    async def check(self) -> list[str]:
        """See `Store`. Also what others have open, and what nobody has."""
        return list(await self._ask("check_all"))

    async def backup(self, path: str, *, replace: bool = False) -> None:
        """See `Store`. The backup is a folder."""
        await self._ask("backup_all", path, replace)

    def opened(self, number: int) -> SqliteStore | None:
        """The file of a namespace, if it is open here."""
        found = self._open.get(number)
        return None if found is None else found.store

    async def stats(self) -> StoreStats:
        """Its figures: those of all files together."""
        return StoreStats(*await self._ask("stats_all"))

    async def go_on_from(self, kept: Kept) -> None:  # noqa: ARG002
        """Refused: a server has it."""
        raise StoreError(f"{self.url} is in use")

    def _file(self, number: int) -> SqliteStore:
        found = self._open.get(number)
        if found is None:
            raise CommitDelayed(MOVED)
        return found.store

    # Who there is, and who owns what

    async def join(self, replica: Replica) -> float:
        """See `SharedStore`."""
        return float(await self._ask("join", *replica))

    async def renew(self, instance: str, dead_after_secs: float) -> Renewal | None:  # noqa: ARG002
        """See `SharedStore`. The parent sees when a process ends, whenever it was renewed."""
        answer = await self._ask("renew", instance)
        if answer is None:
            return None
        at, level, rows = answer
        return Renewal(at, level, list(map(_replica, rows)))

    async def replicas(self, died_within_secs: float) -> Sequence[ReplicaRow]:
        """See `SharedStore`."""
        return list(map(_replica, await self._ask("replicas", died_within_secs)))

    async def drain(self, name: str, is_draining: bool) -> bool:
        """See `SharedStore`."""
        return bool(await self._ask("drain", name, is_draining))

    async def raise_level(self, level: int) -> bool:
        """See `SharedStore`."""
        return bool(await self._ask("raise_level", level))

    async def leave(self, instance: str) -> None:
        """See `SharedStore`."""
        await self._ask("leave", instance)

    async def owners(self, since: float | None = None) -> tuple[float, Sequence[OwnerRow]]:
        """See `SharedStore`."""
        at, rows = await self._ask("owners", since)
        return at, [OwnerRow(*row) for row in rows]

    async def needing_owner(self, limit: int) -> Sequence[OwnerRow]:
        """See `SharedStore`."""
        return [OwnerRow(*row) for row in await self._ask("needing_owner", limit)]

    async def create(self, name: str, instance: str) -> Taken | None:
        """See `SharedStore`."""
        return await self._opened(await self._ask("create", name, instance), instance)

    async def take(self, number: int, instance: str) -> Taken | None:
        """See `SharedStore`. Raises `Unavailable` where the file cannot be opened; it is tried again a while later."""
        if self._failed.get(number, 0.0) > time.monotonic():
            raise Unavailable(UNOPENED)
        return await self._opened(await self._ask("take", number, instance), instance)

    async def _opened(self, answer: Any, instance: str) -> Taken | None:
        if answer is None:
            return None
        number, name, term, served_until = answer
        await self._close(number)
        path = file_of(self._folder, number, name)
        store = SqliteStore(path, ballast_bytes=BALLAST_BYTES, term=term, **self._options)  # type: ignore[arg-type]
        try:
            if not await asyncio.to_thread(os.path.exists, path):
                raise StoreError(f"{path} is gone")
            kept = await store.open()
        except StoreError as error:
            log.error("file_not_opened", namespace=name, reason=str(error))
            self._failed[number] = time.monotonic() + AGAIN_SECS
            await self._ask("release", {number: term}, instance, served_until, None, {})
            raise Unavailable(UNOPENED) from error
        self._open[number] = _Open(store, term)
        return Taken(number, name, term, Kept(kept.number, max(kept.at, served_until), self._epoch))

    async def release(self, fences: dict[int, int], instance: str, served_until: float, to: str | None = None) -> None:
        """See `SharedStore`."""
        for number, term in fences.items():
            found = self._open.get(number)
            if found is not None and found.term == term:
                await self._close(number)
        needs = {number: self._needs[number] for number in fences if number in self._needs}
        await self._ask("release", fences, instance, served_until, to, needs)
        for number in fences:
            self._needs.pop(number, None)

    async def rename(self, number: int, name: str | None) -> None:
        """See `SharedStore`."""
        await self._close(number)
        await self._ask("rename", number, name)

    async def adopt(self, names: Mapping[int, str | None]) -> None:  # noqa: ARG002
        """Refused: a server has it."""
        raise StoreError(f"{self.url} is in use")

    def changes(self) -> AsyncIterator[None]:
        """See `SharedStore`."""
        return self._heard("members")

    def token_changes(self) -> AsyncIterator[None]:
        """See `SharedStore`."""
        return self._heard("tokens")

    async def _heard(self, name: str) -> AsyncIterator[None]:
        while True:
            await self._news[name].wait()
            self._news[name].clear()
            yield

    async def _close(self, number: int) -> None:
        """Let go of a file, after what was sent to it."""
        found = self._open.pop(number, None)
        if found is not None:
            await found.store.close()

    async def _ask(self, method: str, *arguments: Any) -> Any:
        try:
            return await self._channel.call(method, *arguments)
        except ChannelClosed as error:
            raise CommitDelayed(str(error)) from error


def parts_of(group: Group) -> dict[int | None, Group]:
    """The rows of each namespace, and those of none."""
    parts: dict[int | None, Group] = {}

    def part(table: Table, key: int) -> Group:
        number = None if table in COMMON else key if table is Table.NAMESPACES else namespace_of(key)
        found = parts.get(number)
        if found is None:
            found = parts[number] = Group(0, group.at, group.epoch)
        return found

    if len(group.fences) == 1 and COMMON.isdisjoint((*group.puts, *group.removes)):
        # Most often: nothing is to be sorted.
        only = Group(0, group.at, group.epoch, {}, group.puts, group.ended, group.removes)
        return {next(iter(group.fences)): only}
    for table, keys in group.removes.items():
        for key in keys:
            part(table, key).remove(table, key)
    for table, rows in group.puts.items():
        for key, record in rows:
            part(table, key).put(table, key, record)
    for row in group.ended:
        part(Table.ENDED, row[0]).ended.append(row)
    return parts


def _replica(row: Any) -> ReplicaRow:
    replica, started_at, renewed_at, died_at = row
    return ReplicaRow(Replica(*replica), started_at, renewed_at, died_at)


def as_shared(store: FolderStore) -> SharedStore:
    """For the type checker."""
    return store
