"""A store in PostgreSQL, for one server or for many replicas that share it: `postgresql://USER@HOST/DATABASE`.

It has a connection for commits, one for renewals, one for who owns what, one that listens, and up to four for reads.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import Callable, Collection
from typing import Any, Final

from taskyard_server.store.port import (
    UNKNOWN_BYTES,
    BackupFailed,
    CommitDelayed,
    Committed,
    Group,
    StoreError,
    StoreMeta,
    StoreStats,
    Table,
    keys_of,
)
from taskyard_server.store.shared_port import SharedStore

from .address import PostgresAddress
from .changes import ChangeFeed
from .commit import UNFENCED_ROWS, Commit, Composer
from .health import broken_rules, require_sessions, require_version, warnings
from .links import Link, Readers
from .members import PostgresMembers
from .rows import PostgresRows
from .schema import VERSION, migrate, statements

COMMIT_SECS: Final = 30.0
READ_SECS: Final = 60.0
MEASURED_EVERY_SECS: Final = 60.0
REMOVED_BYTES: Final = 8 << 20
"""No more output is removed at once, but for that of one task."""
_TRIES: Final = 3
OF_NAMESPACES: Final = (
    Table.STATES,
    Table.ENDED,
    Table.STOPPING,
    Table.HOSTS,
    Table.AGENTS,
    Table.SCHEDULES,
    Table.TRIGGERS,
    Table.OUTBOX,
    Table.OPERATIONS,
    Table.RULES,
    Table.EVENTS,
)
"""The tables whose keys bear the number of a namespace, but for `TASKS`."""


class PostgresStore(PostgresRows, PostgresMembers):
    """Implements `shared_port.SharedStore`.

    `failover_secs` is how long a replica may not have renewed itself until nobody counts on it any more. A server that
    is away is waited for up to `wait_secs` at the start, and up to `commit_secs` for a commit. Tables that `must_exist`
    are not made. `sql` gives other statements, for tests.
    """

    def __init__(
        self,
        url: str,
        *,
        failover_secs: float = 10.0,
        wait_secs: float = 10.0,
        commit_secs: float = COMMIT_SECS,
        must_exist: bool = False,
        sql: Callable[[], dict[str, str]] = statements,
    ) -> None:
        self._address = PostgresAddress(url)
        self._sql = sql()
        self._failover_secs = failover_secs
        self._wait_secs = wait_secs
        self._must_exist = must_exist
        session = self._sql["session"]
        self._committing = Link(self._address, session, commit_secs)
        # An answer that comes after the trust is over is worth nothing.
        self._life = Link(self._address, session, max(1.0, failover_secs / 4))
        self._owning = Link(self._address, session, max(2.0, failover_secs))
        self._readers = Readers(self._address, session, READ_SECS)
        self._changes = ChangeFeed(self._address)
        self._composer = Composer(self._sql)
        self._writer = secrets.token_hex(12)
        self._write_numbers = itertools.count(1)
        self._numbered: tuple[Group | None, int] = (None, 0)
        self._has_excluded_replicas = False
        self._used_bytes = 0
        self._measured_at = 0.0
        self._measuring: asyncio.Task[None] | None = None
        self.warnings: list[str] = []
        """The settings of PostgreSQL that may cost acknowledged work, a line each; known once it is open."""

    @property
    def url(self) -> str:
        """The URL as it was given, without passwords."""
        return self._address.shown

    async def open(self) -> StoreMeta:
        """See `Store`. Replicas open the same one; that nobody else does is asked where it matters."""
        await self._begin()
        try:
            await require_sessions(self._committing, self._owning, self._address)
            await self._measure()
        except CommitDelayed as error:
            await self.close()
            raise StoreError(str(error)) from error
        except BaseException:
            await self.close()
            raise
        return self._meta

    async def _begin(self) -> None:
        """Open what is there, or will be within `wait_secs`."""

        async def begun(connection: Any) -> StoreMeta:
            require_version(connection, self._address)
            await migrate(connection, self._address, self._sql, must_exist=self._must_exist)
            self.warnings = await warnings(connection, self._sql)
            return StoreMeta(*await connection.fetchrow(self._sql["read_meta"]))

        until = time.monotonic() + self._wait_secs
        # A migration takes as long as it takes.
        link = Link(self._address, self._sql["session"], None)
        try:
            while True:
                try:
                    self._meta = await link.run(begun, is_opening=True)
                    return
                except CommitDelayed as error:
                    if time.monotonic() >= until:
                        text = f"{error}; see that it runs and that store.url names it"
                        raise StoreError(text) from error
                await asyncio.sleep(0.2)
        finally:
            await link.close()

    async def commit(self, group: Group) -> Committed:
        """See `Store`."""
        began = time.perf_counter()
        under_way = self._commit_under_way = asyncio.get_running_loop().create_future()
        try:
            lost = await (self._commit_whole(group) if self._instance is None else self._commit_fenced(group))
        finally:
            self._commit_under_way = None
            under_way.set_result(None)
        self._measure_sometimes()
        return Committed(time.perf_counter() - began, self._used_bytes, UNKNOWN_BYTES, lost)

    async def _commit_whole(self, group: Group) -> frozenset[int]:
        """Commit as the only user of the store."""
        if group.fences:
            raise StoreError("a commit with fences came before its replica had joined; please report it")
        if not self._has_excluded_replicas:
            await self.exclude_replicas()
            self._has_excluded_replicas = True
        if await self._written(self._composer.whole(group)):
            return frozenset()
        (meta,) = await self._committing.fetch(self._sql["read_meta"])
        if group.number > meta["number"]:
            await self.exclude_replicas()
            text = f"commit {group.number} came after {meta['number']}; another program writes to it"
            raise StoreError(f"{self.url}: {text}, or this is a defect of Taskyard")
        return frozenset()

    async def _commit_fenced(self, group: Group) -> frozenset[int]:
        instance = self._instance
        assert instance is not None
        if group is not self._numbered[0]:
            self._numbered = (group, next(self._write_numbers))
        commit = self._composer.fenced(group, instance, self._writer, self._numbered[1])
        if not commit.statement:
            return frozenset()
        for _ in range(_TRIES):
            missing = group.fences.keys() - await self._written(commit)
            if not missing:
                return frozenset()
            spaces = sorted(missing)
            terms = [group.fences[space].term for space in spaces]
            found = dict(await self._committing.fetch(self._sql["look"], spaces, terms, instance))
            number = {space: group.fences[space].number for space in spaces}
            if not any(found.get(space) == number[space] - 1 for space in spaces):
                return frozenset(space for space in spaces if found.get(space, -1) < number[space])
        raise CommitDelayed(f"{self.url}: namespace {min(missing)} is being written by another one")

    async def _written(self, commit: Commit) -> set[int]:
        """Which namespaces were written now. Rows without a fence that are not have been written before."""
        rows = await self._committing.fetch(commit.statement, *commit.arguments)
        return {row[0] for row in rows} - ({UNFENCED_ROWS} if commit.has_unfenced else set())

    async def forget(self, before_ms: int, limit: int, kept: Collection[int] = ()) -> int:
        """See `Store`. Of the namespaces that this replica owns, and of those of nobody in which no task lives."""
        keys = list(kept)
        if self._instance is not None:
            rows = await self._owning.fetch(self._at_once("forget"), before_ms, limit, keys, self._instance)
        else:
            rows = await self._owning.fetch(self._at_once("forget_whole"), before_ms, limit, keys)
        return int(rows[0][0])

    async def remove_namespace(self, number: int, limit: int) -> int:
        """See `Store`."""
        first, last = keys_of(number)
        of_tables = [self._sql["remove_rows_of"].replace("{table}", table.name.lower()) for table in OF_NAMESPACES]
        for statement in (self._at_once("remove_tasks_of"), self._sql["remove_output_of"], *of_tables):
            if removed := await self._removed(statement, first, last, limit):
                return removed
        own = self._sql["remove_rows_of"].replace("{table}", "namespaces")
        removed = await self._removed(own, number, number, 1)
        if not removed:
            await self._owning.fetch(self._sql["remove_owner"], number)
        return removed

    async def _removed(self, statement: str, first: int, last: int, limit: int) -> int:
        return int((await self._owning.fetch(statement, first, last, limit))[0][0])

    def _at_once(self, name: str) -> str:
        """A statement that removes tasks, as few at once as `REMOVED_BYTES` of their output demand."""
        return self._sql[name].replace("{at_once}", self._sql["at_once"].format(bytes=REMOVED_BYTES))

    async def check(self) -> list[str]:
        """See `Store`. The tables as of one moment, while others go on."""
        try:
            return await self._readers.run(lambda connection: broken_rules(connection, self._sql))
        except CommitDelayed as error:
            raise BackupFailed(f"{error}; check again") from error

    async def backup(self, path: str, *, replace: bool = False) -> None:  # noqa: ARG002
        """Refused: PostgreSQL has better ways."""
        text = (
            "is backed up by PostgreSQL: pg_dump, or a base backup and its log (docs/operate/durability.md, PostgreSQL)"
        )
        raise BackupFailed(f"{self.url} {text}")

    async def free_bytes(self) -> int:
        """See `Store`."""
        return UNKNOWN_BYTES

    async def stats(self) -> StoreStats:
        """See `Store`. All rows are counted, which takes seconds where there are millions."""

        async def counted(connection: Any) -> StoreStats:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                rows = {}
                for name in (*(table.name.lower() for table in Table), "output"):
                    rows[name] = int(await connection.fetchval(self._sql["count"].format(table=name)))
                number, at, epoch, _ = await connection.fetchrow(self._sql["figures"])
                used = await connection.fetchval(self._sql["used_bytes"])
            return StoreStats(rows, used, UNKNOWN_BYTES, number, at, epoch, VERSION)

        return await self._readers.run(counted)

    async def go_on_from(self, meta: StoreMeta) -> None:
        """See `Store`."""
        await self.exclude_replicas()
        if not await self._owning.fetch(self._sql["go_on_from"], *meta):
            raise StoreError(f"{self.url} is in use already; name a new database")

    async def close(self) -> None:
        """See `Store`."""
        while (commit := self._commit_under_way) is not None:
            await asyncio.wait((commit,))
        self._instance = None
        if self._measuring is not None:
            self._measuring.cancel()
        await self._changes.close()
        for link in (self._committing, self._life, self._owning, self._readers):
            await link.close()

    def _measure_sometimes(self) -> None:
        if time.monotonic() - self._measured_at > MEASURED_EVERY_SECS and (
            self._measuring is None or self._measuring.done()
        ):
            self._measured_at = time.monotonic()
            self._measuring = asyncio.ensure_future(self._measure())

    async def _measure(self) -> None:
        self._measured_at = time.monotonic()
        try:
            rows = await self._readers.fetch(self._sql["used_bytes"])
        except (CommitDelayed, StoreError):
            return
        self._used_bytes = int(rows[0][0] or 0)


def as_shared(store: PostgresStore) -> SharedStore:
    """For the type checker."""
    return store
