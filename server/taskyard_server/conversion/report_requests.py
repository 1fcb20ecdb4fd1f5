"""Reports of hosts on their tasks, converted to the core's `Report`; the same for calls and for streams."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from taskyard.v1 import lease_pb2 as calls
from taskyard.v1 import park_pb2
from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1.task_pb2 import Progress
from taskyard_server.core.errors import BadRequest, Refusal
from taskyard_server.core.reports import Report, ReportKind

from . import requests
from .timestamps import timestamp
from .waits import new_waits

STARTED: Final = ReportKind.STARTED
PROGRESS: Final = ReportKind.PROGRESS
COMPLETED: Final = ReportKind.COMPLETED
FAILED: Final = ReportKind.FAILED
RELEASED: Final = ReportKind.RELEASED
PARKED: Final = ReportKind.PARKED

MAX_ERROR_CHARS: Final = 10_000
MAX_TRACEBACK_CHARS: Final = 8_000
"""Of a traceback the end stays, which names the error."""
MAX_RETRY_AFTER_MS: Final = 86_400_000
MAX_TOKEN: Final = 2.0**53
"""Up to here a double holds every whole number."""

ReportRequest: TypeAlias = (
    calls.StartTaskRequest
    | calls.ReportProgressRequest
    | calls.CompleteTaskRequest
    | calls.FailTaskRequest
    | calls.ReleaseTaskRequest
)


def reports(messages: Sequence[pb.Report], now: float, max_payload_bytes: int) -> list[Report | Refusal]:
    """The reports of one message of a stream, in order; an invalid report is returned as its refusal."""
    converted: list[Report | Refusal] = []
    for message in messages:
        try:
            converted.append(_streamed(message, now, max_payload_bytes))
        except Refusal as refusal:
            converted.append(refusal.with_traceback(None))
    return converted


def _streamed(message: pb.Report, now: float, max_bytes: int) -> Report:
    task_id, token = message.task_id, fencing_token(message.fencing_token)
    tokens = message.tokens_used if message.HasField("tokens_used") else None
    event = message.WhichOneof("event")
    if event == "completed":
        return _completed(task_id, token, message.completed, tokens, max_bytes)
    if event == "started":
        return Report(STARTED, task_id, token)
    if event == "progress":
        return _progressed(task_id, token, message.progress, tokens, now, max_bytes)
    if event == "failed":
        return _failed(task_id, token, message.failed, tokens)
    if event == "released":
        return Report(RELEASED, task_id, token)
    if event == "parked":
        return parked(task_id, token, message.parked, tokens, now)
    raise BadRequest("event: is required")


def report(request: ReportRequest, now: float, max_payload_bytes: int) -> Report:
    """The report of one call. Raises `BadRequest` or `TooLarge`."""
    task_id, token = request.task_id, fencing_token(request.fencing_token)
    if isinstance(request, calls.StartTaskRequest):
        return Report(STARTED, task_id, token)
    if isinstance(request, calls.ReleaseTaskRequest):
        return Report(RELEASED, task_id, token)
    tokens = request.tokens_used if request.HasField("tokens_used") else None
    if isinstance(request, calls.ReportProgressRequest):
        progress = request.progress if request.HasField("progress") else None
        return _progressed(task_id, token, progress, tokens, now, max_payload_bytes)
    if isinstance(request, calls.CompleteTaskRequest):
        return _completed(task_id, token, request, tokens, max_payload_bytes)
    return _failed(task_id, token, request, tokens)


def parked(
    task_id: str, token: int, said: pb.TaskParked | park_pb2.ParkTaskRequest, tokens: int | None, now: float
) -> Report:
    """The report that a task waits. Raises `BadRequest` or `TooLarge`."""
    waits = new_waits(said.waits, now)
    return Report(PARKED, task_id, token, tokens=tokens, waits=waits, keeps_target=not said.release_target)


def fencing_token(token: float) -> int:
    """The fencing token of a request, which is required. Raises `BadRequest`, also for what is no token."""
    if not token:
        raise BadRequest("fencing_token: is required")
    return whole_token(token, "fencing_token")


def whole_token(token: float, field: str) -> int:
    """A fencing token, which is a double on the wire, as the integer that it is; 0 where there is none.

    Raises `BadRequest` for what no double can count: fractions, and what is not from 0 to 2^53.
    """
    # Written so that NaN is refused, too.
    if not 0 <= token <= MAX_TOKEN or token != int(token):
        raise BadRequest(f"{field}: must be a whole number from 0 to 2^53")
    return int(token)


def _progressed(
    task_id: str, token: int, progress: Progress | None, tokens: int | None, now: float, max_bytes: int
) -> Report:
    """A progress report. Without `progress` the task keeps its last one."""
    encoded = None
    if progress is not None:
        if progress.HasField("fraction") and not 0 <= progress.fraction <= 1:
            raise BadRequest("progress.fraction: must be from 0 to 1")
        progress.reported_at.CopyFrom(timestamp(now))
        encoded = requests.payload(progress.details, "progress.details", max_bytes, progress)
    return Report(PROGRESS, task_id, token, encoded, tokens)


def _completed(
    task_id: str,
    token: int,
    completed: pb.TaskCompleted | calls.CompleteTaskRequest,
    tokens: int | None,
    max_bytes: int,
) -> Report:
    result = requests.payload(completed.result, "result", max_bytes) if completed.HasField("result") else None
    if not completed.HasField("output"):
        return Report(COMPLETED, task_id, token, result, tokens)
    output = requests.typed_payload(completed.output, "output", max_bytes, "result", result)
    return Report(COMPLETED, task_id, token, result, tokens, output=output)


def _failed(task_id: str, token: int, failure: pb.TaskFailed | calls.FailTaskRequest, tokens: int | None) -> Report:
    if not failure.error:
        raise BadRequest("error: is required")
    retryable = failure.retryable if failure.HasField("retryable") else True
    code = requests.name(failure.code, "code")
    retry_after_secs = None
    if failure.HasField("retry_after_ms"):
        if failure.retry_after_ms > MAX_RETRY_AFTER_MS:
            raise BadRequest(f"retry_after_ms: must be at most {MAX_RETRY_AFTER_MS}, a day")
        retry_after_secs = failure.retry_after_ms / 1000
    return Report(
        FAILED,
        task_id,
        token,
        None,
        tokens,
        failure.error[:MAX_ERROR_CHARS],
        code,
        retryable,
        failure.traceback[-MAX_TRACEBACK_CHARS:] or None,
        retry_after_secs,
    )
