"""The core's terms into answers. Times have microseconds; a field that does not apply stays unset."""

from typing import Any, Final

from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import lease_pb2
from taskyard.v1 import task_pb2 as pb
from taskyard_server.core.errors import Refusal
from taskyard_server.core.events import Event, EventKind
from taskyard_server.core.history import NO_HISTORY, Attempt, RetryPolicy
from taskyard_server.core.leases import Lease
from taskyard_server.core.task import IN_FLIGHT, TERMINAL, Task, TaskState

MAX_PAGE_BYTES: Final = 3_000_000
"""Clients take messages of up to 4 MiB by default."""
MAX_UINT32: Final = 2**32 - 1

STATES: Final = {state: pb.Task.State.Value(state.value) for state in TaskState}
KINDS: Final = {kind: pb.TaskEvent.Kind.Value(kind.value) for kind in EventKind}


def task_message(task: Task) -> pb.Task:
    """The whole task (scheduler-reference, Task Object)."""
    message = _task_as_of(task, task, task.completed_at)
    if task.params is not None:
        message.params.SetInParent()
        message.params.MergeFromString(task.params)
    if task.result is not None:
        message.result.MergeFromString(task.result)
    return message


def event_message(event: Event) -> pb.TaskEvent:
    """What happened, and the task just after it, whatever became of it since. No `params`, which never change."""
    task = event.task
    ended_at = event.at if event.state in TERMINAL else None
    message = pb.TaskEvent(
        kind=KINDS[event.kind],
        occurred_at=timestamp(event.at),
        task=_task_as_of(task, event, task.completed_at if event.kind is EventKind.EVICTED else ended_at),
    )
    if event.kind is EventKind.CHANGED and event.before is not None:
        message.previous_state = STATES[event.before]
    if event.state is TaskState.DONE and task.result is not None:
        message.task.result.MergeFromString(task.result)
    return message


def current_message(task: Task, now: float) -> pb.TaskEvent:
    """The task as it stands when a watch begins."""
    message = pb.TaskEvent(
        kind=pb.TaskEvent.current, occurred_at=timestamp(now), task=_task_as_of(task, task, task.completed_at)
    )
    if task.result is not None:
        message.task.result.MergeFromString(task.result)
    return message


def _task_as_of(task: Task, moment: Task | Event, completed_at: float | None) -> pb.Task:
    """All but the payloads: what changes is taken from `moment`, the task itself or one of its events."""
    started_at = moment.started_at
    message = pb.Task(
        task_id=task.id,
        agent_id=task.agent_id,
        action=task.action,
        tab_id=task.tab_id,
        ref=task.ref,
        priority=task.priority,
        state=STATES[moment.state],
        deadline=None if moment.deadline is None else timestamp(moment.deadline),
        created_at=timestamp(task.created_at),
        started_at=None if started_at is None else timestamp(started_at),
        completed_at=None if completed_at is None else timestamp(completed_at),
        error=moment.error,
        position=task.position,
        host_id=moment.host_id,
    )
    if started_at is not None and completed_at is not None:
        message.latency_ms = min(round((completed_at - started_at) * 1000), MAX_UINT32)
    if moment.progress is not None:
        message.progress.MergeFromString(moment.progress)
    options = task.options
    if options:
        _set(message, "callback_url", options.callback_url)
        _set(message, "project", options.project)
        _set(message, "batch_id", options.batch_id)
        _set(message, "traceparent", options.traceparent)
        if options.key is not None:
            message.idempotency_key = options.key.key
        message.requires.extend(sorted(options.requires))
        message.labels.update(options.labels)
        _set(message, "target", options.target)
        _set(message, "token_limit", options.token_limit)
        if options.retry is not None:
            message.retry_policy.CopyFrom(policy_message(options.retry))
    if moment.history is not NO_HISTORY or options.retry is not None:
        _add_history(message, task, moment)
    return message


