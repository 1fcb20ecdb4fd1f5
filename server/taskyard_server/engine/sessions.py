"""What a stream of a host has to tell the host, kept until the stream says it.

The engine puts in, the servicer of the stream takes out. It holds no more leases than the host's credit allows, and a
lease that ends before the host was told of it leaves without a trace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

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
    """One stream. `on_ready` is called when something comes that is to be said, and when the stream is `ended`.

    `drain` is what the host is told from the first.
    """

    def __init__(
        self, namespace: str, welcome: Welcome, on_ready: Callable[[], None], drain: DrainNotice | None = None
    ) -> None:
        self.namespace = namespace
        self.welcome = welcome
        self.ended: Refusal | None = None
        self._on_ready = on_ready
        self._pending: dict[Lease, None] = {}
        self._stops: list[Stop] = []
        self._drain = drain

    @property
    def offer(self) -> Offer:
        """The stream as the core knows it."""
        return self.welcome.offer

    @property
    def host(self) -> Host:
        """Whose stream it is."""
        return self.welcome.offer.host

    @property
    def has_output(self) -> bool:
        """Whether there is anything to say."""
        return bool(self._pending or self._stops or self._drain)

    @property
    def has_leases(self) -> bool:
        """Whether there are tasks to run of which the host was not told."""
        return bool(self._pending)

    def next_leases(self, most: int) -> list[Lease]:
        """The tasks to run that come next, in claim order. They stay until they are `said`."""
        return list(islice(self._pending, most))

    def mark_sent(self, lease: Lease) -> None:
        """The host is being told of this lease, or does not need to be."""
        self._pending.pop(lease, None)

    def take_stops(self) -> list[Stop]:
        """Work to stop, since this was last called."""
        taken, self._stops = self._stops, []
        return taken

    def take_drain(self) -> DrainNotice | None:
        """Whether the host shall leave, since this was last called."""
        taken, self._drain = self._drain, None
        return taken

    # What the engine puts in

    def assign(self, leases: list[Lease]) -> None:
        """Tasks to run."""
        self._pending.update(dict.fromkeys(leases))
        self._on_ready()

    def stop(self, stop: Stop) -> bool:
        """Work to stop. False if the host never knew of it, so that the credit for it is not used.

        A task that was to be started by now, and could not even be said, shows that the host does not read.
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
        """The host shall leave."""
        self._drain = notice
        self._on_ready()

    def forget(self) -> None:
        """The stream is gone, and told nothing any more; neither keeps the other in memory."""
        self._on_ready = _nobody

    def end(self, why: Refusal) -> None:
        """The stream is over; the first reason counts."""
        if self.ended is None:
            self.ended = why
            self._on_ready()


def _nobody() -> None:
    """Hears the news of a stream that is gone."""
