"""Who the replicas are: this one joins, renews itself, and joins anew as another instance once it was found dead."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Final

import structlog

from taskyard_server.store.port import CommitDelayed, StoreError
from taskyard_server.store.shared_port import Replica, ReplicaRow

if TYPE_CHECKING:
    from taskyard_server.store.shared_port import SharedStore

    from .clock import SharedClock
    from .lives import Lives
    from .ownership_lease import OwnershipLease

log = structlog.get_logger(__name__)

TRUSTED: Final = 0.5
"""The part of the failover time for which a renewal is trusted, from when it was sent."""
DEAD_AFTER: Final = 0.7
"""The part of it after which a replica that did not renew itself is found dead, by the store's clock."""
OUTAGE: Final = 0.35
"""The part of it for which renewals fail when the store was away from all, and not this replica from the store."""
SETTLED_SECS: Final = 1.0
RENEWALS: Final = 10
"""How many renewals are sent in it, at least."""
RENEW_SECS: Final = 2.0
"""The longest time between two."""


class Membership:
    """This replica among the others. `me` says what it is; its instance is new whenever it joins.

    `on_death` is called when it was found dead, before anything of the next life begins, and `on_change` whenever the
    replicas have been looked at, after `on_level` with the format level in force.
    """

    def __init__(
        self,
        store: SharedStore,
        me: Replica,
        failover_secs: float,
        trust: OwnershipLease,
        clock: SharedClock,
        lives: Lives,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.me = me
        self.level = me.level
        self.deaths = 0
        self.rows: dict[str, ReplicaRow] = {}
        self.on_death: Callable[[], None] = lambda: None
        self.on_change: Callable[[], None] = lambda: None
        self.on_level: Callable[[int], None] = lambda _: None
        self._store = store
        self._failover_secs = failover_secs
        self._trust = trust
        self._clock = clock
        self._steady = steady
        self._lives = lives
        self._has_joined = False
        self._renewed_at = self._judges_from = -inf

    @property
    def renew_secs(self) -> float:
        """How often it is renewed."""
        return min(self._failover_secs / RENEWALS, RENEW_SECS)

    def living(self) -> list[ReplicaRow]:
        """The replicas that live, as far as is known here."""
        return [row for row in self.rows.values() if row.died_at is None]

    def is_alive(self, instance: str | None) -> bool:
        """True if an instance lives, as far as is known here."""
        row = None if instance is None else self.rows.get(instance)
        return row is not None and row.died_at is None

    def is_draining(self) -> bool:
        """True if an operator lets this replica take no namespaces."""
        row = self.rows.get(self.me.instance)
        return row is not None and row.replica.is_draining

    def may_own(self, row: ReplicaRow) -> bool:
        """True if a replica takes namespaces: it lives, does not drain, and others reach it or it is this one.

        One that has just begun is left alone for a while: it has still to hear of what it is given.
        """
        replica = row.replica
        reachable = replica.instance == self.me.instance or replica.address is not None
        is_settled = row.renewed_at - row.started_at >= SETTLED_SECS
        may_now = row.died_at is None and not replica.is_draining and is_settled
        return may_now and reachable and replica.level >= self.level

    def name_of(self, instance: str | None) -> str | None:
        """The name of an instance, for people."""
        row = None if instance is None else self.rows.get(instance)
        return None if row is None else row.replica.name

    async def join(self) -> None:
        """Begin to live. Raises `StoreError`, and `CommitDelayed` if the store does not answer."""
        # What an operator wants of a replica outlasts its death.
        self.me = self.me._replace(instance=self._lives.begin(), is_draining=self.is_draining())
        began_at, sent_at = self._trust.now(), self._steady()
        at = await self._store.join(self.me)
        self._clock.follow(at, sent_at, self._steady())
        self._has_joined = True
        self._trust.renewed(began_at)
        self._renewed_at = sent_at
        await self.renew()

    async def renew(self) -> None:
        """Go on living, and look at the others. Raises `CommitDelayed` if the store does not answer."""
        if not self._has_joined:
            return
        began_at, sent_at = self._trust.now(), self._steady()
        instance = self.me.instance
        if sent_at - self._renewed_at > OUTAGE * self._failover_secs:
            # The others may have waited for the store as well, and have a try of theirs under way.
            self._judges_from = sent_at + self.renew_secs + TRUSTED * self._failover_secs
        dead_after = inf if sent_at < self._judges_from else DEAD_AFTER * self._failover_secs
        renewal = await self._store.renew(instance, dead_after)
        if renewal is not None and await self._bury_ended(renewal.replicas):
            renewal = await self._store.renew(instance, dead_after)
        if instance != self.me.instance or not self._has_joined:
            # It is about a life that has ended meanwhile.
            return
        if renewal is None:
            self._die()
            return
        self._clock.follow(renewal.at, sent_at, self._steady())
        self._trust.renewed(began_at)
        self._renewed_at = sent_at
        self.level = renewal.level
        self.rows = {row.replica.instance: row for row in renewal.replicas}
        common = min((row.replica.level for row in self.living()), default=self.level)
        if common > self.level and await self._store.raise_level(common):
            self.level = common
            log.info("format_level_raised", level=common)
        self.on_level(self.level)
        self.on_change()

    async def _bury_ended(self, rows: Sequence[ReplicaRow]) -> bool:
        """Note the deaths of those whose processes have ended for sure. Returns whether there are any."""
        is_any = False
        for replica in [row.replica for row in rows if row.died_at is None]:
            if replica.instance != self.me.instance and await self._lives.has_ended(replica, self.me):
                log.warning("replica_ended", replica=replica.name, instance=replica.instance)
                await self._store.leave(replica.instance)
                is_any = True
        return is_any

    async def run(self) -> None:
        """Renew it until cancelled; join anew after a death."""
        while True:
            await asyncio.sleep(self.renew_secs)
            try:
                async with asyncio.timeout(TRUSTED * self._failover_secs):
                    await (self.renew() if self._has_joined else self.join())
            except (CommitDelayed, TimeoutError) as error:
                log.warning("renewal_failed", reason=str(error) or "the store does not answer")
            except StoreError as error:
                # Another version may have begun a newer format while this one was cut off.
                log.error("replica_cannot_join", reason=str(error))

    async def leave(self) -> None:
        """Die in order, if the store answers."""
        if self._has_joined:
            self._has_joined = False
            self._trust.die()
            await self._store.leave(self.me.instance)
            self._lives.end()

    def _die(self) -> None:
        log.error("replica_found_dead", instance=self.me.instance, why="it was not renewed in time")
        self._has_joined = False
        self.deaths += 1
        self._trust.die()
        self.on_death()
