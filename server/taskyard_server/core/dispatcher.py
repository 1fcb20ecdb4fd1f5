"""Dispatcher out: which host gets which task, whether it asks, waits, or holds a stream.

Each host is given the task that comes first among those it may run (`ready_queue.py`); among hosts that wait, the least
load_changed chooses first (`offers.py`). `Lifecycle` moves what is handed out.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import heapify, heappop, heappush, heapreplace

from .errors import BadRequest
from .hosts import TAB_EXECUTOR, TAB_EXECUTOR_ALONE, Host, HostProfile, Hosts
from .leases import Lease, lease_length
from .lifecycle import Lifecycle
from .offers import Offer, OfferGroup, Rank
from .ready_queue import Bucket

Candidate = tuple[Rank | None, Offer, OfferGroup]
"""Of each group, whose last_grant it is."""


class Dispatcher:
    """Hands out the tasks of one namespace; nothing once it was stopped."""

    def __init__(self, life: Lifecycle, hosts: Hosts) -> None:
        self._stopped = False
        self._life = life
        self._hosts = hosts
        self._held_up: dict[str, HostProfile] = {}

    def claim(self, now: float, host: Host, count: int, lease_secs: float | None, project: str | None) -> list[Lease]:
        """Lease up to `count` tasks to a host that asks for them now; see `Scheduler.claim`."""
        life = self._life
        self._life.liveness.heard(now, host)
        limits = life.limits
        secs = lease_length(lease_secs, limits.lease_secs)
        profile = self._narrowed(now, host, project)
        leases: list[Lease] = []
        if self._stopped or host.draining:
            self._forget_wish(host)
            return leases
        while len(leases) < count and life.inflight < limits.max_inflight:
            lane = life.ready.first(life.ready.eligible(profile), limits.max_per_agent_inflight)
            if lane is None:
                break
            if lane.head().is_overdue(now):
                life.expire(now, lane.head())
                continue
            leases.append(life.grants.grant(now, life.ready.take(lane), host, secs))
        life.offers.load_changed(host)
        if len(leases) < count and self._limit_in_force(life.ready.eligible(profile)) is not None:
            self._held_up[host.id] = profile
        else:
            self._forget_wish(host)
        return leases

    def offer(self, now: float, host: Host, room: int, lease_secs: float | None, project: str | None) -> Offer:
        """Let a host wait for up to `room` tasks; see `Scheduler.offer`."""
        secs = lease_length(lease_secs, self._life.limits.lease_secs)
        return self._life.offers.open(host, self._narrowed(now, host, project), room, secs, project=project)

    def dispatch(self, now: float) -> dict[Offer, list[Lease]]:
        """Lease what can be leased to the hosts that wait for it, the least load_changed host first."""
        life = self._life
        limits, ready, offers = life.limits, life.ready, life.offers
        given: dict[Offer, list[Lease]] = {}
        if self._stopped:
            return given
        self._refit_built_in(now)
        awake = offers.awake()
        if not awake or life.inflight >= limits.max_inflight:
            return given
        candidates = [(front.rank, front, group) for group in awake if (front := group.front()) is not None]
        heapify(candidates)
        for group in [group for group in awake if not group.waiting]:
            del awake[group]
        while candidates and life.inflight < limits.max_inflight:
            rank, _, group = candidates[0]
            offer = group.front()
            if offer is None:
                heappop(candidates)
                awake.pop(group, None)
            elif offer.rank != rank:
                heapreplace(candidates, (offer.rank, offer, group))
            elif life.liveness.is_silent(now, offer):
                # It waits again when it is heard of.
                group.leave(offer)
            elif (lane := ready.first(group.buckets, limits.max_per_agent_inflight)) is None:
                heappop(candidates)
                awake.pop(group, None)
            elif lane.head().is_overdue(now):
                life.expire(now, lane.head())
                # The next task of its target may be one for hosts that had nothing to wait for.
                for woken in ready.take_woken():
                    awake[woken] = None
                    if (front := woken.front()) is not None:
                        heappush(candidates, (front.rank, front, woken))
            else:
                if not offer.streamed:
                    self._heard_by_a_claim(now, offer.host, candidates)
                stream = offer if offer.streamed else None
                lease = life.grants.grant(now, ready.take(lane), offer.host, offer.secs, stream)
                offers.record_grant(offer)
                given.setdefault(offer, []).append(lease)
        return given

    def stop(self) -> None:
        """Dispatch nothing from now on."""
        self._stopped = True

    def refit(self, now: float, host: Host) -> None:
        """It registered anew: it may run other tasks than before, or more."""
        for offer in host.offers:
            self._fit(now, offer)
            self._life.offers.capacity_changed(offer)

    def forget(self, host: Host) -> None:
        """The host is gone, and what it offers with it."""
        for offer in list(host.offers):
            self._life.offers.close(offer)
        self._forget_wish(host)

    @property
    def limited_by(self) -> str | None:
        """The configuration key that keeps a host, which asked for more than it got, from tasks that wait."""
        ready = self._life.ready
        asked = [ready.eligible(profile) for profile in self._held_up.values()]
        waiting = [group.buckets for group in self._life.offers if group.waiting]
        for buckets in (*asked, *waiting):
            if (key := self._limit_in_force(buckets)) is not None:
                return key
        return None

    def _forget_wish(self, host: Host) -> None:
        if host.id in self._held_up:
            del self._held_up[host.id]

    def _heard_by_a_claim(self, now: float, host: Host, candidates: list[Candidate]) -> None:
        """A call that waits shows that its host lives, also to its stream, which may have been silent."""
        self._life.liveness.heard(now, host)
        front = None if host.stream is None else host.stream.group.front()
        if front is not None:
            heappush(candidates, (front.rank, front, front.group))

    def _refit_built_in(self, now: float) -> None:
        """What the built-in host may run depends on who else is there."""
        for host in self._hosts.built_in():
            for offer in host.offers:
                self._fit(now, offer)

    def _fit(self, now: float, offer: Offer) -> None:
        """Let an offer be handed what its host may run now, of what it asks for."""
        self._life.offers.move(offer, self._profile(now, offer.host).narrowed(offer.project))

    def _profile(self, now: float, host: Host) -> HostProfile:
        if not host.built_in:
            return host.profile
        online = self._life.liveness.any_online(now)
        return TAB_EXECUTOR if online else TAB_EXECUTOR_ALONE

    def _narrowed(self, now: float, host: Host, project: str | None) -> HostProfile:
        profile = self._profile(now, host)
        if project is not None and profile.project not in (None, project):
            raise BadRequest("project: must be the host's own")
        return profile.narrowed(project)

    def _limit_in_force(self, buckets: Collection[Bucket]) -> str | None:
        """The configuration key that keeps a host from the tasks in these buckets, if they wait for nothing else."""
        life = self._life
        if self._stopped or not any(life.ready.is_claimable(bucket) for bucket in buckets):
            return None
        if life.inflight >= life.limits.max_inflight:
            return "maxInflight"
        return "maxPerAgentInflight" if life.ready.first(buckets, life.limits.max_per_agent_inflight) is None else None
