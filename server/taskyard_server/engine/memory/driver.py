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
    from taskyard_server.engine.clock import Clock
    from taskyard_server.engine.port import Listener

    from .namespace import NamespaceState
    from .schedules import MemorySchedules

log = structlog.get_logger(__name__)

T = TypeVar("T")

FAULT_SECS: Final = 1.0
"""After a fault a namespace goes on so much later, lest it does nothing but fail."""
SOON_SECS: Final = 0.05
"""The consequences of heartbeats are drawn so much later, for all of them at once."""


class Driver:
    """Knows which states commands have touched. `activity` is set whenever something may have ended."""

    def __init__(self, states: Mapping[str, NamespaceState], clock: Clock, schedules: MemorySchedules) -> None:
        self.listeners: list[Listener] = []
        self.activity = asyncio.Event()
        self._states = states
        self._clock = clock
        self._schedules = schedules
        self._dirty: dict[NamespaceState, None] = {}
        self._dirty_soon: dict[NamespaceState, None] = {}
        self._due: list[tuple[float, str]] = []
        self._closed = False
        self._alarm = Alarm(clock, self.advance, lambda: sum(len(state.sessions) for state in states.values()))

    def mark_dirty(self, state: NamespaceState) -> None:
        """A command changes this state in this turn."""
        if not self._dirty:
            asyncio.get_running_loop().call_soon(self.flush)
        self._dirty[state] = None

    def mark_dirty_soon(self, state: NamespaceState) -> None:
        """The same where hardly ever is there a consequence, and nobody waits for it: after a heartbeat."""
        if not self._dirty_soon:
            asyncio.get_running_loop().call_later(SOON_SECS, self._mark_all_dirty)
        self._dirty_soon[state] = None

    def flush(self) -> None:
        """Draw the consequences of everything that this turn's commands did."""
        self.activity.set()
        touched, self._dirty = self._dirty, {}
        for state in touched:
            scheduler = state.scheduler
            if state.dispatch(self._clock()):
                self.mark_dirty(state)
            events = scheduler.take_events()
            if events:
                state.notify_ends(events)
                _notify(self.listeners, state.namespace, events)
            fired = scheduler.schedules.take_events()
            if fired:
                state.log_trigger_limit()
                _notify(self._schedules.listeners, state.namespace, fired)
            due = scheduler.next_due()
            if due != state.due:
                state.due = due
                if due is not None:
                    heappush(self._due, (due, state.namespace))
        if len(self._due) > 2 * len(self._states) + 64:
            self._due = [(state.due, state.namespace) for state in self._states.values() if state.due is not None]
            heapify(self._due)
        self._arm()

    def advance(self) -> None:
        """Do what has come due."""
        now = self._clock()
        for state in self._states.values():
            if state.due is not None and state.due <= now:
                state.due = None
                try:
                    self._schedules.of(state)
                    state.scheduler.advance(now)
                except Exception:
                    # A fault in one thing that is due must not stop what is due for all the others.
                    log.exception("advance_failed", namespace=state.namespace)
                    asyncio.get_running_loop().call_later(FAULT_SECS, self.mark_dirty, state)
                    continue
                self.mark_dirty(state)
        if not self._dirty:
            self._arm()

    def close(self) -> None:
        """Draw the last consequences; nothing comes due any more."""
        self._closed = True
        self.flush()

    def _mark_all_dirty(self) -> None:
        touched, self._dirty_soon = self._dirty_soon, {}
        for state in touched:
            self.mark_dirty(state)

    def _arm(self) -> None:
        """Set the alarm to the earliest due time of all namespaces."""
        due = self._due
        while due and self._states[due[0][1]].due != due[0][0]:
            heappop(due)
        self._alarm.set(due[0][0] if due and not self._closed else None)


def _notify(listeners: Sequence[Callable[[str, Sequence[T]], None]], namespace: str, events: Sequence[T]) -> None:
    for listener in listeners:
        try:
            listener(namespace, events)
        except Exception:
            # A listener's fault must not stop what is due for all the others.
            log.exception("listener_failed", namespace=namespace)
