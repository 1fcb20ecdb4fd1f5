"""Moves all times of the steady clock in what was stored, after an operator accepted that the clock was ahead.

Due times of cron are those of the wall clock, and stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from taskyard_server.core.schedules.processed_times import TimeRange

if TYPE_CHECKING:
    from taskyard_server.core.history import History
    from taskyard_server.core.operations.operation import Operation
    from taskyard_server.core.schedules.schedule import Schedule, Trigger

    from .records.records import StateRecord, TaskRecord


def shift_task(record: TaskRecord, by: float) -> None:
    """Move the times of what never changes."""
    record.created_at += by
    record.deadline = _moved(record.deadline, by)
    options = record.options
    if options is not None and options.not_before is not None:
        record.options = options._replace(not_before=options.not_before + by)


def shift_state(record: StateRecord, by: float) -> None:
    """Move the times of what changes."""
    record.queued_at += by
    record.deadline = _moved(record.deadline, by)
    record.started_at = _moved(record.started_at, by)
    record.completed_at = _moved(record.completed_at, by)
    if record.history is not None:
        record.history = _history(record.history, by)
    if record.held is not None:
        record.held.claimed_at += by
        record.held.started_at = _moved(record.held.started_at, by)


def shift_schedule(schedule: Schedule, by: float) -> None:
    """Move the times of a schedule that are on the steady clock."""
    schedule.created_at += by
    schedule.updated_at += by
    schedule.last_fired_at = _moved(schedule.last_fired_at, by)
    if not schedule.spec.cadence.by_wall:
        schedule.since += by
        schedule.next_due = _moved(schedule.next_due, by)
        schedule.resumed_at = _moved(schedule.resumed_at, by)
        schedule.processed_times = tuple(
            [TimeRange(each.first + by, each.until + by) for each in schedule.processed_times]
        )


def shift_trigger(trigger: Trigger, by: float) -> None:
    """Move the times of a trigger that are on the steady clock."""
    trigger.fired_at = _moved(trigger.fired_at, by)
    trigger.ended_at = _moved(trigger.ended_at, by)
    if not trigger.schedule.spec.cadence.by_wall:
        trigger.due_at += by


def shift_operation(operation: Operation, by: float) -> None:
    """Move the times of an operation; those that its filter names stay as they were asked for."""
    operation.created_at += by
    operation.ended_at = _moved(operation.ended_at, by)


def _history(history: History, by: float) -> History:
    attempts = tuple(
        [
            each._replace(started_at=_moved(each.started_at, by), ended_at=_moved(each.ended_at, by))
            for each in history.attempts
        ]
    )
    bound = tuple([each._replace(at=each.at + by) for each in history.bound])
    park = history.park
    if park is not None:
        waits = tuple([wait._replace(until=_moved(wait.until, by)) for wait in park.waits])
        park = park._replace(since=park.since + by, waits=waits)
    return history._replace(attempts=attempts, not_before=_moved(history.not_before, by), bound=bound, park=park)


def _moved(at: float | None, by: float) -> float | None:
    return None if at is None else at + by
