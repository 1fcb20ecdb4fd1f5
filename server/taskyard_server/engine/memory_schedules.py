"""The schedules of the embedded engine: those of the core schedulers in its yards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from copy import copy
from itertools import islice
from typing import TYPE_CHECKING, Final

from taskyard_server.core.schedule import CatchUp, Schedule, ScheduleSpec, Trigger
from taskyard_server.core.schedules import Schedules
from taskyard_server.core.triggers import Place

from .schedule_port import TriggerFilter, TriggerListener, TriggerPage

if TYPE_CHECKING:
    from .clock import Clock
    from .yard import Yard

SCAN: Final = 2_000
"""So many triggers a listing walks before others get their turn."""
MISSED_AT_ONCE: Final = 50
TIMES_A_TURN: Final = 100
"""So many due times are worked out before others get their turn."""


class MemorySchedules:
    """Implements `schedule_port.SchedulePort`.

    `enter` gives a namespace's yard, `existing` one where something is sought, which it names when there is none; both
    note that the yard is touched.
    """

    def __init__(
        self,
        yards: Mapping[str, Yard],
        enter: Callable[[str], Yard],
        existing: Callable[[str, str], Yard],
        clock: Clock,
        wall: Clock,
    ) -> None:
        self._yards = yards
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
        yard = self._yards.get(namespace)
        return yard.scheduler.schedules.after(after) if yard else []

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
        schedules.advance(self._clock(), MISSED_AT_ONCE)
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
            if len(times) % TIMES_A_TURN == 0:
                await asyncio.sleep(0)
        return times

    async def get_trigger(self, namespace: str, trigger_id: str) -> Trigger:
        return self._existing(namespace, "trigger").scheduler.schedules.get_trigger(trigger_id)

    async def list_triggers(
        self, namespace: str, wanted: TriggerFilter, before: Place | None, limit: int
    ) -> TriggerPage:
        yard = self._yards.get(namespace)
        found: list[Trigger] = []
        latest = (wanted.due_before, 0)
        before = latest if before is None else min(before, latest)
        while yard is not None:
            walked = list(islice(yard.scheduler.schedules.triggers_before(before, wanted.schedule_id), SCAN))
            for trigger in walked:
                if trigger.due_at < wanted.due_from:
                    return TriggerPage(found, None)
                if wanted.states is None or trigger.state in wanted.states:
                    if len(found) == limit:
                        return TriggerPage(found, (found[-1].due_at, found[-1].number))
                    found.append(copy(trigger))
            if len(walked) < SCAN:
                break
            before = (walked[-1].due_at, walked[-1].number)
            await asyncio.sleep(0)
        return TriggerPage(found, None)

    def subscribe(self, listener: TriggerListener) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def of(self, yard: Yard) -> Schedules:
        """The schedules of a yard, which know how the wall clock stands."""
        schedules = yard.scheduler.schedules
        schedules.note_wall(self._clock(), self._wall())
        return schedules
