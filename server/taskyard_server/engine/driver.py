"""Handles the consequences of commands, once per turn of the event loop for all of them.

It dispatches tasks to waiting hosts, publishes what happened once that is kept, and sets the alarm to the next time at
which anything is due.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import structlog

from .alarm import Alarm
from .slices import Slices
from .virtual_clock import VirtualClock

if TYPE_CHECKING:
    from taskyard_server.core.events import Event
    from taskyard_server.store.committer import Committer

    from .clock import Clock
    from .listeners import Listener, LossListener, TriggerListener
    from .namespace import NamespaceState, Turn
    from .views import DueDelivery

log = structlog.get_logger(__name__)

T = TypeVar("T")

RETRY_AFTER_FAULT_SECS: Final = 1.0
"""Delay before a namespace is advanced again after a fault, so that it does not fail in a busy loop."""
HEARTBEAT_FLUSH_SECS: Final = 0.05
"""Delay before the consequences of heartbeats are handled, together."""
MIN_DUE_TIMES_TO_COMPACT: Final = 64


class TurnOutbox(Protocol):
    """The maker of deliveries, which passes them on."""

    def take(self, state: NamespaceState, events: Sequence[Event]) -> Sequence[DueDelivery]:
        """The deliveries of a turn, which the next commit writes."""

    def publish(self, due: Sequence[DueDelivery]) -> None:
        """Pass on deliveries that are committed."""


class Driver:
    """Tracks which namespaces were changed by commands. `activity` is set whenever a task may have ended.

    With a `committer` a turn is published after its commit, else at once. With an `outbox` too, that commit keeps the
    deliveries of the turn. While this replica is not `is_trusted` to own its namespaces nothing comes due.
    """

    def __init__(
        self, states: Mapping[str, NamespaceState], clock: Clock, wall: Clock, monotonic: Clock = time.monotonic
    ) -> None:
        self.listeners: list[Listener] = []
        self.trigger_listeners: list[TriggerListener] = []
        self.loss_listeners: list[LossListener] = []
        self.activity = asyncio.Event()
        self.committer: Committer | None = None
        self.outbox: TurnOutbox | None = None
        self._states = states
        self._clock = clock
        self._wall = wall
        self._dirty: dict[NamespaceState, None] = {}
        self._dirty_soon: dict[NamespaceState, None] = {}
        self._due_times: list[tuple[float, str]] = []
        self.is_trusted: Callable[[], bool] = lambda: True
        self._is_held_back = False
        self._closed = False
        self.slices = Slices(self, clock)
        # A clock that stands still goes to each due time, a real one may look once too often.
        self._is_rough = not isinstance(clock, VirtualClock)
        self._alarm = (
            clock.alarm(self.advance)
            if isinstance(clock, VirtualClock)
            else Alarm(clock, self.advance, self._count_streams, monotonic)
        )

    def _count_streams(self) -> int:
        return sum(len(state.sessions) for state in self._states.values())

    def mark_dirty(self, state: NamespaceState) -> None:
        """Flush this namespace at the end of this turn of the event loop, since a command changes it."""
        if not self._dirty:
            asyncio.get_running_loop().call_soon(self.flush)
        self._dirty[state] = None

    def mark_dirty_soon(self, state: NamespaceState) -> None:
        """Flush this namespace after `HEARTBEAT_FLUSH_SECS`. Heartbeats rarely have urgent consequences."""
        if not self._dirty_soon:
            asyncio.get_running_loop().call_later(HEARTBEAT_FLUSH_SECS, self._mark_all_dirty)
        self._dirty_soon[state] = None

    def note_wall(self, state: NamespaceState) -> None:
        """Pass the current wall time to the schedules of a namespace."""
        state.scheduler.schedules.note_wall(self._clock(), self._wall())

    def flush(self) -> None:
        """Handle the consequences of all commands of this turn of the event loop."""
        self.activity.set()
        dirty, self._dirty = self._dirty, {}
        now = self._clock()
        for state in dirty:
            if state.has_left or state.is_deleted:
                continue
            scheduler = state.scheduler
            turn = state.take_turn(now)
            state.untold += len(turn.events)
            if self.committer is None:
                self._publish(state, turn, (), 0.0)
            else:
                deliveries = () if self.outbox is None else self.outbox.take(state, turn.events)
                # Heartbeats come also while the store does not answer, and must not fill the memory then.
                if any(turn) or not self.committer.has_turn(state):
                    self.committer.add(state, partial(self._publish, state, turn, deliveries))
            # What is due in one that is leaving waits for its next owner.
            due = None if state.is_leaving else scheduler.next_due(self._is_rough)
            if due != state.due:
                state.due = due
                if due is not None:
                    heappush(self._due_times, (due, state.namespace))
            if scheduler.operations.live:
                self.slices.look_at(state)
        if len(self._due_times) > 2 * len(self._states) + MIN_DUE_TIMES_TO_COMPACT:
            self._due_times = [(state.due, state.namespace) for state in self._states.values() if state.due is not None]
            heapify(self._due_times)
        if self.committer is not None:
            self.committer.turn_ended()
        self._set_alarm()

    @property
    def has_turn(self) -> bool:
        """True if commands of the present turn are still to be followed up."""
        return bool(self._dirty)

    def is_dirty(self, state: NamespaceState) -> bool:
        """True if the present turn has touched this namespace."""
        return state in self._dirty

    def commit_ended(self) -> None:
        """Let come due what a slow commit has held back, after what has arrived meanwhile was read."""
        if self._is_held_back:
            self._is_held_back = False
            self._alarm.catch_up()

    @property
    def is_held_back(self) -> bool:
        """True if nothing may come due: a commit takes long, or what has arrived since is to be read first."""
        return self._alarm.is_catching_up or self._must_wait()

    def _must_wait(self) -> bool:
        return self.committer is not None and (self.committer.is_slow() or not self.is_trusted())

    def advance(self) -> None:
        """Advance the namespaces that are due, but not while a commit takes long: hosts do not pay for a slow disk."""
        if self._must_wait():
            self._is_held_back = True
            return
        now = self._clock()
        for state in self._states.values():
            if state.due is not None and state.due <= now and not state.is_leaving:
                state.due = None
                try:
                    self.note_wall(state)
                    state.scheduler.advance(now)
                except Exception:
                    # A fault in one namespace must not affect the others.
                    log.exception("advance_failed", namespace=state.namespace)
                    asyncio.get_running_loop().call_later(RETRY_AFTER_FAULT_SECS, self.mark_dirty, state)
                    continue
                self.mark_dirty(state)
        if not self._dirty:
            self._set_alarm()

    def left(self, state: NamespaceState) -> None:
        """Let nothing more come due in a namespace that has left."""
        state.due = None
        self._dirty.pop(state, None)
        self._dirty_soon.pop(state, None)
        self._set_alarm()

    def close(self) -> None:
        """Flush for the last time and stop the alarm."""
        self._closed = True
        self.slices.close()
        self.flush()

    def _publish(self, state: NamespaceState, turn: Turn, deliveries: Sequence[DueDelivery], secs: float) -> None:
        """Tell of a turn and its deliveries, whose commit took this many seconds."""
        state.committing = None
        if state.has_left:
            return
        if state.hand_over(turn, self._clock(), secs):
            self.mark_dirty(state)
        if turn.events:
            state.untold -= len(turn.events)
            state.notify_ends(turn.events)
            _notify(self.listeners, state.namespace, turn.events)
        if turn.trigger_events:
            state.log_trigger_limit()
            _notify(self.trigger_listeners, state.namespace, turn.trigger_events)
        if turn.losses:
            _notify(self.loss_listeners, state.namespace, turn.losses)
        if deliveries and self.outbox is not None:
            self.outbox.publish(deliveries)

    def _mark_all_dirty(self) -> None:
        dirty, self._dirty_soon = self._dirty_soon, {}
        for state in dirty:
            self.mark_dirty(state)

    def _set_alarm(self) -> None:
        """Set the alarm to the earliest due time of all namespaces."""
        due_times = self._due_times
        while due_times and not self._is_due_at(*due_times[0]):
            heappop(due_times)
        self._alarm.set(due_times[0][0] if due_times and not self._closed else None)

    def _is_due_at(self, due: float, namespace: str) -> bool:
        state = self._states.get(namespace)
        return state is not None and state.due == due


def _notify(listeners: Sequence[Callable[[str, Sequence[T]], None]], namespace: str, events: Sequence[T]) -> None:
    for listener in listeners:
        try:
            listener(namespace, events)
        except Exception:
            # A fault of one listener must not affect the others.
            log.exception("listener_failed", namespace=namespace)
