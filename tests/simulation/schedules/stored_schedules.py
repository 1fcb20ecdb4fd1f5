"""What a durable engine would have of schedules and triggers after its process ended: the fields that it must keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from taskyard_server.core.lifecycle import Lifecycle
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.schedules.registry import ScheduleRegistry
from taskyard_server.core.schedules.schedule import Schedule, Trigger, TriggerState

OF_A_SCHEDULE: Final = (
    "number",
    "updated_at",
    "processed_times",
    "resumed_at",
    "after_pause",
    "last_fired_at",
    "last_task_id",
)
OF_A_TRIGGER: Final = ("state", "fired_at", "ended_at", "task_id", "reason")


class Kept:
    """Copies of all records of a scheduler, made when it ends; `ended` are the ids of ended triggers, oldest first.

    `lost` is the trigger of which it is not recorded that it fired, as if the end came between the submit and that.
    """

    def __init__(self, core: Scheduler, ended: Sequence[str], lost: str | None) -> None:
        originals = list(core.schedules.triggers_before(None))
        self.schedules = [_copy_schedule(schedule) for schedule in core.schedules.after(0)]
        copies = dict(zip(core.schedules.after(0), self.schedules, strict=True))
        for trigger in originals:
            # A deleted schedule lives on in what it left.
            copies.setdefault(trigger.schedule, _copy_schedule(trigger.schedule))
        triggers = {trigger.id: _copy_trigger(trigger, copies[trigger.schedule]) for trigger in originals}
        if lost is not None:
            trigger = triggers[lost]
            trigger.state, trigger.fired_at, trigger.task_id = TriggerState.PENDING, None, None
        live = [trigger for trigger in triggers.values() if trigger.ended_at is None]
        self.triggers = [*live, *(triggers[each] for each in ended)]

    def restore(self, schedules: ScheduleRegistry) -> None:
        """Give all of it to new ones."""
        for schedule in self.schedules:
            schedules.restore(schedule)
        for trigger in self.triggers:
            schedules.restore_trigger(trigger)


def let_go_of(life: Lifecycle, schedules: ScheduleRegistry) -> None:
    """The tasks forget the schedules that were, as if they had been read back without them."""
    life.timers._queues = [kind for kind in life.timers._queues if kind[1] is not schedules._dispatcher._delays]
    life.triggered.triggers = {}


def _copy_schedule(its: Schedule) -> Schedule:
    copy = Schedule(its.id, its.spec, its.created_at, its.since, its.next_due, its.paused)
    for name in OF_A_SCHEDULE:
        setattr(copy, name, getattr(its, name))
    return copy


def _copy_trigger(its: Trigger, schedule: Schedule) -> Trigger:
    copy = Trigger(its.id, its.number, schedule, its.due_at, its.key, its.traceparent, its.by_call)
    for name in OF_A_TRIGGER:
        setattr(copy, name, getattr(its, name))
    return copy
