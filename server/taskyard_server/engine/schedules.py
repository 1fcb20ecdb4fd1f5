"""Schedules and triggers of the embedded engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import copy
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from taskyard_server.core.schedules.registry import ScheduleRegistry
from taskyard_server.core.schedules.schedule import CatchUp, Schedule, ScheduleSpec, Trigger
from taskyard_server.core.schedules.trigger_store import PageKey

from .listeners import TriggerListener
from .views import TriggerFilter, TriggerPage

if TYPE_CHECKING:
    from .namespace import NamespaceState
    from .namespaces import Namespaces

T = TypeVar("T")

MAX_SCANNED_PER_TURN: Final = 2_000
"""Maximum triggers that a listing scans per turn of the event loop."""
MAX_MISSED_PER_RESUME: Final = 50
"""Maximum missed due times that a resume processes before it returns."""
MAX_TIMES_PER_TURN: Final = 100
"""Maximum due times that a preview computes per turn of the event loop."""


class ScheduleCommands:
    """Commands on schedules, and their triggers."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._now = namespaces.now
        self._barrier = namespaces.barrier

    async def create(
        self,
        namespace: str,
        schedule_id: str | None,
        spec: ScheduleSpec,
        paused: bool = False,
        *,
        show: Callable[[Schedule], T],
    ) -> T:
        """Create a schedule. Creating an identical one again returns the first.

        Raises `AlreadyExists`, `BadRequest` for a due time that has passed, and `Unavailable` while the engine drains.
        """
        self._namespaces.require_room()
        state = self._namespaces.get_or_create(namespace)
        schedules = self._registry(state)
        return await self._barrier.give(state, lambda: show(schedules.create(self._now(), schedule_id, spec, paused)))

    async def get(self, namespace: str, schedule_id: str, *, show: Callable[[Schedule], T]) -> T:
        """The schedule. Raises `NotFound`."""
        state = self._get(namespace)
        return await self._barrier.give(state, lambda: show(state.scheduler.schedules.get(schedule_id)))

    async def list_schedules(self, namespace: str, after: int, *, show: Callable[[list[Schedule]], T]) -> T:
        """The schedules with a number above `after`, in order of creation."""
        state = self._namespaces.find(namespace)
        if state is None:
            return show([])
        return await self._barrier.give(state, lambda: show(state.scheduler.schedules.after(after)))

    async def update(
        self,
        namespace: str,
        schedule_id: str,
        change: Callable[[ScheduleSpec], ScheduleSpec],
        *,
        show: Callable[[Schedule], T],
    ) -> T:
        """Replace the specification of a schedule by what `change` returns for it. Raises `NotFound`, `BadRequest`."""
        state = self._get(namespace)
        schedules = self._registry(state)

        def command() -> T:
            return show(schedules.update(self._now(), schedule_id, change(schedules.get(schedule_id).spec)))

        return await self._barrier.give(state, command)

    async def delete(self, namespace: str, schedule_id: str) -> None:
        """Remove a schedule and its triggers that have not fired. Raises `NotFound`."""
        state = self._get(namespace)
        schedules = self._registry(state)
        await self._barrier.give(state, lambda: schedules.delete(schedule_id))

    async def pause(self, namespace: str, schedule_id: str, *, show: Callable[[Schedule], T]) -> T:
        """Stop a schedule from coming due. Raises `NotFound`."""
        state = self._get(namespace)
        schedules = self._registry(state)
        return await self._barrier.give(state, lambda: show(schedules.pause(self._now(), schedule_id)))

    async def resume(self, namespace: str, schedule_id: str, catch_up: CatchUp, *, show: Callable[[Schedule], T]) -> T:
        """Resume a paused schedule, and handle its missed due times by `catch_up`. Raises `NotFound`."""
        state = self._get(namespace)
        schedules = self._registry(state)

        def command() -> T:
            schedule = schedules.resume(self._now(), schedule_id, catch_up)
            # Missed times are processed now, so that the schedule is shown with a future due time.
            schedules.advance(self._now(), MAX_MISSED_PER_RESUME)
            return show(schedule)

        return await self._barrier.give(state, command)

    async def trigger(
        self,
        namespace: str,
        schedule_id: str,
        key: str | None,
        traceparent: str | None,
        *,
        show: Callable[[Trigger], T],
    ) -> T:
        """Create a trigger that is due now. Raises `NotFound`, and `Unavailable` while the engine drains."""
        state = self._get(namespace)
        schedules = self._registry(state)
        return await self._barrier.give(
            state, lambda: show(schedules.trigger(self._now(), schedule_id, key, traceparent))
        )

    async def preview(self, namespace: str, schedule_id: str, count: int, after: float | None) -> list[float]:
        """The next `count` due times, after `after` or now. Raises `NotFound`."""
        state = self._get(namespace)
        schedules = self._registry(state)
        schedule = await self._barrier.give(state, lambda: schedules.get(schedule_id))
        cadence, since = schedule.spec.cadence, schedule.since
        at: float | None = schedules.clock_of(schedule, self._now()) if after is None else after
        times: list[float] = []
        while at is not None and len(times) < count:
            at = cadence.next_after(at, since)
            if at is not None:
                times.append(at)
            if len(times) % MAX_TIMES_PER_TURN == 0:
                await asyncio.sleep(0)
        return times

    async def get_trigger(self, namespace: str, trigger_id: str, *, show: Callable[[Trigger], T]) -> T:
        """The trigger. Raises `NotFound`."""
        state = self._namespaces.get_for_command(namespace, "trigger")
        return await self._barrier.give(state, lambda: show(state.scheduler.schedules.get_trigger(trigger_id)))

    async def list_triggers(
        self, namespace: str, trigger_filter: TriggerFilter, before: PageKey | None, limit: int
    ) -> TriggerPage:
        """Up to `limit` matching triggers before the position `before`, as copies."""
        state = self._namespaces.find(namespace)
        if state is None:
            return TriggerPage([], None)
        page = await self._list_triggers(state, trigger_filter, before, limit)
        return await self._barrier.of(state, page)

    def subscribe(self, listener: TriggerListener) -> Callable[[], None]:
        """Call a listener with all trigger events from now on. Returns a function that removes the listener."""
        listeners = self._namespaces.driver.trigger_listeners
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    def _get(self, namespace: str) -> NamespaceState:
        return self._namespaces.get_for_command(namespace, "schedule")

    def _registry(self, state: NamespaceState) -> ScheduleRegistry:
        """The schedules of a namespace, after passing them the current wall time."""
        self._namespaces.driver.note_wall(state)
        return state.scheduler.schedules

    async def _list_triggers(
        self, state: NamespaceState, trigger_filter: TriggerFilter, before: PageKey | None, limit: int
    ) -> TriggerPage:
        matches: list[Trigger] = []
        latest = (trigger_filter.due_before, 0)
        before = latest if before is None else min(before, latest)
        while True:
            scanned = list(
                islice(
                    state.scheduler.schedules.triggers_before(before, trigger_filter.schedule_id), MAX_SCANNED_PER_TURN
                )
            )
            for trigger in scanned:
                if trigger.due_at < trigger_filter.due_from:
                    return TriggerPage(matches, None)
                if trigger_filter.states is None or trigger.state in trigger_filter.states:
                    if len(matches) == limit:
                        return TriggerPage(matches, (matches[-1].due_at, matches[-1].number))
                    matches.append(copy(trigger))
            if len(scanned) < MAX_SCANNED_PER_TURN:
                return TriggerPage(matches, None)
            before = (scanned[-1].due_at, scanned[-1].number)
            await asyncio.sleep(0)
