"""Schedules and their triggers as callers see them: tasks that submit themselves, and each time they did.

The fields are those of the proto (`schedule.proto`), under the same names, as in `tasks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from taskyard.v1 import schedule_pb2 as pb

from .tasks import NewTask
from .values import datetime_from, given, given_time


class Overlap(StrEnum):
    """What happens when a trigger is due while one before it has not ended."""

    SKIP = "skip"
    """The trigger is skipped."""
    WAIT = "wait"
    """The trigger waits; one at most does, later ones are skipped."""
    ALLOW = "allow"
    """The trigger fires, and the tasks run side by side."""
    REPLACE = "replace"
    """The tasks of those before it are cancelled, and the trigger fires."""


class CatchUp(StrEnum):
    """Which triggers fire of those that came due while the scheduler was not running, or the schedule was paused."""

    LAST = "last"
    """The last one of each schedule."""
    ALL = "all"
    """All within the schedule's catch-up window."""
    NONE = "none"
    """None of them."""


class TriggerState(StrEnum):
    """Where a trigger stands (scheduler-daemon, State Flow)."""

    PENDING = "pending"
    EXECUTING = "executing"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"

    @property
    def ended(self) -> bool:
        """Whether a trigger in this state has ended. It then stays as it is, even if its task is resumed."""
        return self not in (TriggerState.PENDING, TriggerState.EXECUTING)


OVERLAP_OF_NUMBER: Final = {pb.Overlap.Policy.Value(policy.value): policy for policy in Overlap}
CATCH_UP_OF_NUMBER: Final = {pb.CatchUp.Policy.Value(policy.value): policy for policy in CatchUp}
STATE_OF_NUMBER: Final = {pb.Trigger.State.Value(state.value): state for state in TriggerState}


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as it stood when the server answered. One of `cron`, `interval` and `at` says when it is due.

    `task` is what it submits each time. `catch_up_window_secs` is how far back `CatchUp.ALL` looks. `next_due_at` is
    None while it is paused and when no time is left; `last_fired_at` and `last_task_id` are until it first fires.
    """

    id: str
    task: NewTask
    time_zone: str
    overlap: Overlap
    catch_up: CatchUp
    catch_up_window_secs: int
    paused: bool
    created_at: datetime
    updated_at: datetime
    cron: str | None = None
    interval: str | None = None
    at: datetime | None = None
    display_name: str | None = None
    next_due_at: datetime | None = None
    last_fired_at: datetime | None = None
    last_task_id: str | None = None

    @classmethod
    def from_message(cls, message: pb.Schedule) -> Schedule:
        """The schedule as the server tells it."""
        return cls(
            id=message.schedule_id,
            task=NewTask.from_template(message.task),
            time_zone=message.time_zone,
            overlap=OVERLAP_OF_NUMBER[message.overlap],
            catch_up=CATCH_UP_OF_NUMBER[message.catch_up],
            catch_up_window_secs=message.catch_up_window_secs,
            paused=message.status == pb.Schedule.paused,
            created_at=datetime_from(message.created_at),
            updated_at=datetime_from(message.updated_at),
            cron=given(message, "cron"),
            interval=given(message, "interval"),
            at=given_time(message, "at"),
            display_name=given(message, "display_name"),
            next_due_at=given_time(message, "next_due_at"),
            last_fired_at=given_time(message, "last_fired_at"),
            last_task_id=given(message, "last_task_id"),
        )


@dataclass(frozen=True, slots=True)
class Trigger:
    """One firing of a schedule as it stood when the server answered (scheduler-daemon, Trigger Lifecycle).

    `deferred_until` is when it fires at the soonest, while jitter or a full queue puts it off. `task_id` is the task
    that it submitted, None before it fired and where it never did. `reason` says why it failed or was skipped.
    """

    id: str
    schedule_id: str
    due_at: datetime
    state: TriggerState
    idempotency_key: str
    deferred_until: datetime | None = None
    fired_at: datetime | None = None
    ended_at: datetime | None = None
    task_id: str | None = None
    reason: str | None = None
    traceparent: str | None = None

    @classmethod
    def from_message(cls, message: pb.Trigger) -> Trigger:
        """The trigger as the server tells it."""
        return cls(
            id=message.trigger_id,
            schedule_id=message.schedule_id,
            due_at=datetime_from(message.due_at),
            state=STATE_OF_NUMBER[message.state],
            idempotency_key=message.idempotency_key,
            deferred_until=given_time(message, "deferred_until"),
            fired_at=given_time(message, "fired_at"),
            ended_at=given_time(message, "ended_at"),
            task_id=given(message, "task_id"),
            reason=given(message, "reason"),
            traceparent=given(message, "traceparent"),
        )
