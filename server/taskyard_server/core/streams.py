"""The streams of hosts: who is connected, what lives on over a break, and handing out to all that wait.

A stream is an `Offer` whose room is the credit that the host gave (DESIGN, The host stream). This file decides which
host gets which task; `Lifecycle` moves it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from typing import Final, NamedTuple

from .errors import AlreadyExists, BadRequest
from .hosts import Host, HostProfile, Hosts, HostStatus
from .leases import Lease
from .lifecycle import Lifecycle
from .limits import MAX_LEASE_SECS
from .offers import Crew, Offer, Place
from .task import TaskState

ASSIGNED: Final = TaskState.ASSIGNED
BEATS: Final = 3
"""Heartbeats in a lease or host time-out, whichever is shorter."""

Turn = tuple[Place | None, Offer, Crew]
"""Of each crew, whose turn it is."""

HeldLease = tuple[str, int]
"""A lease by what its holder knows of it: the task's id and the fencing token."""


class Hello(NamedTuple):
    """What a host says when it opens its stream. `instance` names the process, the same over all its reconnects."""

    host_id: str
    instance: str
    profile: HostProfile = HostProfile()
    display_name: str | None = None
    slots: int | None = None
    labels: tuple[tuple[str, str], ...] = ()
    held: tuple[HeldLease, ...] = ()
    lease_secs: float | None = None
    machine: bytes | None = None


class Welcome(NamedTuple):
    """What the host is told: its stream, and which of the leases that it held live on."""

    offer: Offer
    kept: list[Lease]
    lost: list[HeldLease]
    heartbeat_secs: float


