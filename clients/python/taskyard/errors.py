"""What a call can end with: one class for each code word of the API (DESIGN, Errors).

`except QueueFull` catches one kind, `except TaskyardError` all of them. Three more words than the server's come from
the client's side of the wire: `unavailable` when no server answers, `deadline_exceeded` when the answer did not come in
time, `cancelled` when the call was given up, or the client closed.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from taskyard.v1 import task_pb2 as pb

from .values import plain_object

DOMAIN: Final = "taskyard"
DETAILS_KEY: Final = "grpc-status-details-bin"


class TaskyardError(Exception):
    """A call, or one task of it, that was refused or did not reach the server.

    `code` is the code word and `reason` the text for people. `retryable` says whether the same request may work later,
    `retry_after_secs` when, if the server said so. `details` holds what the code comes with, under the keys of the REST
    error body: for a full queue `queued`, `maxQueue` and so on. A whole call's details are strings, those of one item
    among several are JSON values.
    """

    code: str = "internal"
    retryable: bool = False

    def __init__(
        self,
        reason: str,
        *,
        details: Mapping[str, Any] | None = None,
        retryable: bool | None = None,
        retry_after_secs: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.details: dict[str, Any] = dict(details or {})
        self.retry_after_secs = retry_after_secs
        if retryable is not None:
            self.retryable = retryable

    def __str__(self) -> str:
        return f"{self.code}: {self.reason}"


class BadRequest(TaskyardError):
    """The request itself is wrong; the reason names the field as JSON spells it."""

    code = "bad_request"


class BatchTooLarge(TaskyardError):
    """More tasks in a batch than the server takes."""

    code = "batch_too_large"


class TooLarge(TaskyardError):
    """`params`, a result or a whole message is larger than the server takes."""

    code = "too_large"


class Unauthenticated(TaskyardError):
    """The server does not know who calls."""

    code = "unauthenticated"


class PermissionDenied(TaskyardError):
    """The caller may not do this."""

    code = "permission_denied"


class NotFound(TaskyardError):
    """No such task, batch or host, or no longer retained."""

    code = "not_found"


class Conflict(TaskyardError):
    """The thing exists, but its state does not allow the call."""

    code = "conflict"


class LeaseLost(TaskyardError):
    """A report whose lease has ended; it changed nothing."""

    code = "lease_lost"


class AlreadyExists(TaskyardError):
    """The name or the idempotency key belongs to something else."""

    code = "already_exists"


class CursorExpired(TaskyardError):
    """The place of a watch has left the server's log."""

    code = "cursor_expired"


class QueueFull(TaskyardError):
    """Admission refused the task, which is kept as `rejected`, under `task_id` where the server named it.

    Or the namespace has as many schedules as it may have.
    """

    code = "queue_full"
    retryable = True
    task_id: str | None = None


class Unavailable(TaskyardError):
    """No server answers, or it starts or drains."""

    code = "unavailable"
    retryable = True


class Unimplemented(TaskyardError):
    """The server does not do this, or not yet."""

    code = "unimplemented"


class DeadlineExceeded(TaskyardError):
    """The answer did not come within the call's timeout; the server may have done what was asked."""

    code = "deadline_exceeded"


class CallCancelled(TaskyardError):
    """The call was given up on its way; the server may have done what was asked."""

    code = "cancelled"


class ClientClosed(TaskyardError):
    """The client was closed, before the call or during it; then the server may have done what was asked."""

    code = "cancelled"


class Internal(TaskyardError):
    """Something went wrong in the server, or in between."""

    code = "internal"


KINDS: Final[dict[str, type[TaskyardError]]] = {
    kind.code: kind
    for kind in (
        BadRequest,
        BatchTooLarge,
        TooLarge,
        Unauthenticated,
        PermissionDenied,
        NotFound,
        Conflict,
        LeaseLost,
        AlreadyExists,
        CursorExpired,
        QueueFull,
        Unavailable,
        Unimplemented,
        DeadlineExceeded,
        CallCancelled,
        Internal,
    )
}

KIND_OF_STATUS: Final[dict[grpc.StatusCode, type[TaskyardError]]] = {
    grpc.StatusCode.INVALID_ARGUMENT: BadRequest,
    # Without an ErrorInfo it is gRPC itself that speaks, of a message over its limit.
    grpc.StatusCode.RESOURCE_EXHAUSTED: TooLarge,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.FAILED_PRECONDITION: Conflict,
    grpc.StatusCode.ABORTED: LeaseLost,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.OUT_OF_RANGE: CursorExpired,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.UNIMPLEMENTED: Unimplemented,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.CANCELLED: CallCancelled,
}
"""What a status means that comes without an ErrorInfo of ours: from gRPC itself, a proxy or an older server."""


def error_from_rpc(error: grpc.RpcError) -> TaskyardError:
    """What a failed call means, by the ErrorInfo and RetryInfo that the server sends, else by its status."""
    # grpc's blocking and asyncio calls raise errors of one shape, which the type RpcError does not show.
    call: Any = error
    reason = call.details() or call.code().name.lower().replace("_", " ")
    info, retry_after_secs = _rich_details(call.trailing_metadata() or ())
    if info is None:
        kind = KIND_OF_STATUS.get(call.code(), Internal)
        return kind(reason, retry_after_secs=retry_after_secs)
    return _error(
        info.reason.lower(),
        reason,
        details=info.metadata,
        retryable=True if retry_after_secs is not None else None,
        retry_after_secs=retry_after_secs,
    )


def error_from_message(message: pb.Error, rejected_task_id: str | None = None) -> TaskyardError:
    """Why one item among several was refused; `rejected_task_id` is the id under which a refused task is kept."""
    details = plain_object(message.details) if message.HasField("details") else None
    error = _error(message.code, message.error, details=details, retryable=message.retryable or None)
    if isinstance(error, QueueFull):
        error.task_id = rejected_task_id or None
    return error


def _error(
    code: str,
    reason: str,
    *,
    details: Mapping[str, Any] | None,
    retryable: bool | None,
    retry_after_secs: float | None = None,
) -> TaskyardError:
    kind = KINDS.get(code, TaskyardError)
    error = kind(reason, details=details, retryable=retryable, retry_after_secs=retry_after_secs)
    if kind is TaskyardError:
        # A word that a later server knows and this client does not.
        error.code = code
    return error


def _rich_details(
    metadata: Iterable[tuple[str, str | bytes]],
) -> tuple[error_details_pb2.ErrorInfo | None, float | None]:
    """Our ErrorInfo and the seconds of the RetryInfo, each None where it is missing."""
    info, retry_after_secs = None, None
    for packed in _details(metadata):
        found, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        if packed.Unpack(found) and found.domain == DOMAIN:
            info = found
        elif packed.Unpack(retry):
            retry_after_secs = retry.retry_delay.ToTimedelta().total_seconds()
    return info, retry_after_secs


def _details(metadata: Iterable[tuple[str, str | bytes]]) -> list[Any]:
    for key, value in metadata:
        if key == DETAILS_KEY and isinstance(value, bytes):
            try:
                return list(status_pb2.Status.FromString(value).details)
            except DecodeError:
                # A proxy's own status may be anything.
                return []
    return []
