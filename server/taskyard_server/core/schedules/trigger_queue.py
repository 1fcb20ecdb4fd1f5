"""Which trigger fires next: fair by schedule, as the queue of tasks is by agent."""

from __future__ import annotations

from bisect import bisect_left, insort

from .schedule import Schedule, Trigger


class TriggerQueue:
    """Triggers that have arrived and not fired yet.

    Next is the schedule of which the fewest triggers execute, with its trigger that was due first; of equal ones the
    schedule whose trigger was due first. So a schedule that fires often does not keep the others waiting. A schedule of
    which `max_queued` tasks wait to be handed out fires no more until one was: they may wait for a host in vain.
    """

    def __init__(self, max_queued: int) -> None:
        self._max_queued = max_queued
        self._waiting: list[tuple[int, float, int, Schedule]] = []
        # The schedules with triggers that have arrived, also those that may not fire now.
        self._schedules: dict[Schedule, None] = {}

    def __bool__(self) -> bool:
        """Whether a trigger may fire."""
        return bool(self._waiting)

    @property
    def is_held_up(self) -> bool:
        """Whether triggers wait only because too many tasks of their schedule are queued."""
        return len(self._schedules) > len(self._waiting)

    def set_max_queued(self, most: int) -> None:
        """The limit has changed, perhaps."""
        if most != self._max_queued:
            schedules = list(self._schedules)
            for schedule in schedules:
                self._leave(schedule)
            self._max_queued = most
            for schedule in schedules:
                self._enter(schedule)

    def next(self) -> Trigger:
        """The trigger that fires next; there must be one."""
        return self._waiting[0][3].ready[0][2]

    def add(self, trigger: Trigger) -> None:
        """A trigger has arrived."""
        schedule = trigger.schedule
        self._leave(schedule)
        insort(schedule.ready, (trigger.due_at, trigger.number, trigger))
        self._enter(schedule)

    def remove(self, trigger: Trigger) -> None:
        """A trigger that was added waits no longer."""
        schedule = trigger.schedule
        self._leave(schedule)
        del schedule.ready[bisect_left(schedule.ready, (trigger.due_at, trigger.number))]
        self._enter(schedule)

    def count(self, schedule: Schedule, executing: int, queued: int) -> None:
        """Of a schedule that many more triggers execute, and that many more of their tasks are queued."""
        self._leave(schedule)
        schedule.executing += executing
        schedule.queued += queued
        self._enter(schedule)

    def _leave(self, schedule: Schedule) -> None:
        if self._schedules.pop(schedule, schedule) is None and schedule.queued < self._max_queued:
            due_at, number, _ = schedule.ready[0]
            del self._waiting[bisect_left(self._waiting, (schedule.executing, due_at, number))]

    def _enter(self, schedule: Schedule) -> None:
        if schedule.ready:
            self._schedules[schedule] = None
            if schedule.queued < self._max_queued:
                due_at, number, _ = schedule.ready[0]
                insort(self._waiting, (schedule.executing, due_at, number, schedule))
