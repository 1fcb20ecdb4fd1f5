"""Who the replicas are that share a store in PostgreSQL, and which of them owns a namespace (shared_port.py).

Renewals have a connection of their own: nothing holds one up.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import asyncpg

from taskyard_server.store.port import EPOCH_JUMP, StoreError, StoreMeta
from taskyard_server.store.shared_port import OwnerRow, Renewal, Replica, ReplicaRow, Taken

from .address import PostgresAddress
from .changes import MEMBERS, TOKENS, ChangeFeed
from .links import Link

DIED_LATELY_SECS: Final = 60.0
LOOK_BACK_SECS: Final = 30.0
"""How much further back than asked `owners` looks, since transactions end out of the order in which they began."""
LONG_DEAD_SECS: Final = 600.0
"""Namespaces of a replica that is dead for this long become nobody's."""
SWEEP_EVERY: Final = 500
"""Renewals."""


class PostgresMembers:
    """A part of `PostgresStore`. `_life` is the connection of renewals, `_owning` that of the rest."""

    _address: PostgresAddress
    _sql: dict[str, str]
    _life: Link
    _owning: Link
    _changes: ChangeFeed
    _failover_secs: float
    _instance: str | None = None
    _renewals: int = 0

    async def join(self, replica: Replica) -> float:
        """See `SharedStore`."""
        ((level, at),) = await self._life.fetch(self._sql["join"], *replica)
        if level > replica.level:
            raise StoreError(
                f"{self._address.shown} has the format level {level} in force, and this version knows {replica.level}; "
                "start a newer one"
            )
        self._instance = replica.instance
        await self._sweep()
        return float(at)

    async def renew(self, instance: str, dead_after_secs: float) -> Renewal | None:
        """See `SharedStore`."""
        renewed = await self._life.fetch(self._sql["renew"], instance)
        if not renewed:
            return None
        at, level = renewed[0]
        rows = await self._life.fetch(self._sql["replicas"], DIED_LATELY_SECS)
        if any(row[8] is None and row[0] != instance and row[9] > dead_after_secs for row in rows):
            await self._life.execute(self._sql["bury"], instance, dead_after_secs)
            rows = await self._life.fetch(self._sql["replicas"], DIED_LATELY_SECS)
        self._renewals += 1
        if self._renewals % SWEEP_EVERY == 0:
            await self._sweep()
        return Renewal(at, level, list(map(_replica, rows)))

    async def replicas(self, died_within_secs: float) -> Sequence[ReplicaRow]:
        """See `SharedStore`."""
        return list(map(_replica, await self._owning.fetch(self._sql["replicas"], died_within_secs)))

    async def drain(self, name: str, is_draining: bool) -> bool:
        """See `SharedStore`."""
        return bool(await self._owning.fetch(self._sql["drain"], name, is_draining))

    async def raise_level(self, level: int) -> bool:
        """See `SharedStore`."""

        async def locked(connection: Any) -> bool:
            async with connection.transaction():
                # A statement of its own: who has joined before the lock was had is seen by the next one.
                if await connection.fetchval(self._sql["lock_level"]) >= level:
                    return True
                return await connection.fetchval(self._sql["raise_level"], level) is not None

        return await self._owning.run(locked)

    async def leave(self, instance: str) -> None:
        """See `SharedStore`."""
        await self._life.execute(self._sql["leave"], instance)

    async def owners(self, since: float | None = None) -> tuple[float, Sequence[OwnerRow]]:
        """See `SharedStore`."""
        ((at,),) = await self._owning.fetch(self._sql["now"])
        if since is None:
            rows = await self._owning.fetch(self._sql["owners"])
        else:
            rows = await self._owning.fetch(self._sql["owners_since"], since, LOOK_BACK_SECS)
        return float(at), [OwnerRow(*row) for row in rows]

    async def needing_owner(self, limit: int) -> Sequence[OwnerRow]:
        """See `SharedStore`."""
        return [OwnerRow(*row) for row in await self._owning.fetch(self._sql["needing_owner"], limit)]

    async def create(self, name: str, instance: str) -> Taken | None:
        """See `SharedStore`. None too if the instance is dead."""
        return _taken(await self._owning.fetch(self._sql["create"], name, instance))

    async def take(self, number: int, instance: str) -> Taken | None:
        """See `SharedStore`."""
        return _taken(await self._owning.fetch(self._sql["take"], number, instance))

    async def release(self, fences: dict[int, int], instance: str, served_until: float, to: str | None = None) -> None:
        """See `SharedStore`. A gift to one that does not live is for anyone who takes it."""
        if fences:
            spaces = sorted(fences)
            terms = [fences[space] for space in spaces]
            await self._owning.execute(self._sql["release"], spaces, terms, instance, served_until, to)

    async def rename(self, number: int, name: str | None) -> None:
        """See `SharedStore`. Raises `StoreError` if another one has the name."""
        try:
            await self._owning.execute(self._sql["rename"], number, name)
        except StoreError as error:
            if isinstance(error.__cause__, asyncpg.UniqueViolationError):
                raise StoreError(f"there is a namespace {name} already") from error
            raise

    def changes(self) -> AsyncIterator[None]:
        """See `SharedStore`. Also after each new connection, since some may have been missed."""
        return self._changes.heard(MEMBERS)

    def token_changes(self) -> AsyncIterator[None]:
        """See `SharedStore`. Also after each new connection, since some may have been missed."""
        return self._changes.heard(TOKENS)

    async def adopt(self, names: Mapping[int, str | None]) -> None:
        """See `SharedStore`."""

        async def adopted(connection: Any) -> None:
            async with connection.transaction():
                await connection.execute(self._sql["adopt"], list(names), list(names.values()))
                await connection.fetch(self._sql["draw_on"])

        await self.exclude_replicas()
        await self._owning.run(adopted)

    async def begin_epoch(self) -> int:
        """After a restore: nothing that was ever told is told again for something else. The new epoch.

        Terms and the numbers of commits jump, no replica lives, nobody owns anything. Raises `StoreError` while a
        replica lives.
        """

        async def begun(connection: Any) -> int:
            async with connection.transaction():
                epoch: int = await connection.fetchval(self._sql["begin_epoch"], EPOCH_JUMP)
                await connection.execute(self._sql["jump"], EPOCH_JUMP)
                await connection.execute(self._sql["bury_all"])
            return epoch

        await self.exclude_replicas()
        return await self._owning.run(begun)

    async def exclude_replicas(self) -> None:
        """Mark dead who has not renewed itself for long. Raises `StoreError` while a replica lives, by name."""
        await self._owning.execute(self._sql["bury"], "", self._failover_secs)
        living = await self._owning.fetch(self._sql["living"])
        if living:
            names = ", ".join(sorted({name for name, _ in living}))
            raise StoreError(f"{self._address.shown} is in use by {names}; stop every server on it first")

    async def _sweep(self) -> None:
        """Forget who died long ago; rarely, and only where there is somebody."""
        ((is_needed,),) = await self._owning.fetch(self._sql["has_long_dead"], LONG_DEAD_SECS)
        if is_needed:
            await self._owning.execute(self._sql["release_of_the_dead"], LONG_DEAD_SECS)
            await self._owning.execute(self._sql["forget_the_dead"])
            await self._owning.execute(self._sql["forget_writers"])


def _replica(row: Any) -> ReplicaRow:
    return ReplicaRow(Replica(*row[:6]), *row[6:9])


def _taken(rows: list[Any]) -> Taken | None:
    if not rows:
        return None
    number, name, term, commit_no, served_until, epoch = rows[0]
    return Taken(number, name, term, StoreMeta(commit_no, served_until, epoch))