class Streams:
    """The streams of one namespace. `profile_of` tells what a host may run just now."""

    def __init__(self, life: Lifecycle, hosts: Hosts, profile_of: Callable[[float, Host], HostProfile]) -> None:
        self._life = life
        self._hosts = hosts
        self._profile_of = profile_of

    def connect(self, now: float, hello: Hello) -> Welcome:
        """Register the host and open its stream; a stream that it had is superseded.

        Raises `AlreadyExists` while another instance of the host lives, `BadRequest` for the length of a lease.
        """
        limits = self._life.limits
        secs = lease_length(hello.lease_secs, limits.lease_secs)
        known = self._hosts.find(hello.host_id)
        if known is not None:
            self._make_way(now, known, hello)
        host = self._hosts.register(
            now, hello.host_id, hello.display_name, hello.profile, slots=hello.slots, labels=hello.labels
        )
        self._life.liveness.set_drain(host, None)
        host.instance = hello.instance
        host.machine = host.machine if hello.machine is None else hello.machine
        heartbeat_secs = min(secs, limits.heartbeat_timeout_secs) / BEATS
        self.look_at(now, host)
        offer = self._life.offers.open(host, host.profile, 0, secs, 2 * heartbeat_secs)
        host.session = offer
        kept, lost = self._adopt(now, offer, hello.held)
        return Welcome(offer, kept, lost, heartbeat_secs)

    def disconnect(self, now: float, offer: Offer) -> None:
        """The stream is gone; its leases live on for `reconnect_grace_secs`, never past their own end."""
        host = offer.host
        self._life.offers.close(offer)
        if host.session is offer:
            host.session = None
            for lease in host.leases.values():
                if lease.stream is offer:
                    lease.adopt_by = now + self._life.limits.reconnect_grace_secs
                    self._life.retime(lease)

    def beat(
        self,
        now: float,
        offer: Offer,
        held: Iterable[HeldLease],
        own_word: HostStatus | None,
        machine: bytes | None,
    ) -> list[HeldLease]:
        """The host lives and works on these leases, which are renewed; those of them that have ended."""
        host = offer.host
        self.heard(now, host)
        host.own_word = own_word
        host.machine = host.machine if machine is None else machine
        lost = []
        for task_id, token in held:
            lease = host.leases.get(task_id)
            if lease is None or lease.token != token:
                lost.append((task_id, token))
            elif now + lease.secs > lease.expires_at:
                lease.expires_at = now + lease.secs
                self._life.retime(lease)
        return lost

    def heard(self, now: float, host: Host) -> None:
        """A sign of life; a stream that was silent for too long may be handed tasks again."""
        self._hosts.heard(now, host)
        session = host.session
        if session is not None and session.place is None:
            self._life.offers.eased(session)

    def look_at(self, now: float, host: Host) -> None:
        """It registered anew: it may run other tasks than before, or more."""
        for offer in host.offers:
            self._fit(now, offer)
            self._life.offers.eased(offer)

    def hand_out(self, now: float) -> dict[Offer, list[Lease]]:
        """Lease what can be leased to the hosts that wait for it, the least loaded host first."""
        life = self._life
        limits, ready, offers = life.limits, life.ready, life.offers
        given: dict[Offer, list[Lease]] = {}
        self._look_at_built_in(now)
        awake = offers.awake()
        if not awake or life.inflight >= limits.max_inflight:
            return given
        turns = [(front.place, front, crew) for crew in awake if (front := crew.front()) is not None]
        heapify(turns)
        for crew in [crew for crew in awake if not crew.waiting]:
            del awake[crew]
        while turns and life.inflight < limits.max_inflight:
            place, _, crew = turns[0]
            offer = crew.front()
            if offer is None:
                heappop(turns)
                awake.pop(crew, None)
            elif offer.place is not place:
                heapreplace(turns, (offer.place, offer, crew))
            elif self._is_silent(now, offer):
                # It waits again when it is heard of.
                crew.leave(offer)
            elif (lane := ready.first(crew.buckets, limits.max_per_agent_inflight)) is None:
                heappop(turns)
                awake.pop(crew, None)
            elif lane.head().is_overdue(now):
                life.expire(now, lane.head())
                # The next task of its target may be one for hosts that had nothing to wait for.
                for woken in ready.take_woken():
                    awake[woken] = None
                    if (front := woken.front()) is not None:
                        heappush(turns, (front.place, front, woken))
            else:
                if not offer.streamed:
                    self._heard_by_a_claim(now, offer.host, turns)
                stream = offer if offer.streamed else None
                lease = life.grant(now, ready.take(lane), offer.host, offer.secs, stream)
                offers.served(offer)
                given.setdefault(offer, []).append(lease)
        return given

    def _heard_by_a_claim(self, now: float, host: Host, turns: list[Turn]) -> None:
        """A call that waits shows that its host lives, also to its stream, which may have been silent."""
        self.heard(now, host)
        front = None if host.session is None else host.session.crew.front()
        if front is not None:
            heappush(turns, (front.place, front, front.crew))

    def _make_way(self, now: float, host: Host, hello: Hello) -> None:
        """End the stream that the host has, unless it is the live one of another instance."""
        stream = host.session
        if stream is None:
            return
        if host.instance != hello.instance and not self._is_silent(now, stream):
            raise AlreadyExists("host_id: another instance of this host is connected")
        self._life.offers.close(stream)
        host.session = None

    def _adopt(self, now: float, stream: Offer, held: tuple[HeldLease, ...]) -> tuple[list[Lease], list[HeldLease]]:
        """Renew what the host still holds; what it does not know of, from an earlier stream, is lost."""
        life, host = self._life, stream.host
        listed = set(held)
        kept = []
        for lease in list(host.leases.values()):
            if (lease.task.id, lease.token) in listed:
                lease.stream = stream
                lease.expires_at = max(lease.expires_at, now + lease.secs)
                lease.adopt_by = inf
                if lease.task.state is ASSIGNED:
                    lease.start_by = now + life.limits.start_timeout_secs
                life.retime(lease)
                kept.append(lease)
            elif lease.stream is not None:
                life.lose(now, lease, "lease expired")
        for lease in life.stopping.of(host.id):
            if lease.stream is not None and (lease.task.id, lease.token) not in listed:
                # A host that does not know of it has nothing that runs under it.
                life.has_stopped(now, lease)
        alive = {(lease.task.id, lease.token) for lease in kept}
        return kept, [lease for lease in held if lease not in alive]

    def _look_at_built_in(self, now: float) -> None:
        """What the built-in host may run depends on who else is there."""
        for host in self._hosts.built_in():
            for offer in host.offers:
                self._fit(now, offer)

    def _fit(self, now: float, offer: Offer) -> None:
        """Let an offer be handed what its host may run now, of what it asks for."""
        self._life.offers.move(offer, self._profile_of(now, offer.host).narrowed(offer.project))

    def _is_silent(self, now: float, offer: Offer) -> bool:
        host = offer.host
        return offer.patience is not None and (
            now - host.last_heartbeat_at > offer.patience or self._life.liveness.is_dead(now, host)
        )


def lease_length(asked: float | None, otherwise: float) -> float:
    """The seconds that a lease lives; raises `BadRequest` outside of 1 to 3600."""
    if asked is None:
        return otherwise
    if not 1 <= asked <= MAX_LEASE_SECS:
        raise BadRequest("lease_secs: must be from 1 to 3600")
    return asked
