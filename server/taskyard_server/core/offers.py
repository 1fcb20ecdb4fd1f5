"""Room that hosts offer for tasks, and whose turn it is.

A stream offers its credit, a claim that waits offers what it asked for. Offers of equal profile form a crew. In a crew
the host that is least loaded by share of its slots comes first, ties go to the one that was handed a task longest ago.

A crew sleeps while nothing can be handed to it. What may change that wakes it: a task in one of its buckets, an agent
of such a task that falls under its limit, new room. So handing out never asks a host in vain, and never polls.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .hosts import Host, HostProfile
    from .ready_queue import Bucket, ReadyQueue

FEW: Final = 16

Place = tuple[float, int]
"""The share of the host's slots in use, and when it was last handed a task; no two offers ever have the same."""


class Offer:
    """Room for `room` tasks at one host, under leases of `secs` seconds.

    `streamed` ones belong to a host's stream. `patience` is how many seconds a stream may be silent before nothing is
    handed to it any more; a claim that waits needs none. `project` is the only one that it asks for, if any.
    """

    __slots__ = ("crew", "host", "patience", "place", "project", "room", "secs", "streamed", "turn")

    def __init__(
        self, host: Host, crew: Crew, room: int, secs: float, patience: float | None, project: str | None, turn: int
    ) -> None:
        self.host = host
        self.crew = crew
        self.room = room
        self.secs = secs
        self.streamed = patience is not None
        self.patience = patience
        self.project = project
        self.turn = turn
        self.place: Place | None = None


class Crew:
    """The offers of one profile, those with room in a heap by their place; `waiting` counts these.

    `buckets` are those of which they may be handed tasks; `ReadyQueue` keeps them.
    """

    __slots__ = ("buckets", "heap", "offers", "profile", "waiting")

    def __init__(self, profile: HostProfile) -> None:
        self.profile = profile
        self.buckets: dict[Bucket, None] = {}
        self.waiting = 0
        self.offers: dict[Offer, None] = {}
        self.heap: list[tuple[Place, Offer]] = []

    def enter(self, offer: Offer) -> None:
        """Put an offer with room into its place, or into its new place."""
        host = offer.host
        slots = host.slots or len(host.leases) + offer.room
        place = (len(host.leases) / slots, offer.turn)
        if place == offer.place:
            return
        self.waiting += offer.place is None
        offer.place = place
        heappush(self.heap, (place, offer))
        if len(self.heap) > 2 * self.waiting + FEW:
            # One that left and came back to the same place stands there twice.
            places = {offer: place for place, offer in self.heap if offer.crew is self and offer.place == place}
            self.heap = [(place, offer) for offer, place in places.items()]
            heapify(self.heap)

    def leave(self, offer: Offer) -> None:
        """The offer waits no longer; its entry is dropped when it comes to the top."""
        self.waiting -= offer.place is not None
        offer.place = None

    def front(self) -> Offer | None:
        """The offer whose turn it is."""
        heap = self.heap
        while heap:
            place, offer = heap[0]
            # Of one that left, the old place may be the one that it has in another crew.
            if offer.crew is self and offer.place == place:
                return offer
            heappop(heap)
        return None


class Offers:
    """The front door of this file."""

    def __init__(self, ready: ReadyQueue) -> None:
        self._ready = ready
        self._crews: dict[HostProfile, Crew] = {}
        self._awake: dict[Crew, None] = {}
        self._turns = 0

    def open(
        self,
        host: Host,
        profile: HostProfile,
        room: int,
        secs: float,
        patience: float | None = None,
        project: str | None = None,
    ) -> Offer:
        """A new offer, of a host that may be handed what `profile` says."""
        self._turns += 1
        offer = Offer(host, self._crew(profile), room, secs, patience, project, self._turns)
        offer.crew.offers[offer] = None
        host.offers.append(offer)
        self.eased(offer)
        return offer

    def close(self, offer: Offer) -> None:
        """Withdraw an offer; twice is once."""
        if offer in offer.crew.offers:
            self._leave_crew(offer)
            offer.host.offers.remove(offer)
            offer.room = 0

    def move(self, offer: Offer, profile: HostProfile) -> None:
        """The host may run other tasks than before."""
        if profile != offer.crew.profile:
            self._leave_crew(offer)
            offer.crew = self._crew(profile)
            offer.crew.offers[offer] = None
            self.eased(offer)

    def eased(self, offer: Offer) -> None:
        """Its host may have become able to take something, or less loaded."""
        crew = offer.crew
        if offer.room > 0 and not offer.host.draining:
            crew.enter(offer)
            self._awake[crew] = None
        elif offer.place is not None:
            crew.leave(offer)

    def served(self, offer: Offer) -> None:
        """It was handed a task."""
        self._turns += 1
        offer.turn = self._turns
        offer.room -= 1
        if offer.room <= 0:
            offer.crew.leave(offer)
        self.loaded(offer.host)

    def loaded(self, host: Host) -> None:
        """It holds more leases than before: what it offers goes further behind."""
        for offer in host.offers:
            if offer.place is not None:
                offer.crew.enter(offer)

    def wake_all(self) -> None:
        """Limits have changed."""
        self._awake.update(dict.fromkeys(self._crews.values()))

    def awake(self) -> dict[Crew, None]:
        """The crews that may be handed something. The caller takes out those that cannot."""
        for crew in self._ready.take_woken():
            self._awake[crew] = None
        return self._awake

    def __iter__(self) -> Iterator[Crew]:
        return iter(self._crews.values())

    def _crew(self, profile: HostProfile) -> Crew:
        crew = self._crews.get(profile)
        if crew is None:
            crew = self._crews[profile] = Crew(profile)
            self._ready.enlist(crew)
        return crew

    def _leave_crew(self, offer: Offer) -> None:
        crew = offer.crew
        crew.leave(offer)
        del crew.offers[offer]
        if not crew.offers:
            self._ready.dismiss(crew)
            self._awake.pop(crew, None)
            del self._crews[crew.profile]
            # What is stale in it would keep it, and itself, in memory.
            crew.heap.clear()
