"""Hosts that rest: one that let a lease of its stream run out is handed nothing over it for a while.

So the task is redelivered to another host, and where there is none it waits a little before it may be lost in the same
way. Claims are not affected: who claims asks for work (docs/rules.md, Redelivery).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .timers import TimerOrder

if TYPE_CHECKING:
    from .hosts import Host
    from .leases import Lease
    from .offers import Offers
    from .timers import Timers

MAX_REST_SECS: Final = 60.0
MAX_LOSSES: Final = 6
"""From this many losses on a rest has its full length."""


class HostBackoff:
    """The one owner of what `Host` says of losses and rests."""

    def __init__(self, timers: Timers, offers: Offers) -> None:
        self._offers = offers
        self._ends = timers.queue(self._end, TimerOrder.HOST_REST)

    def lost(self, now: float, lease: Lease) -> None:
        """A lease of a stream that stands ran out, or its host is dead.

        What the host held already when its last rest began was lost with it, and counts with it.
        """
        host = lease.host
        if lease.claimed_at > host.rested_at:
            host.losses = min(host.losses + 1, MAX_LOSSES)
            host.rested_at = now
            self._set(host, now + min(float(1 << host.losses), MAX_REST_SECS))

    def forget(self, host: Host) -> None:
        """The host is gone, or another process of it is here, which has lost nothing yet."""
        host.losses = 0
        self._set(host, None)

    def _set(self, host: Host, until: float | None) -> None:
        if host.rests_until is not None:
            self._ends.remove(host.rests_until, host)
        host.rests_until = until
        if until is not None:
            self._ends.add(until, host)
        if host.stream is not None:
            self._offers.capacity_changed(host.stream)

    def _end(self, now: float, host: Host) -> None:
        del now
        host.rests_until = None
        if host.stream is not None:
            self._offers.capacity_changed(host.stream)
