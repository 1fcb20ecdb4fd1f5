"""The schedules of the embedded engine: those of the core schedulers in its states."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from copy import copy
from itertools import islice
from typing import TYPE_CHECKING, Final

from taskyard_server.core.schedules.registry import ScheduleRegistry
from taskyard_server.core.schedules.schedule import CatchUp, Schedule, ScheduleSpec, Trigger
from taskyard_server.core.schedules.trigger_store import PageKey
from taskyard_server.engine.schedule_port import TriggerFilter, TriggerListener, TriggerPage

if TYPE_CHECKING:
    from taskyard_server.engine.clock import Clock

    from .namespace import NamespaceState

MAX_TRIGGERS_PER_TURN: Final = 2_000
"""So many triggers a listing walks before others get their turn."""
MAX_MISSED_PER_RESUME: Final = 50
MAX_TIMES_PER_TURN: Final = 100
"""So many due times are worked out before others get their turn."""


class MemorySchedules:
    """Implements `schedule_port.SchedulePort`.

    `enter` gives a namespace's state, `existing` one where something is sought, which it names when there is none; both
    note that the state is touched.
    """

    def __init__(
        self,
        states: Mapping[str, NamespaceState],
        enter: Callable[[str], NamespaceState],
        existing: Callable[[str, str], NamespaceState],
        clock: Clock,
        wall: Clock,
    ) -> None:
        self._states = states
        self._enter = enter
        self._existing = existing
        self._clock = clock
        self._wall = wall
        self.listeners: list[TriggerListener] = []

    async def create(
        self, namespace: str, schedule_id: str | None, spec: ScheduleSpec, paused: bool = False
    ) -> Schedule:
        return self.of(self._enter(namespace)).create(self._clock(), schedule_id, spec, paused)

    async def get(self, namespace: str, schedule_id: str) -> Schedule:
        return self._existing(namespace, "schedule").scheduler.schedules.get(schedule_id)

    async def list_schedules(self, namespace: str, after: int) -> list[Schedule]:
        state = self._states.get(namespace)
        return state.scheduler.schedules.after(after) if state else []

    async def update(
        self, namespace: str, schedule_id: str, change: Callable[[ScheduleSpec], ScheduleSpec]
    ) -> Schedule:
        schedules = self.of(self._existing(namespace, "schedule"))
        return schedules.update(self._clock(), schedule_id, change(schedules.get(schedule_id).spec))

    async def delete(self, namespace: str, schedule_id: str) -> None:
        self.of(self._existing(namespace, "schedule")).delete(schedule_id)

    async def pause(self, namespace: str, schedule_id: str) -> Schedule:
        return self.of(self._existing(namespace, "schedule")).pause(self._clock(), schedule_id)

    async def resume(self, namespace: str, schedule_id: str, catch_up: CatchUp) -> Schedule:
        schedules = self.of(self._existing(namespace, "schedule"))
        schedule = schedules.resume(self._clock(), schedule_id, catch_up)
        # What it missed is dealt with at once, so that the answer names a time to come.
        schedules.advance(self._clock(), MAX_MISSED_PER_RESUME)
        return schedule

    async def trigger(self, namespace: str, schedule_id: str, key: str | None, traceparent: str | None) -> Trigger:
        return self.of(self._existing(namespace, "schedule")).trigger(self._clock(), schedule_id, key, traceparent)

    async def preview(self, namespace: str, schedule_id: str, count: int, after: float | None) -> list[float]:
        schedules = self.of(self._existing(namespace, "schedule"))
        schedule = schedules.get(schedule_id)
        cadence, since = schedule.spec.cadence, schedule.since
        at: float | None = schedules.clock_of(schedule, self._clock()) if after is None else after
        times: list[float] = []
        while at is not None and len(times) < count:
            at = cadence.next_after(at, since)
            if at is not None:
                times.append(at)
            if len(times) % MAX_TIMES_PER_TURN == 0:
                await asyncio.sleep(0)
        return times

    async def get_trigger(self, namespace: str, trigger_id: str) -> Trigger:
        return self._existing(namespace, "trigger").scheduler.schedules.get_trigger(trigger_id)

    async def list_triggers(
        self, namespace: str, trigger_filter: TriggerFilter, before: PageKey | None, limit: int
    ) -> TriggerPage:
        state = self._states.get(namespace)
        found: list[Trigger] = []
        latest = (trigger_filter.due_before, 0)
        before = latest if before is None else min(before, latest)
        while state is not None:
            scanned = list(
                islice(
                    state.scheduler.schedules.triggers_before(before, trigger_filter.schedule_id), MAX_TRIGGERS_PER_TURN
                )
            )
            for trigger in scanned:
                if trigger.due_at < trigger_filter.due_from:
                    return TriggerPage(found, None)
                if trigger_filter.states is None or trigger.state in trigger_filter.states:
                    if len(found) == limit:
                        return TriggerPage(found, (found[-1].due_at, found[-1].number))
                    found.append(copy(trigger))
            if len(scanned) < MAX_TRIGGERS_PER_TURN:
                break
            before = (scanned[-1].due_at, scanned[-1].number)
            await asyncio.sleep(0)
        return TriggerPage(found, None)

    def subscribe(self, listener: TriggerListener) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def of(self, state: NamespaceState) -> ScheduleRegistry:
        """The schedules of a state, which know how the wall clock stands."""
        schedules = state.scheduler.schedules
        schedules.note_wall(self._clock(), self._wall())
        return schedules
