"""Due times: of deadlines, leases, delays and silences, in ticks of an eighth of a second.

A tick never comes before the time it stands for, and at most an eighth of a second after it. Items of one tick share
a dict, so that adding and removing are O(1) and a removed item leaves nothing behind; a heap orders the ticks only.
(A heap of items would keep a finished task in memory until its deadline.)

Most deadlines and leases end in time, and cost nothing here: `Looks` holds the pages of tasks and the hosts, each once,
for the first of what they have. When its time comes it is looked through, and only what is due then gets a timer.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from enum import IntEnum, auto
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, Final, Generic, TypeAlias, TypeVar

TICKS_PER_SECOND: Final = 8
MIN_TICKS_TO_COMPACT: Final = 64

Item = TypeVar("Item")
Act: TypeAlias = Callable[[float, Item], bool | None]


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
    PARK = auto()
    STOPPING = auto()
    TRIGGER_DELAY = auto()
    FORGET_HOST = auto()
    FORGET_KEY = auto()
    FORGET_EVENT = auto()
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

    def any_of(self, tick: int) -> Item:
        """An item of a tick that holds one."""
        return next(iter(self._due[tick]))

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

    def take_all(self) -> list[Item]:
        """Take out all items."""
        if not self._due:
            return []
        taken = [item for items in self._due.values() for item in items]
        self._due.clear()
        self._ticks.clear()
        return taken

    def _drop(self, tick: int) -> None:
        del self._due[tick]
        if len(self._ticks) > 2 * len(self._due) + MIN_TICKS_TO_COMPACT:
            self._ticks = list(self._due)
            heapify(self._ticks)


class Holder:
    """A slot of things that come due. `look_at` is when it is looked through next, `inf` for never."""

    __slots__ = ("look_at",)

    def __init__(self) -> None:
        self.look_at = inf


H = TypeVar("H", bound=Holder)


class Looks(Generic[H, Item]):
    """Holders of items of one kind, each looked through no later than the first of its items is due.

    What ends before its time, or gets a later one, is not told here: a look may find nothing. `first` looks through a
    holder: it returns when the first of its items is due, `inf` for never, but gives those to the queue `due` that are
    due in this tick or before it. `again` makes sure that an item is looked for, unless it has ended.
    """

    def __init__(self, first: Callable[[H, int], float], due: TimerQueue[Item], again: Callable[[Item], None]) -> None:
        self._first = first
        self._again = again
        self.due = due
        self.holders: TimerQueue[H] = TimerQueue()

    def no_later(self, at: float, holder: H) -> None:
        """Look through a holder at this time at the latest, since something in it is due then."""
        if at < holder.look_at:
            self.forget(holder)
            holder.look_at = at
            self.holders.add(at, holder)

    def forget(self, holder: H) -> None:
        """Look through a holder no more."""
        if holder.look_at != inf:
            self.holders.remove(holder.look_at, holder)
            holder.look_at = inf

    def next_tick(self) -> int | None:
        """The earliest tick at which something is due, which a look at each holder before it finds out."""
        for item in self.due.take_all():
            # What was found may have ended since.
            self._again(item)
        while (tick := self.holders.next_tick()) is not None:
            holder = self.holders.any_of(tick)
            if self._look_again(holder, 0) == tick:
                return tick
        return None

    def look(self, tick: int) -> None:
        """Look through all holders of a tick."""
        while self.holders.next_tick() == tick:
            self._look_again(self.holders.any_of(tick), tick)

    def _look_again(self, holder: H, tick: int) -> int:
        """Look through a holder; returns the tick at which it is looked through next, 0 for never."""
        at = self._first(holder, tick)
        if at != holder.look_at:
            self.forget(holder)
            if at != inf:
                self.no_later(at, holder)
        return 0 if at == inf else tick_of(at)


class Timers:
    """All timer queues of one scheduler."""

    def __init__(self) -> None:
        self._queues: list[tuple[TimerOrder, TimerQueue[Any], Act[Any]]] = []
        self._looks: list[Looks[Any, Any]] = []

    def queue(self, act: Act[Item], order: TimerOrder) -> TimerQueue[Item]:
        """A queue for one kind of item; `act` is called with the present time and each item that comes due.

        It returns False where there was nothing to do, since a look had found what has ended meanwhile.
        """
        queue: TimerQueue[Item] = TimerQueue()
        insort(self._queues, (order, queue, act), key=_order)
        return queue

    def looks(
        self, first: Callable[[H, int], float], due: TimerQueue[Item], again: Callable[[Item], None]
    ) -> Looks[H, Item]:
        """Looks for items of the queue `due`, as `Looks` says."""
        looks: Looks[H, Item] = Looks(first, due, again)
        self._looks.append(looks)
        return looks

    def next_due(self, is_rough: bool = False) -> float | None:
        """When the next item comes due, in seconds; None while nothing can.

        A rough answer costs no look at what holds items, and may be too early for that.
        """
        first: int | None = None
        for looks in self._looks:
            tick = looks.holders.next_tick() if is_rough else looks.next_tick()
            if tick is not None and (first is None or tick < first):
                first = tick
        for _, queue, _ in self._queues:
            tick = queue.next_tick()
            if tick is not None and (first is None or tick < first):
                first = tick
        return None if first is None else first / TICKS_PER_SECOND

    def act_on_one(self, now: float) -> bool:
        """Act on the item that is due first; False if nothing is due."""
        last = int(now * TICKS_PER_SECOND)
        while True:
            first = last + 1
            due: tuple[TimerQueue[Any], Act[Any]] | None = None
            for _, queue, act in self._queues:
                tick = queue.next_tick()
                if tick is not None and tick < first:
                    first, due = tick, (queue, act)
            # A look comes before what it may find.
            found: Looks[Any, Any] | None = None
            for looks in self._looks:
                tick = looks.holders.next_tick()
                if tick is not None and tick <= last and tick <= first:
                    first, found = tick, looks
            if found is not None:
                found.look(first)
            elif due is None:
                return False
            else:
                queue, act = due
                if act(now, queue.pop(first)) is not False:
                    return True


def _order(entry: tuple[TimerOrder, TimerQueue[Any], Act[Any]]) -> TimerOrder:
    return entry[0]


def sooner(due: float | None, other: float | None) -> float | None:
    """The sooner of two times, of which None is never."""
    if due is None or (other is not None and other < due):
        return other
    return due
