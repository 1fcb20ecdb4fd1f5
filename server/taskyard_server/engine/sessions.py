"""The output of the engine for the stream of a host, queued until the stream sends it.

The engine adds output, the servicer of the stream takes it. A session holds no more leases than the host's credit
allows. A lease that ends before it is sent is dropped, and its credit is returned.
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


@dataclass(frozen=True, slots=True)
class DrainNotice:
    """Asks a host to finish its work and disconnect, by `deadline` if set; `reconnect` if it may come back then."""

    deadline: float | None
    reason: str
    reconnect: bool = False


class Session:
    """One stream, whose credit and host are those of its `offer` in the core.

    `on_ready` is called when there is output to send, and when the stream has `ended`. `return_credit` is called with
    the number of leases that ended before they were sent. `drain` is an initial notice. A session that `is_ending` is
    over for the engine, and has `ended` once that is kept.
    """

    def __init__(
        self,
        namespace: str,
        offer: Offer,
        heartbeat_secs: float,
        on_ready: Callable[[], None],
        return_credit: Callable[[int], None],
        drain: DrainNotice | None = None,
    ) -> None:
        self.namespace = namespace
        self.offer = offer
        self.is_ending = False
        self.ended: Refusal | None = None
        self._on_ready = on_ready
        self._return_credit = return_credit
        self._pending: dict[Lease, None] = {}
        self._dropped: dict[Lease, None] = {}
        self._stops: list[Stop] = []
        self._drain = drain
        self._heartbeat_secs = heartbeat_secs
        self._heartbeat_changed = False

    @property
    def host(self) -> Host:
        """The host of the stream."""
        return self.offer.host

    @property
    def has_notices(self) -> bool:
        """True if there is anything but leases to send."""
        return bool(self._stops or self._drain or self._heartbeat_changed)

    @property
    def is_told_to_leave(self) -> bool:
        """True if a drain notice is to be sent."""
        return self._drain is not None

    @property
    def has_leases(self) -> bool:
        """True if there are leases to send."""
        return bool(self._pending)

    @property
    def pending(self) -> int:
        """How many leases are to be sent, with those that ended meanwhile."""
        return len(self._pending)

    def next_leases(self, limit: int) -> list[Lease]:
        """Up to `limit` next leases to send, in claim order. They stay pending until `mark_sent`."""
        leases = list(islice(self._pending, limit))
        live = [lease for lease in leases if lease.task.lease is lease]
        if len(live) < len(leases):
            self._drop([lease for lease in leases if lease.task.lease is not lease])
        return live

    def _drop(self, ended: list[Lease]) -> None:
        """Drop leases that ended before they were sent, and return the credit of those that the host itself has ended.

        A stop follows for the others once it is committed, and returns their credit.
        """
        stopped = [lease for lease in ended if lease.has_stop]
        for lease in ended:
            del self._pending[lease]
        self._dropped.update(dict.fromkeys(stopped))
        if len(stopped) < len(ended):
            # The host may end a lease by a report over a unary call.
            self._return_credit(len(ended) - len(stopped))

    def mark_sent(self, lease: Lease) -> None:
        """Remove a lease that is being sent."""
        self._pending.pop(lease, None)

    def take_stops(self) -> list[Stop]:
        """Remove and return the pending stops."""
        stops, self._stops = self._stops, []
        return stops

    def take_drain(self) -> DrainNotice | None:
        """Remove and return the pending drain notice, if any."""
        notice, self._drain = self._drain, None
        return notice

    def take_heartbeat_secs(self) -> float | None:
        """Return the heartbeat interval if it has changed since the last call."""
        if not self._heartbeat_changed:
            return None
        self._heartbeat_changed = False
        return self._heartbeat_secs

    # Called by the engine

    def assign(self, leases: list[Lease]) -> None:
        """Add leases to send."""
        self._pending.update(dict.fromkeys(leases))
        self._on_ready()

    def stop(self, stop: Stop) -> bool:
        """Add a stop to send. False if the lease was never sent, so that its credit must be returned.

        A lease that expires before it can be sent ends the stream, since the host does not read it.
        """
        if stop.lease in self._pending:
            del self._pending[stop.lease]
            if stop.reason is StopReason.LEASE_ENDED:
                self.end(Unavailable("the stream is not read"))
            return False
        if stop.lease in self._dropped:
            del self._dropped[stop.lease]
            return False
        self._stops.append(stop)
        self._on_ready()
        return True

    def drain(self, notice: DrainNotice) -> None:
        """Add a drain notice to send."""
        self._drain = notice
        self._on_ready()

    def set_heartbeat(self, secs: float) -> None:
        """Add a new heartbeat interval to send, unless the host already has it."""
        if secs != self._heartbeat_secs:
            self._heartbeat_secs = secs
            self._heartbeat_changed = True
            self._on_ready()

    def forget(self) -> None:
        """Drop the callbacks once the connection is gone, so that no reference cycle remains."""
        self._on_ready = self._return_credit = _ignore

    def end(self, reason: Refusal) -> None:
        """End the stream. The first reason stays."""
        if self.ended is None:
            self.ended = reason
            self._on_ready()


def _ignore(*_: Any) -> None:
    """The callback of a session whose connection is gone."""
