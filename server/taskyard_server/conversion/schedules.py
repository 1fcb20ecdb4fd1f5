"""Schedules and triggers between the API and the core. What is wrong raises a refusal that names the field."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from taskyard.v1 import schedule_pb2 as pb
from taskyard.v1.task_pb2 import SubmitTaskRequest
from taskyard_server.cadence import Cron, Every, Once, check_zone, parse_cron, parse_interval
from taskyard_server.core.errors import BadRequest
from taskyard_server.core.schedules.schedule import (
    DEFAULT_WINDOW_SECS,
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
from .timestamps import timestamp

TemplateReader: TypeAlias = Callable[[pb.TaskTemplate], tuple[Submission, float | None]]
"""Makes of a template what is submitted, and the seconds until the deadline of each task."""

SCHEDULE_ID: Final = re.compile("[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")
DEFAULT_ZONE: Final = "UTC"
CADENCES: Final = ("cron", "interval", "at")
REPLACEABLE: Final = frozenset(
    {*CADENCES, "display_name", "time_zone", "task", "overlap", "catch_up", "catch_up_window_secs"}
)
TRIGGER_STATES: Final = {state: pb.Trigger.State.Value(state.value) for state in TriggerState}
OVERLAPS: Final = {pb.Overlap.Policy.Value(policy.value): policy for policy in Overlap}
CATCH_UPS: Final = {pb.CatchUp.Policy.Value(policy.value): policy for policy in CatchUp}


def template_reader(max_payload_bytes: int, default_retry: requests.DefaultRetry) -> TemplateReader:
    """Reads templates as SubmitTask reads its requests."""

    def read(template: pb.TaskTemplate) -> tuple[Submission, float | None]:
        given = {field.name: value for field, value in template.ListFields()}
        secs = given.pop("deadline_secs", None)
        if secs == 0:
            raise BadRequest("task.deadlineSecs: must be at least 1")
        asked = SubmitTaskRequest(**given)
        submission = requests.submission(
            asked,
            asked.agent_id,
            asked.callback_url,
            None,
            max_payload_bytes,
            default_retry,
            at="task.",
            owner_at="task.",
        )
        if asked.HasField("params"):
            # Equal templates are equal bytes.
            submission = submission._replace(params=asked.params.SerializeToString(deterministic=True))
        return submission, secs

    return read


def schedule_id(given: str) -> str | None:
    """The id that a caller chose, None where the server is to."""
    if given and not SCHEDULE_ID.fullmatch(given):
        raise BadRequest("scheduleId: must be 1 to 128 letters, digits and . _ ~ -, and begin with a letter or digit")
    return given or None


def new_spec(request: pb.CreateScheduleRequest, read_template: TemplateReader) -> ScheduleSpec:
    """What a new schedule shall do."""
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
    """What an update makes of what a schedule does."""
    named = set(request.update_mask.paths) or {name for name in REPLACEABLE if request.HasField(name)}  # type: ignore[arg-type]
    if unknown := named - REPLACEABLE:
        raise BadRequest(f'updateMask: "{min(unknown)[:64]}" is not a field that can be replaced')
    kinds = named.intersection(CADENCES)
    if kinds and request.WhichOneof("cadence") not in kinds:
        raise BadRequest(f"{min(kinds)}: is required")
    if "task" in named and not request.HasField("task"):
        raise BadRequest("task: is required")
    readers: dict[str, Callable[[], object]] = {
        "display_name": lambda: requests.name(request.display_name, "displayName"),
        "overlap": lambda: _overlap(request),
        "catch_up": lambda: catch_up_policy(request.catch_up) or CatchUp.LAST,
        "catch_up_window_secs": lambda: _window(request),
        "time_zone": lambda: _zone(request),
    }
    changes = {name: read() for name, read in readers.items() if name in named}
    if "task" in named:
        changes["task"], changes["deadline_secs"] = read_template(request.task)

    def change(spec: ScheduleSpec) -> ScheduleSpec:
        changed: ScheduleSpec = spec._replace(**changes)  # type: ignore[arg-type]
        cadence = _cadence(request, changed.time_zone) if kinds else spec.cadence
        if isinstance(cadence, Cron) and cadence.zone != changed.time_zone:
            cadence = parse_cron(cadence.expression, changed.time_zone)
        assert cadence is not None
        return changed._replace(cadence=cadence)

    return change


def catch_up_policy(given: pb.CatchUp.Policy.ValueType) -> CatchUp | None:
    """A catch-up policy, None for the default."""
    if given and given not in CATCH_UPS:
        raise BadRequest(f"catchUp: must be among {', '.join(CatchUp)}")
    return CATCH_UPS.get(given)


def schedule_message(schedule: Schedule) -> pb.Schedule:
    """The whole schedule."""
    spec = schedule.spec
    message = pb.Schedule(
        schedule_id=schedule.id,
        display_name=spec.display_name,
        time_zone=spec.time_zone,
        task=_template(spec),
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


def trigger_message(trigger: Trigger) -> pb.Trigger:
    """The whole trigger."""
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
        reason=_waits_for(trigger) if trigger.state is TriggerState.PENDING else trigger.reason,
        traceparent=trigger.traceparent,
    )


def _waits_for(trigger: Trigger) -> str:
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
    return request.catch_up_window_secs if request.HasField("catch_up_window_secs") else DEFAULT_WINDOW_SECS


def _template(spec: ScheduleSpec) -> pb.TaskTemplate:
    task = spec.task
    options = task.options
    message = pb.TaskTemplate(
        agent_id=task.agent_id,
        action=task.action,
        tab_id=task.tab_id,
        ref=task.ref,
        priority=task.priority or None,
        deadline_secs=None if spec.deadline_secs is None else round(spec.deadline_secs),
        callback_url=options.callback_url,
        project=options.project,
        requires=sorted(options.requires),
        labels=dict(options.labels),
        target=options.target,
        token_limit=options.token_limit,
        retry_policy=None if options.retry is None else policy_message(options.retry),
    )
    if task.params is not None:
        message.params.SetInParent()
        message.params.MergeFromString(task.params)
    return message
