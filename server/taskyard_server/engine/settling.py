"""What follows from commands, drawn once a turn of the loop for all of them.

Tasks are handed to the hosts that wait, listeners are told, and the one timer is set to the next time at which anything
comes due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from .alarm import Alarm

if TYPE_CHECKING:
    from .clock import Clock
    from .memory_schedules import MemorySchedules
    from .port import Listener
    from .yard import Yard

log = structlog.get_logger(__name__)

T = TypeVar("T")

FAULT_SECS: Final = 1.0
"""After a fault a namespace goes on so much later, lest it does nothing but fail."""
LIGHT_SECS: Final = 0.05
"""The consequences of heartbeats are drawn so much later, for all of them at once."""


class Settling:
    """Knows which yards commands have touched. `landed` is set whenever something may have ended."""

    def __init__(self, yards: Mapping[str, Yard], clock: Clock, schedules: MemorySchedules) -> None:
        self.listeners: list[Listener] = []
        self.landed = asyncio.Event()
        self._yards = yards
        self._clock = clock
        self._schedules = schedules
        self._touched: dict[Yard, None] = {}
        self._touched_lightly: dict[Yard, None] = {}
        self._due: list[tuple[float, str]] = []
        self._closed = False
        self._alarm = Alarm(clock, self.advance, lambda: sum(len(yard.sessions) for yard in yards.values()))

    def touch(self, yard: Yard) -> None:
        """A command changes this yard in this turn."""
        if not self._touched:
            asyncio.get_running_loop().call_soon(self.settle)
        self._touched[yard] = None

    def touch_soon(self, yard: Yard) -> None:
        """The same where hardly ever is there a consequence, and nobody waits for it: after a heartbeat."""
        if not self._touched_lightly:
            asyncio.get_running_loop().call_later(LIGHT_SECS, self._touch_all)
        self._touched_lightly[yard] = None

    def settle(self) -> None:
        """Draw the consequences of everything that this turn's commands did."""
        self.landed.set()
        touched, self._touched = self._touched, {}
        for yard in touched:
            scheduler = yard.scheduler
            if yard.hand_out(self._clock()):
                self.touch(yard)
            happened = scheduler.take_events()
            if happened:
                yard.tell_ends(happened)
                _tell(self.listeners, yard.namespace, happened)
            fired = scheduler.schedules.take_events()
            if fired:
                yard.tell_places()
                _tell(self._schedules.listeners, yard.namespace, fired)
            due = scheduler.next_due()
            if due != yard.due:
                yard.due = due
                if due is not None:
                    heappush(self._due, (due, yard.namespace))
        if len(self._due) > 2 * len(self._yards) + 64:
            self._due = [(yard.due, yard.namespace) for yard in self._yards.values() if yard.due is not None]
            heapify(self._due)
        self._arm()

    def advance(self) -> None:
        """Do what has come due."""
        now = self._clock()
        for yard in self._yards.values():
            if yard.due is not None and yard.due <= now:
                yard.due = None
                try:
                    self._schedules.of(yard)
                    yard.scheduler.advance(now)
                except Exception:
                    # A fault in one thing that is due must not stop what is due for all the others.
                    log.exception("advance_failed", namespace=yard.namespace)
                    asyncio.get_running_loop().call_later(FAULT_SECS, self.touch, yard)
                    continue
                self.touch(yard)
        if not self._touched:
            self._arm()

    def close(self) -> None:
        """Draw the last consequences; nothing comes due any more."""
        self._closed = True
        self.settle()

    def _touch_all(self) -> None:
        touched, self._touched_lightly = self._touched_lightly, {}
        for yard in touched:
            self.touch(yard)

    def _arm(self) -> None:
        """Set the alarm to the earliest due time of all namespaces."""
        due = self._due
        while due and self._yards[due[0][1]].due != due[0][0]:
            heappop(due)
        self._alarm.set(due[0][0] if due and not self._closed else None)


def _tell(listeners: Sequence[Callable[[str, Sequence[T]], None]], namespace: str, happened: Sequence[T]) -> None:
    for listener in listeners:
        try:
            listener(namespace, happened)
        except Exception:
            # A listener's fault must not stop what is due for all the others.
            log.exception("listener_failed", namespace=namespace)
