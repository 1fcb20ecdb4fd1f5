"""Encoding of the messages sent for every task, without protobuf objects: tasks, events, leases, outcomes, results.

Building a protobuf object and serializing it takes several times as long, and each task is encoded several times.
The rare fields are left to protobuf, since concatenated encodings merge into one message. The tests require every
encoding to equal what protobuf makes of the same task.

A `bare` encoding is for callers who are shown no payloads (docs/operate/security.md, Payloads): it leaves out `params`,
`result`, `input`, `output`, `progress`, `artifacts`, the texts of errors, tracebacks, and the `callback_url`, which may
hold a secret.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from taskyard.v1 import batch_pb2, lease_pb2
from taskyard.v1 import runtime_host_pb2 as host_pb
from taskyard.v1 import task_pb2 as pb
from taskyard_server.core.attempts import PERSON_HAS_TAB, is_handed_off
from taskyard_server.core.batches import BatchSubmission
from taskyard_server.core.errors import Refusal
from taskyard_server.core.events import Event, EventKind
from taskyard_server.core.history import History
from taskyard_server.core.leases import Lease
from taskyard_server.core.task import (
    DONE,
    NO_EXTRAS,
    NO_HISTORY,
    NO_OPTIONS,
    PARKED,
    PENDING,
    TERMINAL,
    Existing,
    Task,
    TaskState,
)
from taskyard_server.core.task_options import TaskOptions

from .history import history_message
from .inputs import encode_inputs
from .task_fields import add_extras, add_options
from .wire import LAST, MAX_UINT32, add_double, add_nested, add_text, add_timestamp, add_varint, nested, tag

CHANGED: Final = EventKind.CHANGED
EVICTED: Final = EventKind.EVICTED

STATES: Final = {state: pb.Task.State.Value(state.value) for state in TaskState}


def _by_state(message: Any, field: str) -> dict[TaskState, bytes]:
    """This field of a message class, encoded for each task state."""
    return {state: tag(message, field) + LAST[number] for state, number in STATES.items()}


TASK_ID: Final = tag(pb.Task, "task_id")
AGENT_ID: Final = tag(pb.Task, "agent_id")
ACTION: Final = tag(pb.Task, "action")
TAB_ID: Final = tag(pb.Task, "tab_id")
REF: Final = tag(pb.Task, "ref")
PARAMS: Final = tag(pb.Task, "params")
PRIORITY: Final = tag(pb.Task, "priority")
DEADLINE: Final = tag(pb.Task, "deadline")
CREATED_AT: Final = tag(pb.Task, "created_at")
STARTED_AT: Final = tag(pb.Task, "started_at")
COMPLETED_AT: Final = tag(pb.Task, "completed_at")
LATENCY_MS: Final = tag(pb.Task, "latency_ms")
RESULT: Final = tag(pb.Task, "result")
ERROR: Final = tag(pb.Task, "error")
POSITION: Final = tag(pb.Task, "position")
HOST_ID: Final = tag(pb.Task, "host_id")
PROGRESS: Final = tag(pb.Task, "progress")
CALLBACK_URL: Final = tag(pb.Task, "callback_url")
TASK_BATCH_ID: Final = tag(pb.Task, "batch_id")
TRACEPARENT: Final = tag(pb.Task, "traceparent")
IDEMPOTENCY_KEY: Final = tag(pb.Task, "idempotency_key")
INPUT: Final = tag(pb.Task, "input")
OUTPUT: Final = tag(pb.Task, "output")
TRACEBACK: Final = tag(pb.Task, "traceback")
STATE: Final = _by_state(pb.Task, "state")
NOTICE: Final = tag(pb.Task, "notice")

EVENT: Final = tag(pb.WatchTasksResponse, "events")
EVENT_AT: Final = tag(pb.TaskEvent, "occurred_at")
EVENT_TASK: Final = tag(pb.TaskEvent, "task")
KIND: Final = tag(pb.TaskEvent, "kind")
EVENT_KIND: Final[dict[EventKind, bytes]] = {
    kind: KIND + LAST[pb.TaskEvent.Kind.Value(kind.value)] for kind in EventKind
}
CURRENT: Final = KIND + LAST[pb.TaskEvent.Kind.Value("current")]
PREVIOUS_STATE: Final = _by_state(pb.TaskEvent, "previous_state")

OUTCOME: Final = tag(pb.SubmitTasksResponse, "outcomes")
ACCEPTED: Final = tag(pb.SubmitOutcome, "accepted")
ACCEPTED_ID: Final = tag(pb.SubmitTaskResponse, "task_id")
ACCEPTED_POSITION: Final = tag(pb.SubmitTaskResponse, "position")
ACCEPTED_AT: Final = tag(pb.SubmitTaskResponse, "created_at")
ACCEPTED_EXISTING: Final = tag(pb.SubmitTaskResponse, "existing") + LAST[True]
ACCEPTED_STATE: Final = _by_state(pb.SubmitTaskResponse, "state")

LEASE: Final = tag(lease_pb2.Assignment, "lease")
LEASED: Final = tag(lease_pb2.Assignment, "task")
LEASED_INPUT: Final = tag(lease_pb2.Assignment, "inputs")
LEASE_TASK: Final = tag(lease_pb2.Lease, "task_id")
LEASE_HOST: Final = tag(lease_pb2.Lease, "host_id")
LEASE_CLAIMED_AT: Final = tag(lease_pb2.Lease, "claimed_at")
LEASE_EXPIRES_AT: Final = tag(lease_pb2.Lease, "expires_at")
LEASE_TOKEN: Final = tag(lease_pb2.Lease, "fencing_token")
LEASE_SECS: Final = tag(lease_pb2.Lease, "lease_secs")

BATCHED: Final = tag(batch_pb2.SubmitBatchResponse, "tasks")
BATCH_SUBMITTED: Final = tag(batch_pb2.SubmitBatchResponse, "submitted")
BATCH_ID: Final = tag(batch_pb2.SubmitBatchResponse, "batch_id")
BATCHED_ID: Final = tag(batch_pb2.BatchOutcome, "task_id")
BATCHED_POSITION: Final = tag(batch_pb2.BatchOutcome, "position")
BATCHED_EXISTING: Final = tag(batch_pb2.BatchOutcome, "existing") + LAST[True]
BATCHED_STATE: Final = _by_state(batch_pb2.BatchOutcome, "state")

REPORT_RESULT: Final = tag(host_pb.ReportResults, "results")
REPORTED: Final = {
    state: nested(REPORT_RESULT, encoded) for state, encoded in _by_state(host_pb.ReportResult, "state").items()
}


def encode_task(task: Task, bare: bool = False) -> bytes:
    """A `Task` (docs/rules.md, Task fields)."""
    parts = _current_parts(task, bare)
    if not bare:
        if task.params is not None:
            add_nested(parts, PARAMS, task.params)
        if task.options.input is not None:
            add_nested(parts, INPUT, task.options.input)
        if task.history.traceback is not None:
            add_text(parts, TRACEBACK, task.history.traceback)
    return b"".join(parts)


def encode_event(event: Event, bare: bool = False) -> bytes:
    """A `WatchTasksResponse` with an event and the task just after it.

    It omits `params` and `input`, which stay as they are once the task is let go, and tracebacks.
    """
    task = event.task
    completed_at = event.at if event.state in TERMINAL else None
    if event.kind is EVICTED:
        completed_at = task.completed_at
    task_parts = _task_parts(
        task,
        event.state,
        event.deadline,
        event.started_at,
        completed_at,
        event.error,
        event.host_id,
        event.progress,
        event.history,
        event.attempt_started_at,
        bare,
    )
    if event.state is DONE and not bare:
        _add_results(task_parts, task)
    parts = [EVENT_KIND[event.kind]]
    add_timestamp(parts, EVENT_AT, event.at)
    add_nested(parts, EVENT_TASK, b"".join(task_parts))
    if event.kind is CHANGED and event.before is not None:
        parts.append(PREVIOUS_STATE[event.before])
    return nested(EVENT, b"".join(parts))


def encode_current(task: Task, now: float, bare: bool = False) -> bytes:
    """A `WatchTasksResponse` with the current state of a task, sent when a watch begins."""
    parts = [CURRENT]
    add_timestamp(parts, EVENT_AT, now)
    add_nested(parts, EVENT_TASK, b"".join(_current_parts(task, bare)))
    return nested(EVENT, b"".join(parts))


def encode_accepted(admitted: Task | Existing) -> bytes:
    """A `SubmitTaskResponse` for a task just admitted (docs/rules.md, Submitting), or found."""
    parts: list[bytes] = []
    if isinstance(admitted, Existing):
        parts.append(ACCEPTED_EXISTING)
        task = admitted.task
    else:
        task = admitted
    add_text(parts, ACCEPTED_ID, task.id)
    parts.append(ACCEPTED_STATE[task.state])
    if task.position is not None:
        parts.append(ACCEPTED_POSITION)
        add_varint(parts, task.position)
    add_timestamp(parts, ACCEPTED_AT, task.created_at)
    return b"".join(parts)


def encode_outcomes(outcomes: Sequence[Task | Existing | Refusal], encode_refusal: Callable[[Refusal], bytes]) -> bytes:
    """A `SubmitTasksResponse`. `encode_refusal` encodes the `SubmitOutcome` of a refusal, through protobuf."""
    parts: list[bytes] = []
    for outcome in outcomes:
        if isinstance(outcome, Refusal):
            add_nested(parts, OUTCOME, encode_refusal(outcome))
            continue
        accepted = encode_accepted(outcome)
        size = len(accepted)
        # Two lengths of one byte each, as nearly all have.
        if size < 126:
            parts += (OUTCOME, LAST[size + 2], ACCEPTED, LAST[size], accepted)
        else:
            add_nested(parts, OUTCOME, nested(ACCEPTED, accepted))
    return b"".join(parts)


def encode_batch(submission: BatchSubmission, encode_refusal: Callable[[Refusal], bytes]) -> bytes:
    """A `SubmitBatchResponse`. `encode_refusal` encodes the `BatchOutcome` of a refusal, through protobuf."""
    parts: list[bytes] = []
    submitted = 0
    for outcome in submission.outcomes:
        if isinstance(outcome, Refusal):
            add_nested(parts, BATCHED, encode_refusal(outcome))
        else:
            submitted += 1
            add_nested(parts, BATCHED, _encode_batched(outcome))
    parts.append(BATCH_SUBMITTED)
    add_varint(parts, submitted)
    add_text(parts, BATCH_ID, submission.batch.id)
    return b"".join(parts)


def _encode_batched(admitted: Task | Existing) -> bytes:
    """A `BatchOutcome` for a task just admitted, or found."""
    task = admitted.task if isinstance(admitted, Existing) else admitted
    parts: list[bytes] = []
    add_text(parts, BATCHED_ID, task.id)
    parts.append(BATCHED_STATE[task.state])
    if task.position is not None:
        parts.append(BATCHED_POSITION)
        add_varint(parts, task.position)
    if isinstance(admitted, Existing):
        parts.append(BATCHED_EXISTING)
    return b"".join(parts)


def encode_lease(lease: Lease) -> bytes:
    """A `Lease` (docs/rules.md, Grants)."""
    parts: list[bytes] = []
    add_text(parts, LEASE_TASK, lease.task.id)
    add_text(parts, LEASE_HOST, lease.host.id)
    add_timestamp(parts, LEASE_CLAIMED_AT, lease.claimed_at)
    add_timestamp(parts, LEASE_EXPIRES_AT, lease.expires_at)
    add_double(parts, LEASE_TOKEN, lease.token)
    parts.append(LEASE_SECS)
    add_varint(parts, round(lease.secs))
    return b"".join(parts)


def encode_assignment(lease: Lease, task: Task | None = None) -> bytes:
    """An `Assignment`: a lease and its task, or what is to be shown in its place."""
    parts: list[bytes] = []
    add_nested(parts, LEASE, encode_lease(lease))
    add_nested(parts, LEASED, encode_task(lease.task if task is None else task))
    if lease.inputs:
        parts.append(encode_inputs(LEASED_INPUT, lease))
    return b"".join(parts)


def handed_task_encoder(handed: Callable[[Task], Task] | None) -> Callable[[Task], bytes]:
    """Encodes a task for its host; `handed` makes what it is told of where that is not what everybody is told."""
    return encode_task if handed is None else lambda task: encode_task(handed(task))


def assignment_encoder(handed: Callable[[Task], Task] | None) -> Callable[[Lease], bytes]:
    """The same for an `Assignment`."""
    return encode_assignment if handed is None else lambda lease: encode_assignment(lease, handed(lease.task))


def encode_reported(state: TaskState) -> bytes:
    """A `ReportResults` with one result, for an accepted report."""
    return REPORTED[state]


def _current_parts(task: Task, bare: bool) -> list[bytes]:
    """The encoded fields of a task in its current state, without what events omit."""
    parts = _task_parts(
        task,
        task.state,
        task.deadline,
        task.started_at,
        task.completed_at,
        task.error,
        task.host_id,
        task.progress,
        task.history,
        None if task.lease is None else task.lease.started_at,
        bare,
    )
    if task.lane is not None and task.lane.bucket.notice is not None:
        add_text(parts, NOTICE, task.lane.bucket.notice)
    elif (task.state is PENDING or task.state is PARKED) and is_handed_off(task):
        add_text(parts, NOTICE, PERSON_HAS_TAB)
    if not bare:
        _add_results(parts, task)
    return parts


def _add_results(parts: list[bytes], task: Task) -> None:
    if task.result is not None:
        add_nested(parts, RESULT, task.result)
    if task.history.output is not None:
        add_nested(parts, OUTPUT, task.history.output)


def _task_parts(
    task: Task,
    state: TaskState,
    deadline: float | None,
    started_at: float | None,
    completed_at: float | None,
    error: str | None,
    host_id: str | None,
    progress: bytes | None,
    history: History,
    attempt_started_at: float | None,
    bare: bool,
) -> list[bytes]:
    """The encoded fields of a task at one moment, without payloads. Immutable fields are read from the task itself."""
    parts: list[bytes] = []
    add_text(parts, TASK_ID, task.id)
    add_text(parts, AGENT_ID, task.agent.id)
    add_text(parts, ACTION, task.action)
    if task.tab_id is not None:
        add_text(parts, TAB_ID, task.tab_id)
    if task.ref is not None:
        add_text(parts, REF, task.ref)
    parts.append(PRIORITY)
    add_varint(parts, task.priority)
    parts.append(STATE[state])
    if deadline is not None:
        add_timestamp(parts, DEADLINE, deadline)
    add_timestamp(parts, CREATED_AT, task.created_at)
    if started_at is not None:
        add_timestamp(parts, STARTED_AT, started_at)
        if completed_at is not None:
            parts.append(LATENCY_MS)
            add_varint(parts, min(round((completed_at - started_at) * 1000), MAX_UINT32))
    if completed_at is not None:
        add_timestamp(parts, COMPLETED_AT, completed_at)
    if error is not None and not bare:
        add_text(parts, ERROR, error)
    if task.position is not None:
        parts.append(POSITION)
        add_varint(parts, task.position)
    if host_id is not None:
        add_text(parts, HOST_ID, host_id)
    if progress is not None and not bare:
        add_nested(parts, PROGRESS, progress)
    options = task.options
    if options is not NO_OPTIONS:
        _add_options(parts, options, bare)
    if history is not NO_HISTORY or options.retry is not None:
        message = history_message(history, options.retry, state, host_id, attempt_started_at, bare)
        parts.append(message.SerializeToString())
    return parts


def encode_options(options: TaskOptions, bare: bool) -> bytes:
    """The fields of a `Task` that its options set, but for what comes from its history."""
    parts: list[bytes] = []
    _add_options(parts, options, bare)
    return b"".join(parts)


def _add_options(parts: list[bytes], options: TaskOptions, bare: bool) -> None:
    if options.callback_url is not None and not bare:
        add_text(parts, CALLBACK_URL, options.callback_url)
    if options.batch_id is not None:
        add_text(parts, TASK_BATCH_ID, options.batch_id)
    if options.traceparent is not None:
        add_text(parts, TRACEPARENT, options.traceparent)
    if options.key is not None:
        add_text(parts, IDEMPOTENCY_KEY, options.key.key)
    add_options(parts, options)
    if options.extras is not NO_EXTRAS:
        add_extras(parts, options.extras)
