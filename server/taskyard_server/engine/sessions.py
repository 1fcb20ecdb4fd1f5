"""What a stream of a host has to tell the host, kept until the stream takes it.

The engine puts in, the servicer of the stream takes out. It holds no more leases than the host's credit allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from taskyard_server.core.errors import Refusal
from taskyard_server.core.hosts import Host
from taskyard_server.core.leases import Lease, Stop
from taskyard_server.core.offers import Offer
from taskyard_server.core.streams import Welcome


@dataclass(frozen=True, slots=True)
class DrainNotice:
    """The host shall finish and leave, by `deadline` where there is one."""

    deadline: float | None
    reason: str


class Session:
    """One stream. `on_news` is called when it has ended or there is something to take, then not until `take` is."""

    def __init__(self, namespace: str, welcome: Welcome, on_news: Callable[[], None]) -> None:
        self.namespace = namespace
        self.welcome = welcome
        self.ended: Refusal | None = None
        self._on_news = on_news
        self._news = False
        self._leases: list[Lease] = []
        self._stops: list[Stop] = []
        self._drain: DrainNotice | None = None

    @property
    def offer(self) -> Offer:
        """The stream as the core knows it."""
        return self.welcome.offer

    @property
    def host(self) -> Host:
        """Whose stream it is."""
        return self.welcome.offer.host

    def take(self) -> tuple[list[Lease], list[Stop], DrainNotice | None]:
        """What came since this was last called: tasks to run, work to stop, and whether to leave."""
        self._news = False
        taken = self._leases, self._stops, self._drain
        self._leases, self._stops, self._drain = [], [], None
        return taken

    def hand(self, leases: list[Lease]) -> None:
        """Tasks to run."""
        self._leases += leases
        self._tell()

    def stop(self, stop: Stop) -> None:
        """Work to stop."""
        self._stops.append(stop)
        self._tell()

    def drain(self, notice: DrainNotice) -> None:
        """The host shall leave."""
        self._drain = notice
        self._tell()

    def end(self, why: Refusal) -> None:
        """The stream is over; the first reason counts."""
        if self.ended is None:
            self.ended = why
            self._tell()

    def _tell(self) -> None:
        if not self._news:
            self._news = True
            self._on_news()
