"""Dispatch: which host gets which task, by a claim, a waiting claim or a stream.

A host gets the first task, in claim order, that it may run (`ready_queue.py`). Among hosts that wait, the least loaded
one comes first (`offers.py`). This file grants no lease by itself; `Grants` does.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Final

from .errors import BadRequest
from .figures.notices import Notices
from .hosts import TAB_EXECUTOR, Host, HostProfile, Hosts
from .leases import Lease, lease_length
from .lifecycle import Lifecycle
from .offers import Offer, OfferGroup, Rank
from .queue.bucket import Bucket
from .task import NO_HISTORY

if TYPE_CHECKING:
    from .task import Task

NO_LIMIT: Final = 1 << 40

LIMITS_BY_REACH: Final = ("maxInflight", "maxPerAgentInflight", "limits")
"""The configuration keys of what may hold tasks back from hosts with room: first what holds back most."""

Candidate = tuple[Rank | None, Offer, OfferGroup]
"""The first offer of a group, under the rank that it had when it was entered."""


class Dispatcher:
    """Dispatches the tasks of one namespace, until it is stopped."""

    def __init__(self, life: Lifecycle, hosts: Hosts) -> None:
        self._stopped = False
        self.notices = Notices(life.ready, life.children, life.liveness, hosts, self.profile_of)
        self._life = life
        self._hosts = hosts
        # The hosts whose last claim got fewer tasks than it could, because a limit was reached; with their profiles.
        self._limited_hosts: dict[str, HostProfile] = {}

    def claim(
        self,
        now: float,
        host: Host,
        count: int,
        lease_secs: float | None,
        project: str | None,
        claim_id: str | None = None,
    ) -> list[Lease]:
        """Lease up to `count` tasks to a host at once; see `Scheduler.claim`."""
        life = self._life
        self._life.liveness.heard(now, host)
        limits = life.limits
        secs = lease_length(lease_secs, limits.lease_secs)
        profile = self._claim_profile(now, host, project)
        leases: list[Lease] = []
        if claim_id is not None and claim_id in host.claimed:
            leases.extend(host.claimed[claim_id])
            return leases
        if self._stopped or host.draining:
            self._clear_limited(host)
            return leases
        if life.ready.keys.has_rates:
            life.ready.keys.look(now)
        buckets = life.ready.eligible(profile)
        while len(leases) < count and life.counts.inflight < limits.max_inflight:
            rows = life.ready.first(buckets, limits.max_per_agent_inflight)
            if rows is None:
                break
            if rows.head().is_overdue(now):
                life.expire(now, rows.head())
                # The next task of its target may be of a kind that was not there.
                buckets = life.ready.eligible(profile)
                continue
            leases.append(life.grants.grant(now, life.ready.take(rows), host, secs, None, claim_id))
        life.offers.load_changed(host)
        if len(leases) < count and self._limit_reached(life.ready.eligible(profile)) is not None:
            self._limited_hosts[host.id] = profile
        else:
            self._clear_limited(host)
        return leases

    def offer(
        self,
        now: float,
        host: Host,
        room: int,
        lease_secs: float | None,
        project: str | None,
        claim_id: str | None = None,
    ) -> Offer:
        """Let a claim wait for up to `room` tasks; see `Scheduler.offer`."""
        secs = lease_length(lease_secs, self._life.limits.lease_secs)
        profile = self._claim_profile(now, host, project)
        if claim_id is not None and claim_id in host.waiting:
            self._life.offers.close(host.waiting[claim_id])
        return self._life.offers.open(host, profile, room, secs, project=project, claim_id=claim_id)

    def dispatch(self, now: float) -> dict[Offer, list[Lease]]:
        """Lease waiting tasks to waiting hosts, the least loaded host first."""
        life = self._life
        limits, ready, offers = life.limits, life.ready, life.offers
        granted: dict[Offer, list[Lease]] = {}
        if self._stopped:
            return granted
        self._refresh_built_in(now)
        if ready.keys.has_rates:
            ready.keys.look(now)
        awake = offers.awake()
        if not awake or life.counts.inflight >= limits.max_inflight:
            return granted
        candidates = [(front.rank, front, group) for group in awake if (front := group.front()) is not None]
        heapify(candidates)
        for group in [group for group in awake if not group.waiting]:
            del awake[group]
        while candidates and life.counts.inflight < limits.max_inflight:
            rank, _, group = candidates[0]
            offer = group.front()
            if offer is None:
                heappop(candidates)
                awake.pop(group, None)
            elif offer.rank != rank:
                heapreplace(candidates, (offer.rank, offer, group))
            elif life.liveness.is_silent(now, offer):
                # `Liveness.heard` lets it enter again.
                group.leave(offer)
            elif (rows := ready.first(group.buckets, limits.max_per_agent_inflight)) is None:
                heappop(candidates)
                awake.pop(group, None)
            elif rows.head().is_overdue(now):
                life.expire(now, rows.head())
                # The next task of its target may fit hosts whose groups are not among the candidates.
                for woken in ready.take_woken():
                    awake[woken] = None
                    if (front := woken.front()) is not None:
                        heappush(candidates, (front.rank, front, woken))
            else:
                if rows.head().history is not NO_HISTORY:
                    offer = self._preferred(now, rows.head(), rows.bucket, offer)
                if not offer.streamed:
                    self._record_claimant(now, offer.host, candidates)
                stream = offer if offer.streamed else None
                lease = life.grants.grant(now, ready.take(rows), offer.host, offer.secs, stream, offer.claim_id)
                offers.record_grant(offer)
                granted.setdefault(offer, []).append(lease)
        return granted

    def _preferred(self, now: float, task: Task, bucket: Bucket, offer: Offer) -> Offer:
        """The offer of the host that has just parked a task, if it has room for it; else this one."""
        park = task.history.park
        if park is None or park.token != task.token or task.host_id is None or task.host_id == offer.host.id:
            return offer
        host = self._hosts.find(task.host_id)
        for other in () if host is None else host.offers:
            if other.is_waiting and bucket in other.group.buckets and not self._life.liveness.is_silent(now, other):
                return other
        return offer

    @property
    def is_stopped(self) -> bool:
        """True if nothing is dispatched any more."""
        return self._stopped

    def stop(self) -> None:
        """Dispatch nothing from now on."""
        self._stopped = True

    def refresh(self, now: float, host: Host) -> None:
        """Update the offers of a host that registered again: it may run other tasks, or more of them."""
        self.notices.host_came(self.profile_of(now, host))
        for offer in host.offers:
            self._refresh_offer(now, offer)
            self._life.offers.capacity_changed(offer)

    def forget(self, now: float, host: Host) -> None:
        """Remove a host and its offers, and requeue its tasks."""
        life = self._life
        for lease in list(host.leases.values()):
            life.grants.take_back(now, lease.task)
        for offer in list(host.offers):
            life.offers.close(offer)
        self._clear_limited(host)
        host.stream = None
        self._hosts.remove(host)
        life.grants.holders.forget(host)
        life.liveness.removed(host)
        if life.changes is not None:
            life.changes.host_gone(host)

    @property
    def limited_by(self) -> str | None:
        """The configuration key whose limit keeps waiting tasks from a host with room; None if no limit does."""
        ready = self._life.ready
        claimed = [ready.eligible(profile) for profile in self._limited_hosts.values()]
        waiting = [group.buckets for group in self._life.offers if group.waiting]
        reached = {self._limit_reached(buckets) for buckets in (*claimed, *waiting)}
        return next((key for key in LIMITS_BY_REACH if key in reached), None)

    def _clear_limited(self, host: Host) -> None:
        if host.id in self._limited_hosts:
            del self._limited_hosts[host.id]

    def _record_claimant(self, now: float, host: Host, candidates: list[Candidate]) -> None:
        """Record a waiting claim as a sign of life of its host, whose stream may then get tasks too."""
        self._life.liveness.heard(now, host)
        front = None if host.stream is None else host.stream.group.front()
        if front is not None:
            heappush(candidates, (front.rank, front, front.group))

    def _refresh_built_in(self, now: float) -> None:
        """Update the offers of built-in hosts, which may run more while no other host is online."""
        for host in self._hosts.built_in():
            for offer in host.offers:
                self._refresh_offer(now, offer)

    def _refresh_offer(self, now: float, offer: Offer) -> None:
        """Move an offer to the group of what its host may run now, narrowed to the project of the offer."""
        self._life.offers.move(offer, self.profile_of(now, offer.host).narrowed(offer.project))

    def profile_of(self, now: float, host: Host) -> HostProfile:
        """The profile by which a host may run tasks now: of one that is built in, that depends on the others."""
        return TAB_EXECUTOR if host.built_in and self._life.liveness.any_online(now) else host.profile

    def _claim_profile(self, now: float, host: Host, project: str | None) -> HostProfile:
        """The profile of a claim; raises `BadRequest` for a project other than the host's own."""
        profile = self.profile_of(now, host)
        if project is not None and profile.project not in (None, project):
            raise BadRequest("project: must be the host's own")
        return profile.narrowed(project)

    def _limit_reached(self, buckets: Collection[Bucket]) -> str | None:
        """The configuration key of the limit for which the tasks of these buckets wait; None if for no limit."""
        life = self._life
        if self._stopped or not any(life.ready.is_claimable(bucket) for bucket in buckets):
            return None
        if life.counts.inflight >= life.limits.max_inflight:
            return "maxInflight"
        if life.ready.first(buckets, life.limits.max_per_agent_inflight) is not None:
            return None
        # Anyone who is at its own limit would come first if that were lifted; otherwise keys hold all tasks back.
        return "limits" if life.ready.first(buckets, NO_LIMIT) is None else "maxPerAgentInflight"
