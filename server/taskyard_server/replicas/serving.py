"""Makes a server one of the replicas that share its store: who must know when namespaces come and go is told here."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, Protocol

from taskyard_server.core.errors import NotFound, Unavailable
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.views import Ownership, ReplicaView
from taskyard_server.store.port import FORMAT_LEVEL, CommitDelayed
from taskyard_server.store.shared_port import Replica, ReplicaRow, SharedStore

from .ownership import NO_ANSWER
from .ownership_check import OwnershipCheck
from .ownership_lease import boot_time
from .replica import ReplicaRun

if TYPE_CHECKING:
    from taskyard_server.gateway.envoy_routes import EnvoyRoutes

    from .clock import SharedClock
    from .lives import Lives

SHOWN_SECS: Final = 86_400.0
"""How long a replica is shown after its death."""


class Follower(Protocol):
    """Who watches namespaces here, and must look elsewhere for those that leave."""

    def leave(self, namespace: str) -> None:
        """A namespace is served by another replica from now on."""

    def is_watched(self, namespace: str) -> bool:
        """True if anybody watches it, so that it is to stay."""


class ReplicaServing:
    """A server's part in sharing a store with others, under a name, and at an address where others reach it.

    Implements `NamespaceDirectory` and `ReplicaDirectory` of `engine.directories`.
    """

    def __init__(
        self,
        store: SharedStore,
        engine: Engine,
        clock: SharedClock,
        name: str,
        address: str | None,
        failover_secs: float,
        *,
        boot: Callable[[], float] = boot_time,
        steady: Callable[[], float] = time.monotonic,
        lives: Lives | None = None,
    ) -> None:
        assert engine.owned is not None
        assert engine.persistence is not None
        me = Replica("", name, address, FORMAT_LEVEL, version("taskyard"))
        self._store = store
        self._owned = engine.owned
        self._carrier: EnvoyRoutes | None = None
        self.replica = ReplicaRun(store, engine.owned, me, failover_secs, clock, boot=boot, steady=steady, lives=lives)
        self.door = OwnershipCheck(self.replica.ownership, self.replica.trust, engine.persistence.options.patience_secs)
        self.on_change: Callable[[], None] = lambda: None
        self.replica.on_change = self._changed
        engine.persistence.may_tell = self._may_tell
        engine.namespaces.directory = self
        # Until it is known that no replica of an earlier version lives.
        self._owned.set_level(0)
        self.replica.membership.on_level = self._owned.set_level

    def tell(self, *followers: Follower, begun: Callable[[str], None], left: Callable[[str], None]) -> None:
        """Tell of each namespace that begins to be served here, and of each that leaves."""
        self._owned.begun.append(begun)
        self._owned.left.append(left)
        for follower in followers:
            self._owned.left.append(follower.leave)
            self._owned.wanted.append(follower.is_watched)

    def carry_by(self, carrier: EnvoyRoutes) -> None:
        """Let a gateway carry calls to the owners of their namespaces."""
        self._carrier = carrier
        self._changed()

    @property
    def level(self) -> int:
        """See `ReplicaDirectory`."""
        return self.replica.membership.level

    async def replicas(self) -> list[ReplicaView]:
        """See `ReplicaDirectory`."""
        ownership = self.replica.ownership
        try:
            await ownership.look()
            rows = await self._store.replicas(SHOWN_SECS)
        except CommitDelayed:
            raise Unavailable(NO_ANSWER) from None
        counts = Counter(row.instance for row in ownership.rows.values())
        me = self.replica.membership.me.instance
        rows = sorted(rows, key=lambda row: (row.replica.name, row.started_at))
        return [_view_of(row, counts[row.replica.instance], me) for row in rows]

    async def drain(self, name: str, is_draining: bool) -> list[ReplicaView]:
        """See `ReplicaDirectory`."""
        try:
            is_there = await self._store.drain(name, is_draining)
        except CommitDelayed:
            raise Unavailable(NO_ANSWER) from None
        if not is_there:
            raise NotFound("no replica of that name or instance lives")
        return [each for each in await self.replicas() if each.died_at is None and name in (each.name, each.instance)]

    def owners(self) -> Mapping[str, Ownership]:
        """See `NamespaceDirectory`."""
        membership = self.replica.membership
        names = {row.replica.instance: row.replica.name for row in membership.living()}
        rows = self.replica.ownership.rows.items()
        return {name: Ownership(names.get(row.instance or ""), row.term) for name, row in rows}

    async def own(self, name: str, create: bool) -> None:
        """See `NamespaceDirectory`."""
        if not self.replica.ownership.is_here(name):
            await self.replica.ownership.bring(name, create=create)

    async def deleted(self, name: str, number: int) -> None:
        """See `NamespaceDirectory`."""
        await self._store.rename(number, None)
        self.replica.ownership.forget(name)

    def _changed(self) -> None:
        membership, ownership = self.replica.membership, self.replica.ownership
        if self._carrier is not None:
            me = membership.me.instance
            others = {
                row.replica.instance: row.replica.address
                for row in membership.living()
                if row.replica.instance != me and row.replica.address is not None
            }
            owners = ownership.rows.items()
            self._carrier.take_replicas(others)
            self._carrier.take_owners({name: row.instance for name, row in owners if row.instance in others})
        self.on_change()

    def _may_tell(self) -> asyncio.Future[bool] | None:
        trust = self.replica.trust
        return None if trust.holds else asyncio.ensure_future(trust.regained())


def _view_of(row: ReplicaRow, namespaces: int, me: str) -> ReplicaView:
    replica, is_alive = row.replica, row.died_at is None
    return ReplicaView(
        replica.name,
        replica.instance,
        replica.address,
        replica.version,
        replica.level,
        row.started_at,
        row.renewed_at,
        row.died_at,
        replica.is_draining,
        namespaces if is_alive else 0,
        replica.instance == me,
    )
