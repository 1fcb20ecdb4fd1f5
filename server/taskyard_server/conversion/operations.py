"""Operations: requests converted to those of the core, and operations to messages."""

from __future__ import annotations

from typing import Final, TypeAlias

from taskyard.v1 import operation_pb2 as pb
from taskyard.v1.task_pb2 import TaskFilter
from taskyard_server.core.errors import BadRequest
from taskyard_server.core.names import Names
from taskyard_server.core.operations.operation import Operation, OperationKind, OperationRequest, OperationStatus

from .requests import MAX_NAME_CHARS, operation_id, payload, reason
from .task_filters import task_filter
from .timestamps import timestamp

Request: TypeAlias = (
    pb.CancelTasksRequest
    | pb.PauseTasksRequest
    | pb.ResumeTasksRequest
    | pb.ResolveTasksRequest
    | pb.ReprioritizeTasksRequest
)

RETAINED_NAMES: Final = ("agent_id", "state", "batch_id", "target", "parent_id", "action", "host_id", "concurrency_key")
"""The part of a filter that is retained with its operation, and bounded by nothing else."""
EMPTY_FILTER: Final = "filter: is empty; set all to mean all tasks"
KINDS: Final = {kind: pb.Operation.Kind.Value(kind.value) for kind in OperationKind}
STATUSES: Final = {status: pb.Operation.Status.Value.Value(status.value) for status in OperationStatus}


def operation_request(
    request: Request, kind: OperationKind, agents: Names | None, max_payload_bytes: int
) -> OperationRequest:
    """The filter of the request, of the tasks of the caller's agents. Raises `BadRequest` or `TooLarge`."""
    for name in RETAINED_NAMES:
        if len(getattr(request.filter, name)) > MAX_NAME_CHARS:
            field = TaskFilter.DESCRIPTOR.fields_by_name[name].json_name
            raise BadRequest(f"filter.{field}: must be at most {MAX_NAME_CHARS} characters")
    selected = task_filter(request.filter, agents, "filter.")
    if selected.is_empty:
        if not request.all:
            raise BadRequest(EMPTY_FILTER)
    else:
        _refuse_empty(request.filter)
    shown = None if selected.is_empty else request.filter.SerializeToString(deterministic=True)
    given_id = request.operation_id
    asked = OperationRequest(
        operation_id(given_id) if given_id or not request.dry_run else "",
        kind,
        selected,
        shown,
    )
    if isinstance(request, pb.ResumeTasksRequest) and request.HasField("token_limit"):
        return asked._replace(token_limit=request.token_limit)
    if isinstance(request, pb.CancelTasksRequest | pb.PauseTasksRequest | pb.ResolveTasksRequest):
        asked = asked._replace(reason=reason(request.reason))
    if isinstance(request, pb.ResolveTasksRequest) and request.HasField("result"):
        return asked._replace(result=payload(request.result, "result", max_payload_bytes))
    if isinstance(request, pb.ReprioritizeTasksRequest):
        if not request.HasField("priority"):
            raise BadRequest("priority: is required")
        return asked._replace(priority=request.priority)
    return asked


def _refuse_empty(given: TaskFilter) -> None:
    """A criterion whose value is missing must not let the others alone decide. Raises `BadRequest`."""
    for field, value in given.ListFields():
        if isinstance(value, str) and not value.strip(" ,"):
            raise BadRequest(f"filter.{field.json_name}: must not be empty")


def operation_message(operation: Operation, *, is_bare: bool = False) -> pb.Operation:
    """An operation as it stands; a bare one is for callers who are shown no payloads.

    See docs/operate/security.md, Payloads.
    """
    shown, ended_at = operation.request.shown_filter, operation.ended_at
    message = pb.Operation(
        operation_id=operation.request.operation_id,
        kind=KINDS[operation.request.kind],
        status=STATUSES[operation.status],
        matched=operation.matched,
        done=operation.done,
        skipped=operation.skipped,
        failed=operation.failed,
        first_error=operation.first_error,
        created_at=timestamp(operation.created_at),
        ended_at=None if ended_at is None else timestamp(ended_at),
        filter=None if shown is None else TaskFilter.FromString(shown),
    )
    if is_bare and shown is not None:
        message.filter.ClearField("error")
    return message


def dry_run_message(kind: OperationKind, matched: int) -> pb.Operation:
    """The count of an operation that is not begun."""
    return pb.Operation(kind=KINDS[kind], status=STATUSES[OperationStatus.DONE], matched=matched)
