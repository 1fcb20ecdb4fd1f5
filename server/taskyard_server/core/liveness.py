"""When hosts were last heard of: every call is a sign of life, and silence has consequences after a while.

A host that holds leases is checked when it would be dead. The built-in host may run more once no runtime host is
online. A stream that was silent for too long gets nothing until it is heard of again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .timers import TimerOrder

if TYPE_CHECKING:
    from .hosts import Host, Hosts
    from .lifecycle import Lifecycle
    from .offers import Offer


class Liveness:
    """The one owner of `last_heartbeat_at`. What hosts lose by their silence is done by `Grants`."""

    def __init__(self, life: Lifecycle, hosts: Hosts) -> None:
        self._life = life
        self._hosts = hosts
        self._heard_at: float | None = None
        self._silence_noted = False
        self._silences = life.timers.queue(self._check, TimerOrder.SILENCE)
        self._drains = life.timers.queue(self._end_drain, TimerOrder.DRAIN)
        self._vanishings = life.timers.queue(self._check_vanished, TimerOrder.FORGET_HOST)
        self.on_vanished: Callable[[float, Host], None]

    def registered(self, now: float, host: Host) -> None:
        """The host registered, perhaps again, which ends its drain."""
        self.heard(now, host)
        self.set_drain(host, None)
        if host.forget_at is None and not host.built_in:
            self._forget_at(host, now + self._life.limits.forget_hosts_secs)

    def heard(self, now: float, host: Host) -> None:
        """A sign of life; a stream that was silent for too long may be given tasks again."""
        host.last_heartbeat_at = now
        if not host.built_in:
            self._heard_at = now
            self._silence_noted = False
        stream = host.stream
        if stream is not None and not stream.is_waiting:
            self._life.offers.capacity_changed(stream)

    def is_silent(self, now: float, offer: Offer) -> bool:
        """Whether a stream was silent for so long that it gets nothing; a waiting claim never is."""
        host = offer.host
        return offer.silence_limit_secs is not None and (
            now - host.last_heartbeat_at > offer.silence_limit_secs or self.is_dead(now, host)
        )

    def is_dead(self, now: float, host: Host) -> bool:
        """Whether so many heartbeats of a host were missed that what it holds is lost."""
        limits = self._life.limits
        return host.is_dead(now, limits.heartbeat_timeout_secs, limits.dead_heartbeat_threshold)

    def any_online(self, now: float) -> bool:
        """Whether at least one runtime host is online."""
        return self._heard_at is not None and now - self._heard_at <= self._life.limits.heartbeat_timeout_secs

    def silent_from(self) -> float | None:
        """When the last runtime host will be offline unless one is heard of; None if there is no built-in host."""
        if self._heard_at is None or self._silence_noted or not self._hosts.built_in():
            return None
        return float(int(self._heard_at + self._life.limits.heartbeat_timeout_secs) + 1)

    def note_silence(self, now: float) -> None:
        """Time has come to `now`."""
        silent_from = self.silent_from()
        if silent_from is not None and now >= silent_from:
            self._silence_noted = True

    def timeouts_changed(self) -> None:
        """Other time-outs hold: hosts may be online again that were silent, and the other way round."""
        self._silence_noted = False
        for host in self._hosts:
            self.listen_for(host)
            if host.forget_at is not None:
                self._forget_at(host, host.last_heartbeat_at + self._life.limits.forget_hosts_secs)
            if host.stream is not None and not host.stream.is_waiting:
                self._life.offers.capacity_changed(host.stream)

    def listen_for(self, host: Host) -> None:
        """Check a host that holds leases when it would be dead: one timer per silence, not one per call."""
        self.stop_listening(host)
        if host.leases and not host.built_in:
            limits = self._life.limits
            host.silence_at = host.last_heartbeat_at + limits.heartbeat_timeout_secs * limits.dead_heartbeat_threshold
            self._silences.add(host.silence_at, host)

    def stop_listening(self, host: Host) -> None:
        """Do not check this host."""
        if host.silence_at is not None:
            self._silences.remove(host.silence_at, host)
            host.silence_at = None

    def removed(self, host: Host) -> None:
        """The host was deregistered."""
        self.set_drain(host, None)
        self.stop_listening(host)
        self._forget_at(host, None)
        self._heard_at = max((other.last_heartbeat_at for other in self._hosts if not other.built_in), default=None)

    def orphan(self, now: float, host: Host) -> None:
        """The host is dead: all that it holds is lost (docs/rules.md, Orphan sweep)."""
        missed = self._life.limits.dead_heartbeat_threshold
        for lease in list(host.leases.values()):
            self._life.grants.lose(now, lease, f"lease expired: runtime host {host.id} missed {missed} heartbeats")

    def set_drain(self, host: Host, until: float | None) -> None:
        """Pause what the host still runs at `until`; None is never."""
        if host.drain_until is not None:
            self._drains.remove(host.drain_until, host)
        host.drain_until = until
        if until is not None:
            self._drains.add(until, host)

    def _forget_at(self, host: Host, at: float | None) -> None:
        if host.forget_at is not None:
            self._vanishings.remove(host.forget_at, host)
        host.forget_at = at
        if at is not None:
            self._vanishings.add(at, host)

    def _check_vanished(self, now: float, host: Host) -> None:
        """Forget a host that was not heard of for long enough, unless it holds leases or has a stream."""
        host.forget_at = None
        forget_secs = self._life.limits.forget_hosts_secs
        if now - host.last_heartbeat_at < forget_secs:
            self._forget_at(host, host.last_heartbeat_at + forget_secs)
        elif host.leases or host.offers:
            self._forget_at(host, now + forget_secs)
        else:
            self.on_vanished(now, host)

    def _check(self, now: float, host: Host) -> None:
        if self.is_dead(now, host):
            self.orphan(now, host)
        self.listen_for(host)

    def _end_drain(self, now: float, host: Host) -> None:
        for lease in list(host.leases.values()):
            self._life.pause(now, lease.task)
