"""Demand: what pools of hosts have to do, so that somebody else can add hosts and take them away.

A pool is a selector of hosts that the configuration names. What a host of it could be handed is found by the buckets of
the ready queue, and the lanes and strands in them, so it costs nothing while nobody asks, and never goes by tasks
(docs/rules.md, Demand).
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from taskyard_server.core.hosts import Host, HostProfile

from .runnable import Room, Waiting

if TYPE_CHECKING:
    from taskyard_server.core.liveness import Liveness
    from taskyard_server.core.scheduler import Scheduler


class Pool(NamedTuple):
    """A set of hosts: those with these labels, at least these capabilities, this project and one of these actions.

    None is any project, or any action.
    """

    name: str
    labels: frozenset[tuple[str, str]] = frozenset()
    capabilities: frozenset[str] = frozenset()
    project: str | None = None
    actions: frozenset[str] | None = None

    @property
    def profile(self) -> HostProfile:
        """A host that is just as the pool says: what it may run belongs to the pool."""
        return HostProfile(self.capabilities, self.project, self.actions)

    def has(self, host: Host) -> bool:
        """True if a host belongs to the pool; built-in ones belong to none."""
        profile = host.profile
        return (
            not host.built_in
            and self.labels.issubset(host.labels)
            and self.capabilities <= profile.capabilities
            and (self.project is None or profile.project is None or profile.project == self.project)
            and (self.actions is None or profile.actions is None or not self.actions.isdisjoint(profile.actions))
        )


class Demand(NamedTuple):
    """The demand on one pool: tasks that only hosts are missing for, and tasks in flight at its hosts.

    `oldest_secs` is the longest that one of the former has been queued, None where there is none. `free_credit` is what
    its live `hosts` would still take.
    """

    pool: str
    runnable: int = 0
    inflight: int = 0
    oldest_secs: float | None = None
    free_credit: int = 0
    hosts: int = 0

    def plus(self, other: Demand) -> Demand:
        """The demand of two namespaces together."""
        ages = [secs for secs in (self.oldest_secs, other.oldest_secs) if secs is not None]
        return Demand(
            self.pool,
            self.runnable + other.runnable,
            self.inflight + other.inflight,
            max(ages, default=None),
            self.free_credit + other.free_credit,
            self.hosts + other.hosts,
        )


def demand_of(scheduler: Scheduler, now: float, pool: Pool) -> Demand:
    """The demand of a pool at this moment."""
    life = scheduler.life
    runnable, since = _runnable(scheduler, now, pool.profile)
    inflight = free_credit = live = 0
    for host in scheduler.hosts:
        if pool.has(host):
            inflight += len(host.leases)
            if life.liveness.is_live(now, host):
                live += 1
                free_credit += free_credit_of(life.liveness, host, now)
    oldest_secs = None if since is None else max(0.0, now - since)
    return Demand(pool.name, runnable, inflight, oldest_secs, free_credit, live)


def free_credit_of(liveness: Liveness, host: Host, now: float) -> int:
    """The number of tasks that could be handed to the streams and waiting claims of a host now."""
    if host.draining:
        return 0
    credit = 0
    for offer in host.offers:
        rests = offer.streamed and host.rests_until is not None
        if offer.room > 0 and not rests and not liveness.is_silent(now, offer):
            credit += offer.room
    return credit


def _runnable(scheduler: Scheduler, now: float, profile: HostProfile) -> tuple[int, float | None]:
    """How many tasks enough hosts of a profile could be handed at once, and since when the first of them is queued.

    The limits in flight hold for them together: an agent with 100 tasks and one free place has one.
    """
    life = scheduler.life
    limits, ready = life.limits, life.ready
    free = limits.max_inflight - life.counts.inflight
    if free <= 0:
        return 0, None
    ready.keys.look(now)
    room, cap = Room(ready.keys), limits.max_per_agent_inflight
    buckets = ready.eligible(profile)
    waiting, of_triggers = Waiting(), Waiting()
    waiting.add([bucket for bucket in buckets if not bucket.triggered], cap, room, {})
    free_of_triggers = limits.max_concurrent - life.triggered.inflight
    if free_of_triggers > 0:
        of_triggers.add([bucket for bucket in buckets if bucket.triggered], cap, room, waiting.by_agent)
    runnable = sum(waiting.by_agent.values()) + min(sum(of_triggers.by_agent.values()), free_of_triggers)
    since = min(waiting.since, of_triggers.since)
    return min(free, runnable), None if since == inf else since