def policy_message(policy: RetryPolicy) -> pb.RetryPolicy:
    """A retry policy with every field set."""
    return pb.RetryPolicy(
        max_attempts=policy.max_attempts,
        first_delay_ms=round(policy.first_delay_secs * 1000),
        multiplier=policy.multiplier,
        max_delay_ms=round(policy.max_delay_secs * 1000),
        non_retryable_codes=sorted(policy.non_retryable_codes),
    )


def _add_history(message: pb.Task, task: Task, moment: Task | Event) -> None:
    """What only some tasks have; the execution that is under way is the last attempt."""
    history = moment.history
    if history.held:
        message.hold = True
    if history.not_before is not None:
        message.not_before.CopyFrom(timestamp(history.not_before))
    if history.tokens_used is not None:
        message.tokens_used = min(history.tokens_used, MAX_UINT32)
    if history.run > 1:
        message.run = history.run
    attempts = history.attempts
    if moment.state in IN_FLIGHT:
        number = history.last_number + 1
        attempts = (*attempts, Attempt(number, moment.host_id, moment.attempt_started_at, None, None, None))
    if len(attempts) > 1 or task.options.retry is not None:
        for attempt in attempts:
            _add_attempt(message, attempt)


def _add_attempt(message: pb.Task, attempt: Attempt) -> None:
    message.attempts.add(
        number=attempt.number,
        host_id=attempt.host_id,
        started_at=None if attempt.started_at is None else timestamp(attempt.started_at),
        ended_at=None if attempt.ended_at is None else timestamp(attempt.ended_at),
        error=attempt.error,
        code=attempt.code,
    )


def task_page(tasks: list[Task], most: int, next_after: int | None = None) -> tuple[list[pb.Task], int | None]:
    """As many of the tasks as one answer may hold, at least one, and where the next page starts."""
    messages: list[pb.Task] = []
    size = 0
    for count, task in enumerate(tasks):
        message = task_message(task)
        size += message.ByteSize()
        if count == most or (count and size > MAX_PAGE_BYTES):
            return messages, tasks[count - 1].seq
        messages.append(message)
    return messages, next_after


def accepted(task: Task) -> pb.SubmitTaskResponse:
    """A task just after its admission (scheduler-reference, Submit A Task)."""
    return pb.SubmitTaskResponse(
        task_id=task.id, state=STATES[task.state], position=task.position, created_at=timestamp(task.created_at)
    )


def lease_message(lease: Lease) -> lease_pb2.Lease:
    """A lease (runtime-host-model, TaskLease)."""
    return lease_pb2.Lease(
        task_id=lease.task.id,
        host_id=lease.host.id,
        claimed_at=timestamp(lease.claimed_at),
        expires_at=timestamp(lease.expires_at),
        fencing_token=lease.token,
        lease_secs=round(lease.secs),
    )


def error_message(refusal: Refusal) -> pb.Error:
    """A refusal of one item among several."""
    message = pb.Error(code=refusal.code, error=refusal.message, retryable=refusal.retryable or None)
    if refusal.details:
        details = Struct()
        details.update(dict(refusal.details))
        message.details.CopyFrom(details)
    return message


def timestamp(at: float) -> Timestamp:
    """Seconds since the epoch, to the microsecond."""
    micros = round(at * 1e6)
    return Timestamp(seconds=micros // 1_000_000, nanos=micros % 1_000_000 * 1000)


def go_duration(secs: float) -> str:
    """A duration as the documents print it, such as 5m0s (scheduler-reference, Scheduler Stats)."""
    if 0 < secs < 1:
        return f"{secs * 1000:g}ms"
    hours, rest = divmod(secs, 3600)
    minutes, seconds = divmod(rest, 60)
    text = f"{seconds:g}s"
    if hours or minutes:
        text = f"{minutes:g}m{text}"
    return f"{hours:g}h{text}" if hours else text


def _set(message: Any, field: str, value: str | int | None) -> None:
    if value is not None:
        setattr(message, field, value)
