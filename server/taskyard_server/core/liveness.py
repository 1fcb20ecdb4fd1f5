"""When hosts were last heard of, and what follows from silence. Every call of a host is a sign of life.

A stream that was silent for too long gets no tasks until it is heard of again. A host that holds leases is checked when
it would be dead, and loses them. The built-in host may run more tasks while no runtime host is online. A host that was
silent for `forget_hosts_secs` is forgotten.

This file does not know what a lost lease does to its task; `grants.py` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .host_backoff import HostBackoff
from .timers import TimerOrder

if TYPE_CHECKING:
    from .hosts import Host, Hosts
    from .lifecycle import Lifecycle
    from .offers import Offer


class Liveness:
    """The one owner of `last_heartbeat_at`. `on_vanished` is called with each host that is to be forgotten."""

    def __init__(self, life: Lifecycle, hosts: Hosts) -> None:
        self._life = life
        self._hosts = hosts
        self._heard_at: float | None = None
        self._silence_noted = False
        self._silences = life.timers.queue(self._check_silence, TimerOrder.SILENCE)
        self.rests = HostBackoff(life.timers, life.offers)
        self._drains = life.timers.queue(self._end_drain, TimerOrder.DRAIN)
        self._forget_times = life.timers.queue(self._check_vanished, TimerOrder.FORGET_HOST)
        self.on_vanished: Callable[[float, Host], None]

    def registered(self, now: float, host: Host) -> None:
        """Record a registration, which is a sign of life and ends a drain."""
        self.heard(now, host)
        self.set_drain(host, None)
        if host.forget_at is None and not host.built_in:
            self._set_forget_at(host, now + self._life.limits.forget_hosts_secs)

    def restored(self, now: float, host: Host, drain_until: float | None) -> None:
        """A stored host counts as heard of now."""
        self.heard(now, host)
        self.set_drain(host, drain_until)
        self._set_forget_at(host, now + self._life.limits.forget_hosts_secs)

    def heard(self, now: float, host: Host) -> None:
        """Record a sign of life; a stream that was silent for too long may get tasks again."""
        host.last_heartbeat_at = now
        host.lost_at = None
        if not host.built_in:
            self._heard_at = now
            self._silence_noted = False
        stream = host.stream
        if stream is not None and not stream.is_waiting:
            self._life.offers.capacity_changed(stream)

    def is_silent(self, now: float, offer: Offer) -> bool:
        """True if a stream was silent for too long to get tasks; a waiting claim never is."""
        host = offer.host
        return offer.silence_limit_secs is not None and (
            now - host.last_heartbeat_at > offer.silence_limit_secs or self.is_dead(now, host)
        )

    def is_live(self, now: float, host: Host) -> bool:
        """True if a host may be handed tasks as far as its silence is concerned: it is online, built in, or waits."""
        if host.built_in or host.online(now, self._life.limits.heartbeat_timeout_secs):
            return True
        return any(not offer.streamed for offer in host.offers)

    def is_lost(self, now: float, host: Host) -> bool:
        """True if the stream of a host broke, and it may still come back."""
        limits = self._life.limits
        return host.is_lost(now, limits.heartbeat_timeout_secs, limits.dead_heartbeat_threshold)

    def is_dead(self, now: float, host: Host) -> bool:
        """True if a host has missed `dead_heartbeat_threshold` heartbeats, so that it loses its leases."""
        limits = self._life.limits
        return host.is_dead(now, limits.heartbeat_timeout_secs, limits.dead_heartbeat_threshold)

    def any_online(self, now: float) -> bool:
        """True if at least one runtime host is online."""
        return self._heard_at is not None and now - self._heard_at <= self._life.limits.heartbeat_timeout_secs

    def silent_from(self) -> float | None:
        """When the last runtime host goes offline unless one is heard of.

        None if that is noted already, or if no built-in host depends on it.
        """
        if self._heard_at is None or self._silence_noted or not self._hosts.built_in():
            return None
        return float(int(self._heard_at + self._life.limits.heartbeat_timeout_secs) + 1)

    def note_silence(self, now: float) -> None:
        """Note if the last runtime host is offline by now, so that it comes due once."""
        silent_from = self.silent_from()
        if silent_from is not None and now >= silent_from:
            self._silence_noted = True

    def timeouts_changed(self) -> None:
        """Apply new time-outs: silent hosts may be online again, and the other way round."""
        self._silence_noted = False
        for host in self._hosts:
            self.arm_silence_timer(host)
            if host.forget_at is not None:
                self._set_forget_at(host, host.last_heartbeat_at + self._life.limits.forget_hosts_secs)
            if host.stream is not None and not host.stream.is_waiting:
                self._life.offers.capacity_changed(host.stream)

    def arm_silence_timer(self, host: Host) -> None:
        """Set the timer of a host that holds leases to when it would be dead.

        The timer is not moved by each call of the host. When it fires for a host that is alive, it is set again.
        """
        self.disarm_silence_timer(host)
        if host.leases and not host.built_in:
            limits = self._life.limits
            host.silence_at = host.last_heartbeat_at + limits.heartbeat_timeout_secs * limits.dead_heartbeat_threshold
            self._silences.add(host.silence_at, host)

    def disarm_silence_timer(self, host: Host) -> None:
        """Remove the timer of a host, if it has one."""
        if host.silence_at is not None:
            self._silences.remove(host.silence_at, host)
            host.silence_at = None

    def removed(self, host: Host) -> None:
        """Forget all that is known of a host that was deregistered."""
        self.set_drain(host, None)
        self.disarm_silence_timer(host)
        self._life.liveness.rests.forget(host)
        self._set_forget_at(host, None)
        self._heard_at = max((other.last_heartbeat_at for other in self._hosts if not other.built_in), default=None)

    def reconcile(self, now: float) -> None:
        """End the leases of all dead hosts: a safety net beside the timer of each."""
        for host in self._hosts:
            if self.is_dead(now, host) and not host.built_in:
                self.orphan(now, host)

    def orphan(self, now: float, host: Host) -> None:
        """End all leases of a dead host as lost (docs/rules.md, Orphan sweep)."""
        missed = self._life.limits.dead_heartbeat_threshold
        for lease in list(host.leases.values()):
            self._life.grants.lose(now, lease, f"lease expired: runtime host {host.id} missed {missed} heartbeats")

    def set_drain(self, host: Host, until: float | None) -> None:
        """Set when a draining host's tasks are paused; None is never."""
        if host.drain_until is not None:
            self._drains.remove(host.drain_until, host)
        host.drain_until = until
        if until is not None:
            self._drains.add(until, host)

    def _set_forget_at(self, host: Host, at: float | None) -> None:
        if host.forget_at is not None:
            self._forget_times.remove(host.forget_at, host)
        host.forget_at = at
        if at is not None:
            self._forget_times.add(at, host)

    def _check_vanished(self, now: float, host: Host) -> None:
        """Forget a host that was silent for long enough, unless it holds leases or has a stream or a waiting claim."""
        host.forget_at = None
        forget_secs = self._life.limits.forget_hosts_secs
        if now - host.last_heartbeat_at < forget_secs:
            self._set_forget_at(host, host.last_heartbeat_at + forget_secs)
        elif host.leases or host.offers:
            self._set_forget_at(host, now + forget_secs)
        else:
            self.on_vanished(now, host)

    def _check_silence(self, now: float, host: Host) -> None:
        """Orphan a host that is dead, and set its timer again."""
        if self.is_dead(now, host):
            self.orphan(now, host)
        self.arm_silence_timer(host)

    def _end_drain(self, now: float, host: Host) -> None:
        host.drain_until = None
        if self._life.changes is not None:
            self._life.changes.hosts[host] = None
        for lease in list(host.leases.values()):
            self._life.pause(now, lease.task)
