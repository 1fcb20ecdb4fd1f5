"""When hosts that hold leases are looked at: lest they be dead, and when a drain is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .hosts import Host
    from .lifecycle import Lifecycle


class Liveness:
    """The watch over the hosts of one namespace. What they lose by it is done by `Lifecycle`."""

    def __init__(self, life: Lifecycle) -> None:
        self._life = life
        self._silences = life.timers.queue(self._look_at)
        self._drains = life.timers.queue(self._end_drain)

    def is_dead(self, now: float, host: Host) -> bool:
        """Whether so many heartbeats of a host were missed that what it holds is lost."""
        limits = self._life.limits
        return host.is_dead(now, limits.heartbeat_timeout_secs, limits.dead_heartbeat_threshold)

    def listen_for(self, host: Host) -> None:
        """Check a host that holds leases when it would be dead; one timer per silence, not one per call."""
        self.forget(host)
        if host.leases and not host.built_in:
            limits = self._life.limits
            host.silence_at = host.last_heartbeat_at + limits.heartbeat_timeout_secs * limits.dead_heartbeat_threshold
            self._silences.add(host.silence_at, host)

    def forget(self, host: Host) -> None:
        """HostSnapshot at it no more."""
        if host.silence_at is not None:
            self._silences.remove(host.silence_at, host)
            host.silence_at = None

    def orphan(self, now: float, host: Host) -> None:
        """The host is dead: all that it holds is lost (scheduler-daemon, Orphan Reconciliation)."""
        missed = self._life.limits.dead_heartbeat_threshold
        for lease in list(host.leases.values()):
            self._life.lose(now, lease, f"lease expired: runtime host {host.id} missed {missed} heartbeats")

    def set_drain(self, host: Host, until: float | None) -> None:
        """What the host still runs at `until` is paused; None is never."""
        if host.drain_until is not None:
            self._drains.remove(host.drain_until, host)
        host.drain_until = until
        if until is not None:
            self._drains.add(until, host)

    def _look_at(self, now: float, host: Host) -> None:
        if self.is_dead(now, host):
            self.orphan(now, host)
        self.listen_for(host)

    def _end_drain(self, now: float, host: Host) -> None:
        for lease in list(host.leases.values()):
            self._life.pause(now, lease.task)
