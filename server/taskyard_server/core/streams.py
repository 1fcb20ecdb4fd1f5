"""The streams of hosts: who is connected, and what lives on over a break.

A stream is an `Offer` whose room is the credit that the host gave (docs/rules.md, Credit). What it is handed is
decided in `dispatcher.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Final, NamedTuple

from .dispatcher import Dispatcher
from .errors import AlreadyExists
from .hosts import Host, HostProfile, Hosts, HostStatus
from .leases import Lease, lease_length
from .lifecycle import Lifecycle
from .offers import Offer
from .task import ASSIGNED

BEATS: Final = 3
"""Heartbeats in a lease or host time-out, whichever is shorter."""

HeldLease = tuple[str, int]
"""A lease by what its holder knows of it: the task's id and the fencing token."""

TokenUse = tuple[str, int, int]
"""A held lease, and the tokens that its attempt used so far."""


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
    """The streams of one namespace."""

    def __init__(self, life: Lifecycle, hosts: Hosts, dispatcher: Dispatcher) -> None:
        self._life = life
        self._hosts = hosts
        self._dispatcher = dispatcher

    def connect(self, now: float, hello: Hello) -> Welcome:
        """Register the host and open its stream; a stream that it had is superseded.

        Raises `AlreadyExists` while another instance of the host lives, `BadRequest` for the length of a lease.
        """
        secs = lease_length(hello.lease_secs, self._life.limits.lease_secs)
        known = self._hosts.find(hello.host_id)
        if known is not None:
            self._make_way(now, known, hello)
        host = self._hosts.register(
            now, hello.host_id, hello.display_name, hello.profile, slots=hello.slots, labels=hello.labels
        )
        self._life.liveness.registered(now, host)
        host.instance = hello.instance
        host.note(None, hello.machine)
        heartbeat_secs = self.heartbeat_secs(secs)
        self._dispatcher.refit(now, host)
        offer = self._life.offers.open(host, host.profile, 0, secs, 2 * heartbeat_secs)
        host.stream = offer
        kept, lost = self._adopt(now, offer, hello.held)
        return Welcome(offer, kept, lost, heartbeat_secs)

    def disconnect(self, now: float, offer: Offer) -> None:
        """The stream is gone; its leases live on for `reconnect_grace_secs`, never past their own end."""
        host = offer.host
        self._life.offers.close(offer)
        if host.stream is offer:
            host.stream = None
            for lease in host.leases.values():
                if lease.stream is offer:
                    lease.adopt_by = now + self._life.limits.reconnect_grace_secs
                    self._life.grants.retime(lease)

    def beat(
        self,
        now: float,
        offer: Offer,
        held: Iterable[HeldLease],
        reported_status: HostStatus | None,
        machine: bytes | None,
        tokens: Iterable[TokenUse] = (),
    ) -> list[HeldLease]:
        """The host lives and works on these leases, which are renewed; returns those of them that have ended."""
        host = offer.host
        self._life.liveness.heard(now, host)
        host.note(reported_status, machine)
        lost = []
        for task_id, token in held:
            lease = host.leases.get(task_id)
            if lease is None or lease.token != token:
                lost.append((task_id, token))
            elif now + lease.secs > lease.expires_at:
                lease.expires_at = now + lease.secs
                self._life.grants.retime(lease)
        for task_id, token, used in tokens:
            lease = host.leases.get(task_id)
            if lease is not None and lease.token == token:
                self._life.attempts.report_tokens(now, lease.task, used)
        return lost

    def timeouts_changed(self) -> None:
        """Other time-outs hold: streams may be silent for as long as their new heartbeat intervals allow."""
        for host in self._hosts:
            if host.stream is not None:
                host.stream.silence_limit_secs = 2 * self.heartbeat_secs(host.stream.secs)

    def heartbeat_secs(self, lease_secs: float) -> float:
        """The interval of the heartbeats of a stream whose leases have this length."""
        return min(lease_secs, self._life.limits.heartbeat_timeout_secs) / BEATS

    def _make_way(self, now: float, host: Host, hello: Hello) -> None:
        """End the stream that the host has, unless it is the live one of another instance."""
        stream = host.stream
        if stream is None:
            return
        if host.instance != hello.instance and not self._life.liveness.is_silent(now, stream):
            raise AlreadyExists("host_id: another instance of this host is connected")
        self._life.offers.close(stream)
        host.stream = None

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
                life.grants.retime(lease)
                kept.append(lease)
            elif lease.stream is not None:
                life.grants.lose(now, lease, "lease expired")
        for lease in life.grants.stopping.of(host.id):
            if lease.stream is not None and (lease.task.id, lease.token) not in listed:
                # A host that does not know of it has nothing that runs under it.
                life.grants.has_stopped(now, lease)
        alive = {(lease.task.id, lease.token) for lease in kept}
        return kept, [lease for lease in held if lease not in alive]
