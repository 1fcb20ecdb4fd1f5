"""This server as one of the replicas of a store: it joins, divides the namespaces with the others, and leaves."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import structlog

from taskyard_server.store.port import CommitDelayed, StoreError

from .figures import ReplicaFigures
from .lives import Lives, ProcessLives
from .membership import TRUSTED, Membership
from .ownership import OwnershipTable
from .ownership_lease import OwnershipLease, boot_time

if TYPE_CHECKING:
    from taskyard_server.engine.owned_namespaces import OwnedNamespaces
    from taskyard_server.store.shared_port import Replica, SharedStore

    from .clock import SharedClock

log = structlog.get_logger(__name__)

LOOK_SECS: Final = 1.0
"""How often the owners are looked at without a notice; others may be at work for this long unseen."""
TOGETHER_SECS: Final = 0.01
"""Notices that come together are looked into together."""
REPEAT_SECS: Final = 0.5
LEAVE_SECS: Final = 5.0


class ReplicaRun:
    """The part of a server that makes it a replica. `on_change` is called when owners or replicas have changed."""

    def __init__(
        self,
        store: SharedStore,
        owned: OwnedNamespaces,
        me: Replica,
        failover_secs: float,
        clock: SharedClock,
        *,
        boot: Callable[[], float] = boot_time,
        steady: Callable[[], float] = time.monotonic,
        lives: Lives | None = None,
    ) -> None:
        self.trust = OwnershipLease(TRUSTED * failover_secs, boot)
        self.figures = ReplicaFigures()
        self.membership = Membership(store, me, failover_secs, self.trust, clock, lives or ProcessLives(), steady)
        self.ownership = OwnershipTable(store, owned, self.membership, self.trust, self.figures, steady)
        self.on_change: Callable[[], None] = lambda: None
        self._store = store
        self._changed = asyncio.Event()
        self._has_news = False
        self.membership.on_change = self._note_change
        self.ownership.on_change = lambda: self.on_change()
        owned.on_lost = lambda _: self._changed.set()

    async def start(self) -> None:
        """Join, and see who owns what. Raises `StoreError`."""
        try:
            await self.membership.join()
            await self.ownership.look()
        except CommitDelayed as error:
            raise StoreError(str(error)) from None

    async def run(self) -> None:
        """Take part, until cancelled. Raises `StoreError` for a defect of the store."""
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self.membership.run())
            parts.create_task(self._listen())
            parts.create_task(self._act())

    async def stop(self) -> None:
        """Give everything up for others; what falls to nobody goes on until `leave`."""
        with contextlib.suppress(CommitDelayed, TimeoutError):
            async with asyncio.timeout(LEAVE_SECS):
                await self.ownership.stop()

    async def leave(self) -> None:
        """Release what is left, and be no replica any more. Before that, nothing may be under way."""
        with contextlib.suppress(CommitDelayed, StoreError, TimeoutError):
            async with asyncio.timeout(LEAVE_SECS):
                await self.ownership.release_all()
                await self.membership.leave()

    def _note_change(self) -> None:
        self._changed.set()

    async def _listen(self) -> None:
        async for _ in self._store.changes():
            self._has_news = True
            self._changed.set()

    async def _act(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECS):
                    await self._changed.wait()
            await asyncio.sleep(TOGETHER_SECS)
            self._changed.clear()
            try:
                if self._has_news:
                    # One of the others may stop: until that is known here, it would be handed namespaces.
                    self._has_news = False
                    await self.membership.renew()
                await self.ownership.look()
                await self.ownership.act()
            except CommitDelayed as error:
                log.warning("owners_unknown", reason=str(error))
                await asyncio.sleep(REPEAT_SECS)
            except Exception:
                # A defect in one round must not end all of them.
                log.exception("ownership_failed")
                await asyncio.sleep(REPEAT_SECS)
            self.on_change()
