"""What comes due when: deadlines, leases, delays and silences, in ticks of an eighth of a second.

A tick never comes before the time it stands for, and at most an eighth of a second after it. Items of one tick share
a dict, so that adding and removing are O(1) and a removed item leaves nothing behind; a heap orders the ticks only.
(A heap of items would keep a finished task in memory until its deadline.)
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from enum import IntEnum, auto
from heapq import heapify, heappop, heappush
from typing import Any, Final, Generic, TypeVar

TICKS_PER_SECOND: Final = 8
MIN_TICKS_TO_COMPACT: Final = 64

Item = TypeVar("Item")


class TimerOrder(IntEnum):
    """In which order things happen that come due in the same tick: a deadline before a lease that ends with it.

    A run timeout stands between them: it tells more than a lost lease, and a deadline leaves no attempt to time out.
    """

    DEADLINE = auto()
    RUN_TIMEOUT = auto()
    LEASE_END = auto()
    SILENCE = auto()
    DRAIN = auto()
    NOT_BEFORE = auto()
    STOPPING = auto()
    TRIGGER_DELAY = auto()
    FORGET_HOST = auto()
    FORGET_KEY = auto()
    HOST_REST = auto()


def tick_of(at: float) -> int:
    """The tick at which something of the time `at` is due."""
    return int(at * TICKS_PER_SECOND) + 1


class TimerQueue(Generic[Item]):
    """A set of items of one kind, each with the time at which it comes due."""

    def __init__(self) -> None:
        self._due: dict[int, dict[Item, None]] = {}
        self._ticks: list[int] = []

    def add(self, at: float, item: Item) -> None:
        """`item` comes due at `at`."""
        tick = tick_of(at)
        items = self._due.get(tick)
        if items is None:
            self._due[tick] = {item: None}
            heappush(self._ticks, tick)
        else:
            items[item] = None

    def remove(self, at: float, item: Item) -> None:
        """Forget an item that was added for `at`, if it has not been popped."""
        tick = tick_of(at)
        items = self._due.get(tick)
        if items is not None and item in items:
            del items[item]
            if not items:
                self._drop(tick)

    def next_tick(self) -> int | None:
        """The earliest tick that holds an item."""
        ticks = self._ticks
        while ticks and ticks[0] not in self._due:
            heappop(ticks)
        return ticks[0] if ticks else None

    def pop(self, tick: int) -> Item:
        """Take an item out of a tick that holds one."""
        items = self._due[tick]
        item, _ = items.popitem()
        if not items:
            self._drop(tick)
        return item

    def _drop(self, tick: int) -> None:
        del self._due[tick]
        if len(self._ticks) > 2 * len(self._due) + MIN_TICKS_TO_COMPACT:
            self._ticks = list(self._due)
            heapify(self._ticks)


class Timers:
    """All timer queues of one scheduler."""

    def __init__(self) -> None:
        self._queues: list[tuple[TimerOrder, TimerQueue[Any], Callable[[float, Any], None]]] = []

    def queue(self, act: Callable[[float, Item], None], order: TimerOrder) -> TimerQueue[Item]:
        """A queue for one kind of item; `act` is called with the present time and each item that comes due."""
        queue: TimerQueue[Item] = TimerQueue()
        insort(self._queues, (order, queue, act), key=_order)
        return queue

    def next_due(self) -> float | None:
        """When the next item comes due, in seconds; None while nothing can."""
        ticks = [tick for _, queue, _ in self._queues if (tick := queue.next_tick()) is not None]
        return min(ticks) / TICKS_PER_SECOND if ticks else None

    def act_on_one(self, now: float) -> bool:
        """Act on the item that is due first; False if nothing is due."""
        first = int(now * TICKS_PER_SECOND) + 1
        due: tuple[TimerQueue[Any], Callable[[float, Any], None]] | None = None
        for _, queue, act in self._queues:
            tick = queue.next_tick()
            if tick is not None and tick < first:
                first, due = tick, (queue, act)
        if due is None:
            return False
        queue, act = due
        act(now, queue.pop(first))
        return True


def _order(entry: tuple[TimerOrder, TimerQueue[Any], Callable[[float, Any], None]]) -> TimerOrder:
    return entry[0]


def sooner(due: float | None, other: float | None) -> float | None:
    """The sooner of two times, of which None is never."""
    if due is None or (other is not None and other < due):
        return other
    return due
