"""What hosts believe: the leases that they were given, until they report an end, are told to stop, or lose them.

It learns from the core's answers, events and stops alone, and knows nothing of the model. A task has one holder at a
time, no stream is handed more than its credit, and a stop is sent for exactly the streamed leases that ended otherwise
than by the host's own report.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from taskyard_server.core.events import Event
from taskyard_server.core.leases import Lease, Stop
from taskyard_server.core.offers import Offer
from taskyard_server.core.streams import Welcome

from .indexes import same
from .model_records import FLYING

ENDING: Final = {"complete", "fail", "release", "park"}
"""The reports that end a lease."""

Key = tuple[str, int]


class Ledger:
    """The leases of one scheduler that live, by task and token; the value tells whether they are a stream's."""

    def __init__(self) -> None:
        self._live: dict[Key, bool] = {}
        self._last_token = 0
        self._credit: dict[Offer, int] = {}
        self._reported: set[Key] = set()
        self._ended: list[Key] = []

    def claimed(self, leases: Iterable[Lease]) -> None:
        given = list(leases)
        for lease in given:
            self._give(lease, streamed=False)
        self._grow(given)

    def opened(self, offer: Offer, room: int) -> None:
        self._credit[offer] = room

    def credited(self, offer: Offer, count: int) -> None:
        self._credit[offer] += count

    def connected(self, welcome: Welcome) -> None:
        """The leases that live on are those of the new stream."""
        self.opened(welcome.offer, 0)
        for lease in welcome.kept:
            if (lease.task.id, lease.token) not in self._live:
                raise AssertionError(f"the host was told to go on with {lease.task.id}, which it did not have")
            self._live[lease.task.id, lease.token] = True

    def handed(self, given: dict[Offer, list[Lease]]) -> None:
        for offer, leases in given.items():
            self._credit[offer] -= len(leases)
            if self._credit[offer] < 0:
                raise AssertionError(f"{offer.host.id} was handed {-self._credit[offer]} more than it had room for")
            for lease in leases:
                self._give(lease, streamed=offer.streamed)
        self._grow([lease for leases in given.values() for lease in leases])

    def reported(self, name: str, args: Sequence[Any]) -> None:
        """A command that was taken: of host, task and token, if it is a report."""
        if name in ENDING:
            _, task_id, token, *_ = args
            self._reported.add((task_id, token))

    def see(self, events: Sequence[Event]) -> None:
        """Leases end when their task leaves flight."""
        for event in events:
            if event.before in FLYING and event.state not in FLYING:
                (key,) = [key for key in self._live if key[0] == event.task.id]
                if self._live.pop(key) and key not in self._reported:
                    self._ended.append(key)
                self._reported.discard(key)

    def stopped(self, stops: Sequence[Stop]) -> None:
        """Raise AssertionError unless these are the streamed leases that ended since, in order."""
        ended, self._ended = self._ended, []
        same("stops", [(stop.lease.task.id, stop.lease.token) for stop in stops], ended)

    def compare(self, leases: Sequence[Lease], offers: Iterable[Offer]) -> None:
        """Raise AssertionError unless the core knows of the same leases, and of the same room."""
        known = {(lease.task.id, lease.token): lease.stream is not None for lease in leases}
        same("leases that live", known, self._live)
        room = {offer: offer.room for offer in offers}
        same("room that is left", list(room.values()), [self._credit[offer] for offer in room])

    def _grow(self, leases: Iterable[Lease]) -> None:
        """Raise AssertionError unless the tokens of new leases are above all earlier ones, whatever their tasks."""
        for token in sorted(lease.token for lease in leases):
            if token <= self._last_token:
                raise AssertionError(f"token {token} is given, though {self._last_token} was given before")
            self._last_token = token

    def _give(self, lease: Lease, streamed: bool) -> None:
        held = [token for task_id, token in self._live if task_id == lease.task.id]
        if held:
            raise AssertionError(f"{lease.task.id} is given to {lease.host.id} while someone holds {held}")
        self._live[lease.task.id, lease.token] = streamed
