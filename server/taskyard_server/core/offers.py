"""Room that hosts offer for tasks, and which host is next.

A stream offers its credit, a waiting claim offers what it asked for. Offers of equal profile form a group. Within a
group the host that is least loaded by share of its slots comes first; ties go to the one that got a task longest ago.

A group sleeps while nothing can be dispatched to it. What may change that wakes it: a task in one of its buckets, an
agent of such a task that falls below its limit, new room. So dispatch never asks a host in vain, and never polls.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .hosts import Host, HostProfile
    from .queue.bucket import Bucket
    from .queue.ready_queue import ReadyQueue

MIN_ENTRIES_TO_COMPACT: Final = 16

Rank = tuple[float, int]
"""The share of the host's slots in use, and when it was last handed a task; no two offers ever have the same."""


class Offer:
    """Room for `room` tasks at one host, under leases of `secs` seconds.

    `streamed` offers belong to a host's stream, which gets nothing more once it was silent for `silence_limit_secs`; a
    waiting claim has no such limit. `project` is the only project that it asks for, if any, and `claim_id` the name
    that its host gave the claim. `last_grant` orders offers by when they last got a task.
    """

    __slots__ = (
        "claim_id",
        "group",
        "host",
        "last_grant",
        "project",
        "rank",
        "room",
        "secs",
        "silence_limit_secs",
        "streamed",
    )

    def __init__(
        self,
        host: Host,
        group: OfferGroup,
        room: int,
        secs: float,
        silence_limit_secs: float | None,
        project: str | None,
        last_grant: int,
        claim_id: str | None = None,
    ) -> None:
        self.host = host
        self.group = group
        self.room = room
        self.secs = secs
        self.streamed = silence_limit_secs is not None
        self.silence_limit_secs = silence_limit_secs
        self.project = project
        self.last_grant = last_grant
        self.claim_id = claim_id
        self.rank: Rank | None = None

    @property
    def is_waiting(self) -> bool:
        """True if it has a rank among the offers that may be given a task."""
        return self.rank is not None

    @property
    def is_suspended(self) -> bool:
        """True if it has room, and is passed over because its host was silent for too long, rests or drains."""
        return self.room > 0 and self.rank is None


class OfferGroup:
    """The offers of one profile, those with room in a heap by their rank; `waiting` counts these.

    `buckets` are those of which they may be handed tasks; `ReadyQueue` keeps them.
    """

    __slots__ = ("buckets", "heap", "offers", "profile", "waiting")

    def __init__(self, profile: HostProfile) -> None:
        self.profile = profile
        self.buckets: dict[Bucket, None] = {}
        self.waiting = 0
        self.offers: dict[Offer, None] = {}
        self.heap: list[tuple[Rank, Offer]] = []

    def enter(self, offer: Offer) -> None:
        """Put an offer with room into its rank, or into its new rank."""
        host = offer.host
        slots = host.slots or len(host.leases) + offer.room
        rank = (len(host.leases) / slots, offer.last_grant)
        if rank == offer.rank:
            return
        self.waiting += offer.rank is None
        offer.rank = rank
        heappush(self.heap, (rank, offer))
        if len(self.heap) > 2 * self.waiting + MIN_ENTRIES_TO_COMPACT:
            # One that left and came back to the same rank stands there twice.
            ranks = {offer: rank for rank, offer in self.heap if offer.group is self and offer.rank == rank}
            self.heap = [(rank, offer) for offer, rank in ranks.items()]
            heapify(self.heap)

    def leave(self, offer: Offer) -> None:
        """The offer waits no longer; its entry is dropped when it comes to the top."""
        self.waiting -= offer.rank is not None
        offer.rank = None

    def front(self) -> Offer | None:
        """The offer of the least loaded host, and of equals the one that was granted a task least recently."""
        heap = self.heap
        while heap:
            rank, offer = heap[0]
            # Of one that left, the old rank may be the one that it has in another group.
            if offer.group is self and offer.rank == rank:
                return offer
            heappop(heap)
        return None


class Offers:
    """The front door of this file."""

    def __init__(self, ready: ReadyQueue) -> None:
        self._ready = ready
        self._groups: dict[HostProfile, OfferGroup] = {}
        self._awake: dict[OfferGroup, None] = {}
        self._grants = 0

    def open(
        self,
        host: Host,
        profile: HostProfile,
        room: int,
        secs: float,
        silence_limit_secs: float | None = None,
        project: str | None = None,
        claim_id: str | None = None,
    ) -> Offer:
        """A new offer, of a host that may be handed what `profile` says; it has no other under this `claim_id`."""
        self._grants += 1
        offer = Offer(host, self._group(profile), room, secs, silence_limit_secs, project, self._grants, claim_id)
        if claim_id is not None:
            host.waiting[claim_id] = offer
        offer.group.offers[offer] = None
        host.offers.append(offer)
        self.capacity_changed(offer)
        return offer

    def close(self, offer: Offer) -> None:
        """Withdraw an offer; twice is once."""
        if offer in offer.group.offers:
            self._leave_group(offer)
            offer.host.offers.remove(offer)
            if offer.claim_id is not None:
                del offer.host.waiting[offer.claim_id]
            offer.room = 0

    def move(self, offer: Offer, profile: HostProfile) -> None:
        """The host may run other tasks than before."""
        if profile != offer.group.profile:
            self._leave_group(offer)
            offer.group = self._group(profile)
            offer.group.offers[offer] = None
            self.capacity_changed(offer)

    def capacity_changed(self, offer: Offer) -> None:
        """The host may have become able to take more tasks, or fewer."""
        group, host = offer.group, offer.host
        if offer.room > 0 and not host.draining and (host.rests_until is None or not offer.streamed):
            group.enter(offer)
            self._awake[group] = None
        elif offer.rank is not None:
            group.leave(offer)

    def record_grant(self, offer: Offer) -> None:
        """It was handed a task."""
        self._grants += 1
        offer.last_grant = self._grants
        offer.room -= 1
        if offer.room <= 0:
            offer.group.leave(offer)
        self.load_changed(offer.host)

    def load_changed(self, host: Host) -> None:
        """It holds more leases than before: what it offers goes further behind."""
        for offer in host.offers:
            if offer.rank is not None:
                offer.group.enter(offer)

    def wake_all(self) -> None:
        """Limits have changed."""
        self._awake.update(dict.fromkeys(self._groups.values()))

    def awake(self) -> dict[OfferGroup, None]:
        """The groups that may be handed something. The caller takes out those that cannot."""
        for group in self._ready.take_woken():
            self._awake[group] = None
        return self._awake

    def __iter__(self) -> Iterator[OfferGroup]:
        return iter(self._groups.values())

    def _group(self, profile: HostProfile) -> OfferGroup:
        group = self._groups.get(profile)
        if group is None:
            group = self._groups[profile] = OfferGroup(profile)
            self._ready.subscribe(group)
        return group

    def _leave_group(self, offer: Offer) -> None:
        group = offer.group
        group.leave(offer)
        del group.offers[offer]
        if not group.offers:
            self._ready.unsubscribe(group)
            self._awake.pop(group, None)
            del self._groups[group.profile]
            # What is stale in it would keep it, and itself, in memory.
            group.heap.clear()
