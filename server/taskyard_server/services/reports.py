"""What a host reports of its tasks, into the core's terms: the same whether it comes as a call or on a stream."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from google.protobuf.struct_pb2 import Value

from taskyard.v1 import lease_pb2 as calls
from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1.task_pb2 import Progress
from taskyard_server.core.errors import BadRequest, Refusal
from taskyard_server.core.reports import Report, ReportKind

from . import requests
from .times import timestamp

STARTED: Final = ReportKind.STARTED
PROGRESS: Final = ReportKind.PROGRESS
COMPLETED: Final = ReportKind.COMPLETED
FAILED: Final = ReportKind.FAILED
RELEASED: Final = ReportKind.RELEASED

MAX_ERROR_CHARS: Final = 10_000

Call: TypeAlias = (
    calls.StartTaskRequest
    | calls.ReportProgressRequest
    | calls.CompleteTaskRequest
    | calls.FailTaskRequest
    | calls.ReleaseTaskRequest
)


def reports(said: Sequence[pb.Report], now: float, max_payload_bytes: int) -> list[Report | Refusal]:
    """What a stream says, in order; in the place of a report that is wrong, why it is."""
    taken: list[Report | Refusal] = []
    for report in said:
        try:
            taken.append(_streamed(report, now, max_payload_bytes))
        except Refusal as refusal:
            # Its traceback would hold this frame, and so the list that holds the refusal: a cycle.
            taken.append(refusal.with_traceback(None))
    return taken


def _streamed(said: pb.Report, now: float, most: int) -> Report:
    task_id, token = said.task_id, fencing_token(said.fencing_token)
    tokens = said.tokens_used if said.HasField("tokens_used") else None
    event = said.WhichOneof("event")
    if event == "completed":
        completed = said.completed
        return _completed(task_id, token, completed.result if completed.HasField("result") else None, tokens, most)
    if event == "started":
        return Report(STARTED, task_id, token)
    if event == "progress":
        return _progressed(task_id, token, said.progress, tokens, now, most)
    if event == "failed":
        return _failed(task_id, token, said.failed, tokens)
    if event == "released":
        return Report(RELEASED, task_id, token)
    raise BadRequest("event: is required")


def report(said: Call, now: float, max_payload_bytes: int) -> Report:
    """What a call says; raises `BadRequest` or `TooLarge`."""
    task_id, token = said.task_id, fencing_token(said.fencing_token)
    if isinstance(said, calls.StartTaskRequest):
        return Report(STARTED, task_id, token)
    if isinstance(said, calls.ReleaseTaskRequest):
        return Report(RELEASED, task_id, token)
    tokens = said.tokens_used if said.HasField("tokens_used") else None
    if isinstance(said, calls.ReportProgressRequest):
        progress = said.progress if said.HasField("progress") else None
        return _progressed(task_id, token, progress, tokens, now, max_payload_bytes)
    if isinstance(said, calls.CompleteTaskRequest):
        result = said.result if said.HasField("result") else None
        return _completed(task_id, token, result, tokens, max_payload_bytes)
    return _failed(task_id, token, said, tokens)


def fencing_token(given: int) -> int:
    """The token of the lease that a report is about."""
    if not given:
        raise BadRequest("fencing_token: is required")
    return given


def _progressed(
    task_id: str, token: int, progress: Progress | None, tokens: int | None, now: float, most: int
) -> Report:
    """The work goes on; None is as before."""
    packed = None
    if progress is not None:
        if progress.HasField("fraction") and not 0 <= progress.fraction <= 1:
            raise BadRequest("progress.fraction: must be from 0 to 1")
        progress.reported_at.CopyFrom(timestamp(now))
        packed = requests.payload(progress.details, "progress.details", most, progress)
    return Report(PROGRESS, task_id, token, packed, tokens)


def _completed(task_id: str, token: int, result: Value | None, tokens: int | None, most: int) -> Report:
    packed = None if result is None else requests.payload(result, "result", most)
    return Report(COMPLETED, task_id, token, packed, tokens)


def _failed(task_id: str, token: int, said: pb.TaskFailed | calls.FailTaskRequest, tokens: int | None) -> Report:
    if not said.error:
        raise BadRequest("error: is required")
    retryable = said.retryable if said.HasField("retryable") else True
    code = requests.name(said.code, "code")
    return Report(FAILED, task_id, token, None, tokens, said.error[:MAX_ERROR_CHARS], code, retryable)
