"""What the engine has for the stream of a host, kept until the stream sends it.

The engine puts in, the servicer of the stream takes out. A session holds no more leases than the host's credit allows.
A lease that ends before it is sent is dropped, and its credit returns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from taskyard_server.core.errors import Refusal, Unavailable
from taskyard_server.core.hosts import Host
from taskyard_server.core.leases import Lease, Stop, StopReason
from taskyard_server.core.offers import Offer
from taskyard_server.core.streams import Welcome


@dataclass(frozen=True, slots=True)
class DrainNotice:
    """The host shall finish and leave, by `deadline` where there is one, and perhaps `reconnect` then."""

    deadline: float | None
    reason: str
    reconnect: bool = False


class Session:
    """One stream. `on_ready` is called when there is something to send, and when the stream has `ended`.

    `return_credit` takes the number of leases that ended before they were sent. `drain` is what the host is told first.
    """

    def __init__(
        self,
        namespace: str,
        welcome: Welcome,
        on_ready: Callable[[], None],
        return_credit: Callable[[int], None],
        drain: DrainNotice | None = None,
    ) -> None:
        self.namespace = namespace
        self.welcome = welcome
        self.ended: Refusal | None = None
        self._on_ready = on_ready
        self._return_credit = return_credit
        self._pending: dict[Lease, None] = {}
        self._stops: list[Stop] = []
        self._drain = drain
        self._heartbeat_secs = welcome.heartbeat_secs
        self._heartbeat_changed = False

    @property
    def offer(self) -> Offer:
        """The stream as the core knows it."""
        return self.welcome.offer

    @property
    def host(self) -> Host:
        """The host at the other end."""
        return self.welcome.offer.host

    @property
    def has_output(self) -> bool:
        """Whether there is anything to send."""
        return bool(self._pending or self._stops or self._drain or self._heartbeat_changed)

    @property
    def has_leases(self) -> bool:
        """Whether there are leases to send."""
        return bool(self._pending)

    def next_leases(self, most: int) -> list[Lease]:
        """The next leases to send, in claim order, at most so many. They stay until `mark_sent`."""
        leases = list(islice(self._pending, most))
        # The host may have reported on one by a call before it was sent.
        live = [lease for lease in leases if lease.task.lease is lease]
        if len(live) < len(leases):
            for lease in leases:
                if lease.task.lease is not lease:
                    del self._pending[lease]
            self._return_credit(len(leases) - len(live))
        return live

    def mark_sent(self, lease: Lease) -> None:
        """This lease is being sent."""
        self._pending.pop(lease, None)

    def take_stops(self) -> list[Stop]:
        """The work to stop, since this was last called."""
        taken, self._stops = self._stops, []
        return taken

    def take_drain(self) -> DrainNotice | None:
        """The notice to leave, if one came since this was last called."""
        taken, self._drain = self._drain, None
        return taken

    def take_heartbeat_secs(self) -> float | None:
        """The new heartbeat interval, if it changed since this was last called."""
        if not self._heartbeat_changed:
            return None
        self._heartbeat_changed = False
        return self._heartbeat_secs

    # What the engine puts in

    def assign(self, leases: list[Lease]) -> None:
        """Add leases to send."""
        self._pending.update(dict.fromkeys(leases))
        self._on_ready()

    def stop(self, stop: Stop) -> bool:
        """Add work to stop. False if the lease was never sent, so that its credit is not used.

        A lease that ran out before it could be sent shows that the host does not read.
        """
        if stop.lease in self._pending:
            del self._pending[stop.lease]
            if stop.reason is StopReason.LEASE_ENDED:
                self.end(Unavailable("the stream is not read"))
            return False
        self._stops.append(stop)
        self._on_ready()
        return True

    def drain(self, notice: DrainNotice) -> None:
        """Tell the host to leave."""
        self._drain = notice
        self._on_ready()

    def set_heartbeat(self, secs: float) -> None:
        """Tell the host another heartbeat interval, unless it has that one."""
        if secs != self._heartbeat_secs:
            self._heartbeat_secs = secs
            self._heartbeat_changed = True
            self._on_ready()

    def forget(self) -> None:
        """The connection is gone: neither side keeps the other in memory."""
        self._on_ready = self._return_credit = _ignore

    def end(self, why: Refusal) -> None:
        """The stream is over; the first reason counts."""
        if self.ended is None:
            self.ended = why
            self._on_ready()


def _ignore(*_: Any) -> None:
    """Takes the calls of a session whose connection is gone."""
