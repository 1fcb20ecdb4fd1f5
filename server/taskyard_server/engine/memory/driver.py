"""What follows from commands, once per turn of the event loop for all of them.

Tasks are dispatched to the hosts that wait, listeners are called, and the one timer is set to the next time at which
anything comes due.
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
    from taskyard_server.engine.port import Listener, TriggerListener

    from .namespace import NamespaceState

log = structlog.get_logger(__name__)

T = TypeVar("T")

RETRY_AFTER_FAULT_SECS: Final = 1.0
"""Seconds until a namespace is advanced again after a fault, so that it does not fail in a loop."""
SOON_SECS: Final = 0.05
"""Seconds until the consequences of heartbeats are handled, for all of them at once."""
MIN_DUES_TO_COMPACT: Final = 64


class Driver:
    """Knows which namespaces commands have changed. `activity` is set whenever a task may have ended."""

    def __init__(self, states: Mapping[str, NamespaceState], clock: Clock, wall: Clock) -> None:
        self.listeners: list[Listener] = []
        self.trigger_listeners: list[TriggerListener] = []
        self.activity = asyncio.Event()
        self._states = states
        self._clock = clock
        self._wall = wall
        self._dirty: dict[NamespaceState, None] = {}
        self._dirty_soon: dict[NamespaceState, None] = {}
        self._due: list[tuple[float, str]] = []
        self._closed = False
        self._alarm = Alarm(clock, self.advance, lambda: sum(len(state.sessions) for state in states.values()))

    def mark_dirty(self, state: NamespaceState) -> None:
        """A command changes this namespace in this turn."""
        if not self._dirty:
            asyncio.get_running_loop().call_soon(self.flush)
        self._dirty[state] = None

    def mark_dirty_soon(self, state: NamespaceState) -> None:
        """The same after a heartbeat, which hardly ever has consequences that anything waits for."""
        if not self._dirty_soon:
            asyncio.get_running_loop().call_later(SOON_SECS, self._mark_all_dirty)
        self._dirty_soon[state] = None

    def note_wall(self, state: NamespaceState) -> None:
        """Tell the schedules of a namespace what the wall clock shows."""
        state.scheduler.schedules.note_wall(self._clock(), self._wall())

    def flush(self) -> None:
        """Handle the consequences of all commands of this turn."""
        self.activity.set()
        dirty, self._dirty = self._dirty, {}
        for state in dirty:
            scheduler = state.scheduler
            if state.dispatch(self._clock()):
                self.mark_dirty(state)
            events = scheduler.take_events()
            if events:
                state.notify_ends(events)
                _notify(self.listeners, state.namespace, events)
            trigger_events = scheduler.schedules.take_events()
            if trigger_events:
                state.log_trigger_limit()
                _notify(self.trigger_listeners, state.namespace, trigger_events)
            due = scheduler.next_due()
            if due != state.due:
                state.due = due
                if due is not None:
                    heappush(self._due, (due, state.namespace))
        if len(self._due) > 2 * len(self._states) + MIN_DUES_TO_COMPACT:
            self._due = [(state.due, state.namespace) for state in self._states.values() if state.due is not None]
            heapify(self._due)
        self._set_alarm()

    def advance(self) -> None:
        """Do what has come due."""
        now = self._clock()
        for state in self._states.values():
            if state.due is not None and state.due <= now:
                state.due = None
                try:
                    self.note_wall(state)
                    state.scheduler.advance(now)
                except Exception:
                    # A fault in one namespace must not stop what is due in the others.
                    log.exception("advance_failed", namespace=state.namespace)
                    asyncio.get_running_loop().call_later(RETRY_AFTER_FAULT_SECS, self.mark_dirty, state)
                    continue
                self.mark_dirty(state)
        if not self._dirty:
            self._set_alarm()

    def close(self) -> None:
        """Handle the last consequences; nothing comes due any more."""
        self._closed = True
        self.flush()

    def _mark_all_dirty(self) -> None:
        dirty, self._dirty_soon = self._dirty_soon, {}
        for state in dirty:
            self.mark_dirty(state)

    def _set_alarm(self) -> None:
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
            # A fault of one listener must not stop the others.
            log.exception("listener_failed", namespace=namespace)
