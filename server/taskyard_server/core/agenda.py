"""All that is due in one namespace, in its order: times first, then what ends bring about, then what is forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .timers import Timers, sooner

if TYPE_CHECKING:
    from .children import Children
    from .predecessors import Predecessors
    from .queue.keys import Keys
    from .runs.parks import Parks


class Evictions(Protocol):
    """The part of `Retention` that has to do with time."""

    def next_due(self) -> float | None:
        """When the next task is to be forgotten."""

    def evict_one(self, now: float) -> bool:
        """Forget a task whose time is over; false if there is none."""


class Agenda:
    """The parts of a namespace that have something to do with time, or after the end of a task."""

    def __init__(
        self,
        timers: Timers,
        retention: Evictions,
        predecessors: Predecessors,
        children: Children,
        parks: Parks,
        keys: Keys,
    ) -> None:
        self._timers = timers
        self._retention = retention
        self._predecessors = predecessors
        self._children = children
        self._awaited = parks.ends
        self._events = parks.events
        self._keys = keys

    def next_due(self, is_rough: bool = False) -> float | None:
        """When `advance` has something to do; None while nothing can come due. A rough answer may be too early."""
        due = sooner(self._timers.next_due(is_rough), self._retention.next_due())
        due = sooner(sooner(due, self._predecessors.next_due()), self._children.ends.next_due())
        due = sooner(sooner(due, self._awaited.next_due()), self._events.next_due())
        return sooner(due, self._keys.next_due())

    def advance(self, now: float, max_items: int) -> bool:
        """Act on what has come due, on `max_items` at most; whether more may be due."""
        self._keys.look(now)
        for _ in range(max_items):
            if not (self._timers.act_on_one(now) or self._follow_one(now) or self._retention.evict_one(now)):
                return False
        return True

    def follow(self, now: float, limit: int) -> None:
        """Bring about what the ends of tasks, and events, mean for up to this many others."""
        while limit and self._follow_one(now):
            limit -= 1

    def _follow_one(self, now: float) -> bool:
        if self._children.ends.act_on_one(now) or self._awaited.act_on_one(now):
            return True
        return self._events.act_on_one(now) or self._predecessors.act_on_one(now)
