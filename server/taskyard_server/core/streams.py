"""The streams of hosts: which host is connected, and which of its leases survive a broken stream.

A stream is an `Offer` whose room is the credit that the host gave (docs/rules.md, Credit). This file does not decide
which tasks a stream gets; `dispatcher.py` does.
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

HEARTBEATS_PER_TIMEOUT: Final = 3
"""Heartbeats within the length of a lease or the time-out of a host, whichever is shorter."""

HeldLease = tuple[str, int]
"""A lease as its holder names it: the task's id and the fencing token."""

TokenUse = tuple[str, int, int]
"""A held lease, and the tokens that its attempt has used so far."""


class Hello(NamedTuple):
    """The first message of a stream. `instance` names the host's process, and is the same in all its reconnects."""

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
    """The answer to `Hello`: the stream, and which of the leases that the host holds are kept or lost."""

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
        """Register the host and open its stream, which supersedes an earlier one.

        Raises `AlreadyExists` while another instance of the host lives, `BadRequest` for the length of a lease.
        """
        secs = lease_length(hello.lease_secs, self._life.limits.lease_secs)
        registered = self._hosts.find(hello.host_id)
        before = None
        if registered is not None:
            self._supersede(now, registered, hello)
            before = registered.kept()
        host = self._hosts.register(
            now, hello.host_id, hello.display_name, hello.profile, slots=hello.slots, labels=hello.labels
        )
        self._life.liveness.registered(now, host)
        if host.instance != hello.instance:
            self._life.liveness.rests.forget(host)
        host.instance = hello.instance
        if self._life.changes is not None and host.kept() != before:
            self._life.changes.hosts[host] = None
        host.set_reported(None, hello.machine)
        heartbeat_secs = self.heartbeat_secs(secs)
        self._dispatcher.refresh(now, host)
        offer = self._life.offers.open(host, host.profile, 0, secs, 2 * heartbeat_secs)
        host.stream = offer
        kept, lost = self._adopt(now, offer, hello.held)
        return Welcome(offer, kept, lost, heartbeat_secs)

    def disconnect(self, now: float, offer: Offer) -> None:
        """Close a stream; its leases live on for `reconnect_grace_secs`, never past their own end."""
        host = offer.host
        self._life.offers.close(offer)
        if host.stream is offer:
            host.stream, host.lost_at = None, now
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
        """Take a heartbeat: renew the leases that it lists, and return those of them that have ended."""
        host = offer.host
        self._life.liveness.heard(now, host)
        host.set_reported(reported_status, machine)
        lost = []
        for task_id, token in held:
            lease = host.leases.get(task_id)
            if lease is None or lease.token != token:
                lost.append((task_id, token))
            elif now + lease.secs > lease.expires_at:
                lease.expires_at = now + lease.secs
        for task_id, token, used in tokens:
            lease = host.leases.get(task_id)
            if lease is not None and lease.token == token:
                self._life.attempts.report_tokens(now, lease.task, used)
        return lost

    def timeouts_changed(self) -> None:
        """Apply new time-outs: streams may be silent for two of their new heartbeat intervals."""
        for host in self._hosts:
            if host.stream is not None:
                host.stream.silence_limit_secs = 2 * self.heartbeat_secs(host.stream.secs)

    def heartbeat_secs(self, lease_secs: float) -> float:
        """The heartbeat interval of a stream whose leases have this length."""
        return min(lease_secs, self._life.limits.heartbeat_timeout_secs) / HEARTBEATS_PER_TIMEOUT

    def _supersede(self, now: float, host: Host, hello: Hello) -> None:
        """Close the stream that the host has; raises `AlreadyExists` if another instance holds it and is alive."""
        stream = host.stream
        if stream is None:
            return
        if host.instance != hello.instance and not self._life.liveness.is_silent(now, stream):
            raise AlreadyExists("host_id: another instance of this host is connected")
        self._life.offers.close(stream)
        host.stream = None

    def _adopt(self, now: float, stream: Offer, held: tuple[HeldLease, ...]) -> tuple[list[Lease], list[HeldLease]]:
        """Renew the leases that the host still holds, and end those of its earlier streams that it does not list."""
        life, host = self._life, stream.host
        listed = set(held)
        kept = []
        for lease in list(host.leases.values()):
            if (lease.task.id, lease.token) in listed:
                if lease.stream is None:
                    life.note(lease.task)
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
                # A host that does not list the lease runs nothing under it.
                life.grants.has_stopped(now, lease)
        kept_keys = {(lease.task.id, lease.token) for lease in kept}
        return kept, [lease for lease in held if lease not in kept_keys]
