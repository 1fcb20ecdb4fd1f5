"""Schedules and triggers converted between messages and the core. Invalid input raises a refusal naming the field."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from taskyard.v1 import schedule_pb2 as pb
from taskyard.v1.task_pb2 import SubmitTaskRequest, Task
from taskyard_server.cadence import Cron, Every, Once, check_zone, parse_cron, parse_interval
from taskyard_server.core.errors import BadRequest
from taskyard_server.core.names import Names
from taskyard_server.core.schedules.schedule import (
    DEFAULT_CATCH_UP_WINDOW_SECS,
    Cadence,
    CatchUp,
    Overlap,
    Schedule,
    ScheduleSpec,
    Trigger,
    TriggerState,
)
from taskyard_server.core.task import Submission

from . import requests
from .history import policy_message
from .submissions import DefaultRetry, submission
from .task_encoding import encode_options
from .timestamps import timestamp

TemplateReader: TypeAlias = Callable[[pb.TaskTemplate], tuple[Submission, float | None]]
"""Converts a template to a submission and the seconds from submission to the deadline of each task."""

SCHEDULE_ID: Final = re.compile("[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")
DEFAULT_ZONE: Final = "UTC"
CADENCES: Final = ("cron", "interval", "at")
REPLACEABLE: Final = frozenset(
    {*CADENCES, "display_name", "time_zone", "task", "overlap", "catch_up", "catch_up_window_secs"}
)
TRIGGER_STATES: Final = {state: pb.Trigger.State.Value(state.value) for state in TriggerState}
OVERLAPS: Final = {pb.Overlap.Policy.Value(policy.value): policy for policy in Overlap}
TEMPLATE_FIELDS: Final = frozenset(pb.TaskTemplate.DESCRIPTOR.fields_by_name)
CATCH_UPS: Final = {pb.CatchUp.Policy.Value(policy.value): policy for policy in CatchUp}


def template_reader(max_payload_bytes: int, default_retry: DefaultRetry) -> TemplateReader:
    """A reader that applies the rules of SubmitTask to templates."""

    def read(template: pb.TaskTemplate) -> tuple[Submission, float | None]:
        fields = {field.name: value for field, value in template.ListFields()}
        deadline_secs = fields.pop("deadline_secs", None)
        if deadline_secs == 0:
            raise BadRequest("task.deadlineSecs: must be at least 1")
        request = SubmitTaskRequest(**fields)
        made = submission(
            request,
            request.agent_id,
            request.callback_url,
            None,
            max_payload_bytes,
            default_retry,
            prefix="task.",
            owner_prefix="task.",
        )
        if request.HasField("params"):
            # Equal templates must have equal params for a repeated create to be recognized.
            made = made._replace(params=request.params.SerializeToString(deterministic=True))
        return made, deadline_secs

    return read


def schedule_id(requested: str) -> str | None:
    """The requested id; None for the server to choose one."""
    if requested and not SCHEDULE_ID.fullmatch(requested):
        raise BadRequest("scheduleId: must be 1 to 128 letters, digits and . _ ~ -, and begin with a letter or digit")
    return requested or None


def new_spec(request: pb.CreateScheduleRequest, read_template: TemplateReader) -> ScheduleSpec:
    """The specification of a new schedule."""
    zone = _zone(request)
    cadence = _cadence(request, zone)
    if cadence is None:
        raise BadRequest("cron: a schedule needs one of cron, interval and at")
    if not request.HasField("task"):
        raise BadRequest("task: is required")
    task, deadline_secs = read_template(request.task)
    return ScheduleSpec(
        cadence=cadence,
        time_zone=zone,
        task=task,
        deadline_secs=deadline_secs,
        display_name=requests.name(request.display_name, "displayName"),
        overlap=_overlap(request),
        catch_up=catch_up_policy(request.catch_up) or CatchUp.LAST,
        catch_up_window_secs=_window(request),
    )


def changed_spec(
    request: pb.UpdateScheduleRequest, read_template: TemplateReader
) -> Callable[[ScheduleSpec], ScheduleSpec]:
    """A function that applies an update to a specification. The request is checked first."""
    fields = set(request.update_mask.paths) or {field for field in REPLACEABLE if request.HasField(field)}  # type: ignore[arg-type]
    if unknown := fields - REPLACEABLE:
        raise BadRequest(f'updateMask: "{min(unknown)[:64]}" is not a field that can be replaced')
    cadence_fields = fields.intersection(CADENCES)
    if cadence_fields and request.WhichOneof("cadence") not in cadence_fields:
        raise BadRequest(f"{min(cadence_fields)}: is required")
    if "task" in fields and not request.HasField("task"):
        raise BadRequest("task: is required")
    readers: dict[str, Callable[[], object]] = {
        "display_name": lambda: requests.name(request.display_name, "displayName"),
        "overlap": lambda: _overlap(request),
        "catch_up": lambda: catch_up_policy(request.catch_up) or CatchUp.LAST,
        "catch_up_window_secs": lambda: _window(request),
        "time_zone": lambda: _zone(request),
    }
    changes = {field: read() for field, read in readers.items() if field in fields}
    if "task" in fields:
        changes["task"], changes["deadline_secs"] = read_template(request.task)

    def change(spec: ScheduleSpec) -> ScheduleSpec:
        changed: ScheduleSpec = spec._replace(**changes)  # type: ignore[arg-type]
        cadence = _cadence(request, changed.time_zone) if cadence_fields else spec.cadence
        if isinstance(cadence, Cron) and cadence.zone != changed.time_zone:
            cadence = parse_cron(cadence.expression, changed.time_zone)
        assert cadence is not None
        return changed._replace(cadence=cadence)

    return change


def catch_up_policy(policy: pb.CatchUp.Policy.ValueType) -> CatchUp | None:
    """A catch-up policy; None if unspecified."""
    if policy and policy not in CATCH_UPS:
        raise BadRequest(f"catchUp: must be among {', '.join(CatchUp)}")
    return CATCH_UPS.get(policy)


def schedule_message(schedule: Schedule, payloads: Names | None = None) -> pb.Schedule:
    """A schedule as a message, to a caller who is shown the payloads of these agents; None is all."""
    spec = schedule.spec
    message = pb.Schedule(
        schedule_id=schedule.id,
        display_name=spec.display_name,
        time_zone=spec.time_zone,
        task=_template(spec, _is_bare(spec, payloads)),
        overlap=pb.Overlap.Policy.Value(spec.overlap.value),
        catch_up=pb.CatchUp.Policy.Value(spec.catch_up.value),
        catch_up_window_secs=spec.catch_up_window_secs,
        status=pb.Schedule.paused if schedule.paused else pb.Schedule.active,
        created_at=timestamp(schedule.created_at),
        updated_at=timestamp(schedule.updated_at),
        next_due_at=None if schedule.paused or schedule.next_due is None else timestamp(schedule.next_due),
        last_fired_at=None if schedule.last_fired_at is None else timestamp(schedule.last_fired_at),
        last_task_id=schedule.last_task_id,
    )
    match spec.cadence:
        case Cron(expression):
            message.cron = expression
        case Every(text):
            message.interval = text
        case Once(at):
            message.at.CopyFrom(timestamp(at))
    return message


def trigger_message(trigger: Trigger, payloads: Names | None = None) -> pb.Trigger:
    """A trigger as a message, to a caller who is shown the payloads of these agents; None is all."""
    reason = _pending_reason(trigger) if trigger.state is TriggerState.PENDING else trigger.reason
    if trigger.state is TriggerState.FAILED and _is_bare(trigger.schedule.spec, payloads):
        # It may be the error of the task.
        reason = None
    return pb.Trigger(
        trigger_id=trigger.id,
        schedule_id=trigger.schedule.id,
        due_at=timestamp(trigger.due_at),
        state=TRIGGER_STATES[trigger.state],
        idempotency_key=trigger.key,
        deferred_until=None if trigger.fire_at is None else timestamp(trigger.fire_at),
        fired_at=None if trigger.fired_at is None else timestamp(trigger.fired_at),
        ended_at=None if trigger.ended_at is None else timestamp(trigger.ended_at),
        task_id=trigger.task_id,
        reason=reason,
        traceparent=trigger.traceparent,
    )


def _pending_reason(trigger: Trigger) -> str:
    """Why a pending trigger has not fired."""
    waiting = trigger.schedule.waiting
    # A listing has copies of triggers.
    if waiting is not None and waiting.id == trigger.id:
        return "waits until the earlier triggers of the schedule have ended"
    if trigger.fire_at is None:
        return "waits until fewer than daemon.maxQueuedTriggers tasks of the schedule are queued"
    return "waits for room in the queue" if trigger.arrived else "spread by jitter"


def _cadence(request: pb.CreateScheduleRequest | pb.UpdateScheduleRequest, zone: str) -> Cadence | None:
    match request.WhichOneof("cadence"):
        case "cron":
            return parse_cron(request.cron, zone)
        case "interval":
            return parse_interval(request.interval)
        case "at":
            return Once(requests.seconds(request.at, "at"))
    return None


def _zone(request: pb.CreateScheduleRequest | pb.UpdateScheduleRequest) -> str:
    zone = request.time_zone or DEFAULT_ZONE
    check_zone(zone)
    return zone


def _overlap(request: pb.CreateScheduleRequest | pb.UpdateScheduleRequest) -> Overlap:
    if request.overlap and request.overlap not in OVERLAPS:
        raise BadRequest(f"overlap: must be among {', '.join(Overlap)}")
    return OVERLAPS.get(request.overlap, Overlap.SKIP)


def _window(request: pb.CreateScheduleRequest | pb.UpdateScheduleRequest) -> int:
    return request.catch_up_window_secs if request.HasField("catch_up_window_secs") else DEFAULT_CATCH_UP_WINDOW_SECS


def _is_bare(spec: ScheduleSpec, payloads: Names | None) -> bool:
    """True if a caller who is shown the payloads of these agents is not shown those of a schedule's tasks."""
    return payloads is not None and spec.task.agent_id not in payloads


def _template(spec: ScheduleSpec, bare: bool) -> pb.TaskTemplate:
    task, options = spec.task, spec.task.options
    shown = Task.FromString(encode_options(options, bare))
    message = pb.TaskTemplate(
        agent_id=task.agent_id,
        action=task.action,
        tab_id=task.tab_id,
        ref=task.ref,
        priority=task.priority or None,
        deadline_secs=None if spec.deadline_secs is None else round(spec.deadline_secs),
        retry_policy=None if options.retry is None else policy_message(options.retry),
        # The fields have the same names as those of a task.
        **{field.name: value for field, value in shown.ListFields() if field.name in TEMPLATE_FIELDS},
    )
    if task.params is not None and not bare:
        message.params.SetInParent()
        message.params.MergeFromString(task.params)
    if options.input is not None and not bare:
        message.input.MergeFromString(options.input)
    return message
