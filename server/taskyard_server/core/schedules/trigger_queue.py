"""The order in which triggers fire: fair between schedules, as the queue of tasks is between agents.

This file knows nothing of time, overlap policies or tasks.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from .schedule import Schedule, Trigger


class TriggerQueue:
    """Triggers that have arrived and not fired yet.

    The schedule with the fewest executing triggers goes first, ties to the one whose first trigger was due earliest.
    Within a schedule the trigger that was due first goes first. So a schedule that fires often does not delay others.
    A schedule with `max_queued` tasks that wait for a host fires no more until one of them is dispatched.
    """

    def __init__(self, max_queued: int) -> None:
        self._max_queued = max_queued
        self._waiting: list[tuple[int, float, int, Schedule]] = []
        # All schedules with a trigger in the queue, including those that have reached `max_queued`.
        self._schedules: dict[Schedule, None] = {}

    def __bool__(self) -> bool:
        """True if a trigger may fire."""
        return bool(self._waiting)

    @property
    def is_limited(self) -> bool:
        """True if a trigger waits only because its schedule has reached `max_queued`."""
        return len(self._schedules) > len(self._waiting)

    def set_max_queued(self, max_queued: int) -> None:
        """Put a limit in force, which may be the old one."""
        if max_queued != self._max_queued:
            schedules = list(self._schedules)
            for schedule in schedules:
                self._leave(schedule)
            self._max_queued = max_queued
            for schedule in schedules:
                self._enter(schedule)

    def next(self) -> Trigger:
        """The trigger that fires next. Call only while the queue is true."""
        return self._waiting[0][3].ready[0][2]

    def add(self, trigger: Trigger) -> None:
        """Add a trigger that has arrived."""
        schedule = trigger.schedule
        self._leave(schedule)
        insort(schedule.ready, (trigger.due_at, trigger.number, trigger))
        self._enter(schedule)

    def remove(self, trigger: Trigger) -> None:
        """Take out a trigger that was added."""
        schedule = trigger.schedule
        self._leave(schedule)
        del schedule.ready[bisect_left(schedule.ready, (trigger.due_at, trigger.number))]
        self._enter(schedule)

    def adjust_counts(self, schedule: Schedule, executing: int, queued: int) -> None:
        """Add to a schedule's counts of executing triggers and of queued tasks; both may be negative."""
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
