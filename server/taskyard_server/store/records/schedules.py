"""Schedules and triggers as records (`records.py` says what holds for all of them)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, cast

from msgspec.msgpack import Decoder

from taskyard_server.cadence import Cron, Every, Once
from taskyard_server.core.schedules.processed_times import TimeRange
from taskyard_server.core.schedules.schedule import (
    CatchUp,
    Overlap,
    Schedule,
    ScheduleSpec,
    Trigger,
    TriggerState,
)
from taskyard_server.core.task import Submission
from taskyard_server.core.task_options import TaskOptions

from .records import Record
from .tasks import encode, kept_options, read_options

if TYPE_CHECKING:
    from taskyard_server.core.schedules.schedule import Cadence


class CadenceRecord(Record):
    """A cadence: the kind, its text, and the number or the zone that goes with it."""

    kind: Literal["cron", "every", "once"]
    text: str = ""
    zone: str = ""
    number: float = 0.0


class TemplateRecord(Record):
    """The task that a schedule submits."""

    agent_id: str
    action: str
    tab_id: str | None = None
    ref: str | None = None
    params: bytes | None = None
    priority: int = 0
    options: TaskOptions | None = None


class RangeTuple(NamedTuple):
    """`TimeRange`, whose types its compiled form does not tell."""

    first: float
    until: float


class ScheduleRecord(Record):
    """A schedule with its specification."""

    id: str
    cadence: CadenceRecord
    time_zone: str
    task: TemplateRecord
    deadline_secs: float | None
    display_name: str | None
    overlap: Overlap
    catch_up: CatchUp
    catch_up_window_secs: int
    created_at: float
    updated_at: float
    since: float
    next_due: float | None
    processed_times: tuple[RangeTuple, ...]
    paused: bool
    resumed_at: float | None
    after_pause: CatchUp
    last_fired_at: float | None
    last_task_id: str | None


class TriggerRecord(Record):
    """A trigger. Its schedule may have been deleted: the id is kept here, too."""

    id: str
    schedule_number: int
    schedule_id: str
    due_at: float
    key: str
    traceparent: str
    by_call: bool
    state: TriggerState
    fired_at: float | None = None
    ended_at: float | None = None
    task_id: str | None = None
    reason: str | None = None


decode_schedule: Final = Decoder(ScheduleRecord).decode
decode_trigger: Final = Decoder(TriggerRecord).decode


def encode_schedule(schedule: Schedule) -> bytes:
    """A `ScheduleRecord`."""
    spec = schedule.spec
    task, options = spec.task, spec.task.options
    return encode(
        ScheduleRecord(
            schedule.id,
            _of_cadence(spec.cadence),
            spec.time_zone,
            TemplateRecord(
                task.agent_id,
                task.action,
                task.tab_id,
                task.ref,
                task.params,
                task.priority,
                cast("TaskOptions | None", kept_options(options)),
            ),
            spec.deadline_secs,
            spec.display_name,
            spec.overlap,
            spec.catch_up,
            spec.catch_up_window_secs,
            schedule.created_at,
            schedule.updated_at,
            schedule.since,
            schedule.next_due,
            tuple([RangeTuple(*each) for each in schedule.processed_times]),
            schedule.paused,
            schedule.resumed_at,
            schedule.after_pause,
            schedule.last_fired_at,
            schedule.last_task_id,
        )
    )


def to_schedule(record: ScheduleRecord, number: int) -> Schedule:
    """The schedule, ready for `ScheduleRegistry.restore`."""
    its = record.task
    task = Submission(
        its.agent_id, its.action, its.tab_id, its.ref, its.params, its.priority, None, read_options(its.options)
    )
    spec = ScheduleSpec(
        _to_cadence(record.cadence),
        record.time_zone,
        task,
        record.deadline_secs,
        record.display_name,
        record.overlap,
        record.catch_up,
        record.catch_up_window_secs,
    )
    schedule = Schedule(record.id, spec, record.created_at, record.since, record.next_due, record.paused)
    schedule.number = number
    schedule.updated_at = record.updated_at
    schedule.processed_times = tuple([TimeRange(*each) for each in record.processed_times])
    schedule.resumed_at = record.resumed_at
    schedule.after_pause = record.after_pause
    schedule.last_fired_at = record.last_fired_at
    schedule.last_task_id = record.last_task_id
    return schedule


def deleted_schedule(record: TriggerRecord) -> Schedule:
    """The part of a deleted schedule that a trigger still needs."""
    spec = ScheduleSpec(Once(0.0), "", Submission("", ""))
    schedule = Schedule(record.schedule_id, spec, 0.0, 0.0, None, True)
    schedule.number = record.schedule_number
    return schedule


def encode_trigger(trigger: Trigger) -> bytes:
    """A `TriggerRecord`."""
    return encode(
        TriggerRecord(
            trigger.id,
            trigger.schedule.number,
            trigger.schedule.id,
            trigger.due_at,
            trigger.key,
            trigger.traceparent,
            trigger.by_call,
            trigger.state,
            trigger.fired_at,
            trigger.ended_at,
            trigger.task_id,
            trigger.reason,
        )
    )


def to_trigger(record: TriggerRecord, number: int, schedule: Schedule) -> Trigger:
    """The trigger, ready for `ScheduleRegistry.restore_trigger`."""
    trigger = Trigger(record.id, number, schedule, record.due_at, record.key, record.traceparent, record.by_call)
    trigger.state = record.state
    trigger.fired_at = record.fired_at
    trigger.ended_at = record.ended_at
    trigger.task_id = record.task_id
    trigger.reason = record.reason
    return trigger


def _of_cadence(cadence: Cadence) -> CadenceRecord:
    if isinstance(cadence, Cron):
        return CadenceRecord("cron", cadence.expression, cadence.zone)
    if isinstance(cadence, Every):
        return CadenceRecord("every", cadence.text, number=cadence.secs)
    assert isinstance(cadence, Once), cadence
    return CadenceRecord("once", number=cadence.at)


def _to_cadence(record: CadenceRecord) -> Cadence:
    if record.kind == "cron":
        return Cron(record.text, record.zone)
    return Every(record.text, record.number) if record.kind == "every" else Once(record.number)
