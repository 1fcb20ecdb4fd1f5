"""Schedules and their triggers as the server shows them (docs/rules.md, Schedules).

The fields are those of the proto (`schedule.proto`), under the same names, as in `tasks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from taskyard.new_tasks import NewTask
from taskyard.renamed import old_seconds
from taskyard.v1 import schedule_pb2 as pb
from taskyard.values.convert import datetime_from, optional, optional_time


class Overlap(StrEnum):
    """The policy for a trigger that is due while an earlier one has not ended (docs/rules.md, Overlap)."""

    SKIP = "skip"
    """The trigger is skipped."""
    WAIT = "wait"
    """The trigger waits. At most one does; later ones are skipped."""
    ALLOW = "allow"
    """The trigger fires, and the tasks run side by side."""
    REPLACE = "replace"
    """The tasks of the earlier triggers are cancelled, and the trigger fires."""


class CatchUp(StrEnum):
    """Which missed triggers fire after the scheduler was down or the schedule was paused (docs/rules.md, Catch-up)."""

    LAST = "last"
    """The last one of each schedule."""
    ALL = "all"
    """All within the catch-up window of the schedule."""
    NONE = "none"
    """None of them."""


class TriggerState(StrEnum):
    """The state of a trigger (docs/rules.md, Triggers)."""

    PENDING = "pending"
    EXECUTING = "executing"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"

    @property
    def ended(self) -> bool:
        """True if a trigger in this state has ended. It does not change any more, even if its task is resumed."""
        return self not in (TriggerState.PENDING, TriggerState.EXECUTING)


OVERLAP_OF_NUMBER: Final = {pb.Overlap.Policy.Value(policy.value): policy for policy in Overlap}
CATCH_UP_OF_NUMBER: Final = {pb.CatchUp.Policy.Value(policy.value): policy for policy in CatchUp}
STATE_OF_NUMBER: Final = {pb.Trigger.State.Value(state.value): state for state in TriggerState}


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as it was when the server answered. Exactly one of `cron`, `interval` and `at` is set.

    Attributes:
        id: The schedule's id.
        task: The task that it submits each time.
        time_zone: The IANA time zone in which `cron` is read.
        overlap: What happens when a trigger is due while an earlier one has not ended.
        catch_up: Which missed triggers fire.
        catch_up_window: How far back `CatchUp.ALL` goes.
        paused: Whether it is paused.
        created_at: When it was created.
        updated_at: When it was changed last.
        cron: The five cron fields.
        interval: The interval, such as `10m`.
        at: The one time at which it is due.
        display_name: A name for people.
        next_due_at: When it is due next. None while it is paused, and when no time is left.
        last_fired_at: When it fired last. None until it first does.
        last_task_id: The task that it submitted last. None until it first does.
    """

    id: str
    task: NewTask
    time_zone: str
    overlap: Overlap
    catch_up: CatchUp
    catch_up_window: timedelta
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

    catch_up_window_secs = old_seconds("Schedule.catch_up_window_secs", "catch_up_window")

    @classmethod
    def from_message(cls, message: pb.Schedule) -> Schedule:
        """Convert a message.

        Args:
            message: The schedule as the server sends it.

        Returns:
            The schedule.
        """
        return cls(
            id=message.schedule_id,
            task=NewTask.from_template(message.task),
            time_zone=message.time_zone,
            overlap=OVERLAP_OF_NUMBER[message.overlap],
            catch_up=CATCH_UP_OF_NUMBER[message.catch_up],
            catch_up_window=timedelta(seconds=message.catch_up_window_secs),
            paused=message.status == pb.Schedule.paused,
            created_at=datetime_from(message.created_at),
            updated_at=datetime_from(message.updated_at),
            cron=optional(message, "cron"),
            interval=optional(message, "interval"),
            at=optional_time(message, "at"),
            display_name=optional(message, "display_name"),
            next_due_at=optional_time(message, "next_due_at"),
            last_fired_at=optional_time(message, "last_fired_at"),
            last_task_id=optional(message, "last_task_id"),
        )


@dataclass(frozen=True, slots=True)
class Trigger:
    """One trigger of a schedule as it was when the server answered (docs/rules.md, Triggers).

    Attributes:
        id: The trigger's id.
        schedule_id: The schedule.
        due_at: When it was due.
        state: Its state.
        idempotency_key: The key under which it was made.
        deferred_until: When it fires at the earliest, while jitter or a full queue defers it.
        fired_at: When it fired.
        ended_at: When it ended.
        task_id: The task that it submitted. None before it fires, and if it does not.
        reason: Why it failed or was skipped.
        traceparent: The W3C trace context of its task.
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
        """Convert a message.

        Args:
            message: The trigger as the server sends it.

        Returns:
            The trigger.
        """
        return cls(
            id=message.trigger_id,
            schedule_id=message.schedule_id,
            due_at=datetime_from(message.due_at),
            state=STATE_OF_NUMBER[message.state],
            idempotency_key=message.idempotency_key,
            deferred_until=optional_time(message, "deferred_until"),
            fired_at=optional_time(message, "fired_at"),
            ended_at=optional_time(message, "ended_at"),
            task_id=optional(message, "task_id"),
            reason=optional(message, "reason"),
            traceparent=optional(message, "traceparent"),
        )
