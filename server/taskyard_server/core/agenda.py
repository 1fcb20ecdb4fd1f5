"""What comes due when, over all kinds of things: each kind has its timers and what is done with an item that is due."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .timers import TICKS_PER_SECOND, Timers

Item = TypeVar("Item")


class Agenda:
    """All timers of one scheduler. Kinds that were added earlier come first within a tick."""

    def __init__(self) -> None:
        self._kinds: list[tuple[Timers[Any], Callable[[float, Any], None]]] = []

    def timers(self, act: Callable[[float, Item], None]) -> Timers[Item]:
        """Timers of another kind; `act` is called with the present time and each item that has come due."""
        timers: Timers[Item] = Timers()
        self._kinds.append((timers, act))
        return timers

    def next_due(self) -> float | None:
        """When the next item comes due, in seconds; None while nothing can."""
        ticks = [tick for timers, _ in self._kinds if (tick := timers.next_tick()) is not None]
        return min(ticks) / TICKS_PER_SECOND if ticks else None

    def act_on_one(self, now: float) -> bool:
        """Do what is due first; False if nothing is."""
        first = int(now * TICKS_PER_SECOND) + 1
        due: tuple[Timers[Any], Callable[[float, Any], None]] | None = None
        for kind in self._kinds:
            tick = kind[0].next_tick()
            if tick is not None and tick < first:
                first, due = tick, kind
        if due is None:
            return False
        timers, act = due
        act(now, timers.pop(first))
        return True
