"""Makes a server one of the replicas that share its store: who must know when namespaces come and go is told here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Protocol

from taskyard_server.engine.memory.engine import MemoryEngine
from taskyard_server.engine.port.namespaces import Ownership
from taskyard_server.store.port import FORMAT_LEVEL
from taskyard_server.store.shared_port import Replica, ReplicaRow, SharedStore

from .door import OwnersDoor
from .membership import random_instance
from .replica import ReplicaRun
from .trust import boot_time

if TYPE_CHECKING:
    from taskyard_server.carrying import Carrier

    from .clock import SharedClock


class Follower(Protocol):
    """Who watches namespaces here, and must look elsewhere for those that leave."""

    def leave(self, namespace: str) -> None:
        """A namespace is served by another replica from now on."""

    def is_watched(self, namespace: str) -> bool:
        """Whether anybody watches it, so that it is to stay."""


class ReplicaServing:
    """A server's part in sharing a store with others, under a name, and at an address where others reach it.

    Implements `engine.port.NamespaceDirectory`.
    """

    def __init__(
        self,
        store: SharedStore,
        engine: MemoryEngine,
        clock: SharedClock,
        name: str,
        address: str | None,
        failover_secs: float,
        *,
        boot: Callable[[], float] = boot_time,
        steady: Callable[[], float] = time.monotonic,
        new_instance: Callable[[], str] = random_instance,
    ) -> None:
        assert engine.tenures is not None
        assert engine.keeper is not None
        me = Replica("", name, address, FORMAT_LEVEL, version("taskyard"))
        self._store = store
        self._tenures = engine.tenures
        self._carrier: Carrier | None = None
        self.replica = ReplicaRun(
            store, engine.tenures, me, failover_secs, clock, boot=boot, steady=steady, new_instance=new_instance
        )
        self.door = OwnersDoor(self.replica.ownership, self.replica.trust, engine.keeper.keeping.patience_secs)
        self.on_change: Callable[[], None] = lambda: None
        self.replica.on_change = self._changed
        engine.keeper.may_tell = self._may_tell
        engine.namespaces.directory = self

    def tell(self, *followers: Follower, begun: Callable[[str], None], left: Callable[[str], None]) -> None:
        """Tell of each namespace that begins to be served here, and of each that leaves."""
        self._tenures.begun.append(begun)
        self._tenures.left.append(left)
        for follower in followers:
            self._tenures.left.append(follower.leave)
            self._tenures.wanted.append(follower.is_watched)

    def carry_by(self, carrier: Carrier) -> None:
        """Let a gateway carry calls to the owners of their namespaces."""
        self._carrier = carrier
        self._changed()

    def replicas(self) -> list[tuple[ReplicaRow, int]]:
        """The replicas that live, by name, each with how many namespaces it owns."""
        ownership, membership = self.replica.ownership, self.replica.membership
        counts: dict[str | None, int] = {}
        for row in ownership.rows.values():
            counts[row.instance] = counts.get(row.instance, 0) + 1
        living = sorted(membership.living(), key=lambda row: (row.replica.name, row.started_at))
        return [(row, counts.get(row.replica.instance, 0)) for row in living]

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
