"""Whose turn it is among the triggers that wait for a place: fair by schedule, as the queue of tasks is by agent."""

from __future__ import annotations

from bisect import bisect_left, insort

from .schedule import Schedule, Trigger


class TriggerQueue:
    """TriggerStore that may fire as soon as a place is free.

    The schedule of which the fewest execute is next, with its trigger that was due first; of equal ones the schedule
    whose trigger was due first. So none that fires often keeps the others from their turn.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[int, float, int, Schedule]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def next(self) -> Trigger:
        """The trigger whose turn it is; there must be one."""
        return self._waiting[0][3].ready[0][2]

    def add(self, trigger: Trigger) -> None:
        """A trigger waits for its turn."""
        schedule = trigger.schedule
        self._leave(schedule)
        insort(schedule.ready, (trigger.due_at, trigger.number, trigger))
        self._stand(schedule)

    def remove(self, trigger: Trigger) -> None:
        """A trigger that was added waits no longer."""
        schedule = trigger.schedule
        self._leave(schedule)
        del schedule.ready[bisect_left(schedule.ready, (trigger.due_at, trigger.number))]
        self._stand(schedule)

    def count(self, schedule: Schedule, change: int) -> None:
        """So many more triggers of a schedule execute."""
        self._leave(schedule)
        schedule.executing += change
        self._stand(schedule)

    def _leave(self, schedule: Schedule) -> None:
        if schedule.ready:
            due_at, number, _ = schedule.ready[0]
            del self._waiting[bisect_left(self._waiting, (schedule.executing, due_at, number))]

    def _stand(self, schedule: Schedule) -> None:
        if schedule.ready:
            due_at, number, _ = schedule.ready[0]
            insort(self._waiting, (schedule.executing, due_at, number, schedule))
