"""The errors of calls: one class for each error code of the API (docs/rules.md, Errors).

`except QueueFull` catches one kind, `except TaskyardError` all of them. Three codes come from the client's side of the
wire: `unavailable` when no server answers, `deadline_exceeded` when the answer did not come in time, `cancelled` when
the call was cancelled or the client closed.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from taskyard.v1 import task_pb2 as pb

from .renamed import old_seconds, warn
from .values.convert import optional_span, plain_object

DOMAIN: Final = "taskyard"
DETAILS_KEY: Final = "grpc-status-details-bin"


class TaskyardError(Exception):
    """A call, or one task of it, that was refused or did not reach the server.

    Attributes:
        code: The error code of the API, such as `queue_full`.
        reason: The text for people.
        retryable: Whether the same request may succeed later.
        retry_after: How long to wait before another try, if the server says so.
        details: Further values for the code, under the keys of the REST error body: for a full queue `queued`,
            `maxQueue` and so on. Those of a whole call are strings, those of one item among several are JSON values.

    Args:
        reason: The text for people.
        details: Further values for the code. Default none.
        retryable: Whether the same request may succeed later. Default as the class says.
        retry_after: How long to wait before another try. Default unknown.
        retry_after_secs: The old form of `retry_after`, in seconds.
    """

    code: str = "internal"
    retryable: bool = False
    retry_after_secs = old_seconds("TaskyardError.retry_after_secs", "retry_after")

    def __init__(
        self,
        reason: str,
        *,
        details: Mapping[str, Any] | None = None,
        retryable: bool | None = None,
        retry_after: timedelta | None = None,
        retry_after_secs: float | None = None,
    ) -> None:
        if retry_after_secs is not None:
            warn("retry_after_secs=", "retry_after=, a timedelta")
            retry_after = timedelta(seconds=retry_after_secs)
        super().__init__(reason)
        self.reason = reason
        self.details: dict[str, Any] = dict(details or {})
        self.retry_after = retry_after
        if retryable is not None:
            self.retryable = retryable

    def __str__(self) -> str:
        return f"{self.code}: {self.reason}"


class BadRequest(TaskyardError):
    """The request itself is wrong. The reason names the field as JSON spells it."""

    code = "bad_request"


class BatchTooLarge(TaskyardError):
    """A batch has more tasks than the server accepts."""

    code = "batch_too_large"


class TooLarge(TaskyardError):
    """`params`, a result or a whole message is larger than the server accepts."""

    code = "too_large"


class Unauthenticated(TaskyardError):
    """The server does not know the caller."""

    code = "unauthenticated"


class PermissionDenied(TaskyardError):
    """The caller may not do this."""

    code = "permission_denied"


class NotFound(TaskyardError):
    """There is no such task, batch, host or schedule, or it is no longer retained."""

    code = "not_found"


class Conflict(TaskyardError):
    """The object exists, but its state does not allow the call."""

    code = "conflict"


class LeaseLost(TaskyardError):
    """The lease of a report has ended. The report changed nothing."""

    code = "lease_lost"


class AlreadyExists(TaskyardError):
    """The name or the idempotency key belongs to another object."""

    code = "already_exists"


class CursorExpired(TaskyardError):
    """The server's event log no longer reaches back to the cursor of a watch."""

    code = "cursor_expired"


class OutOfRange(TaskyardError):
    """There are no such bytes of an artifact."""

    code = "out_of_range"


class QueueFull(TaskyardError):
    """Admission refused the task, or the namespace has as many schedules as it may have.

    Attributes:
        task_id: The id under which the refused task is kept as `rejected`, if the server names it.
    """

    code = "queue_full"
    retryable = True
    task_id: str | None = None


class TooManyRequests(TaskyardError):
    """The caller has used up what it may ask for in a while. `retry_after` says when it may go on."""

    code = "too_many_requests"
    retryable = True


class Unavailable(TaskyardError):
    """No server answers, or it is starting or draining."""

    code = "unavailable"
    retryable = True


class NotOwner(Unavailable):
    """The call came to a server that does not own what it names, and had no effect: it may always be repeated."""


class StreamEnded(Unavailable):
    """A stream has ended, and nothing says why: what is known of an earlier one says more."""


class Unimplemented(TaskyardError):
    """The server does not implement this."""

    code = "unimplemented"


class DeadlineExceeded(TaskyardError):
    """The answer did not come within the timeout of the call. The server may have done it all the same."""

    code = "deadline_exceeded"


class CallCancelled(TaskyardError):
    """The call was cancelled on its way. The server may have done it all the same."""

    code = "cancelled"


class ClientClosed(TaskyardError):
    """The client was closed before the call or during it. In the latter case the server may have done it."""

    code = "cancelled"


class Internal(TaskyardError):
    """Something failed in the server, or between client and server."""

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
        OutOfRange,
        QueueFull,
        TooManyRequests,
        Unavailable,
        Unimplemented,
        DeadlineExceeded,
        CallCancelled,
        Internal,
    )
}

KIND_OF_STATUS: Final[dict[grpc.StatusCode, type[TaskyardError]]] = {
    grpc.StatusCode.INVALID_ARGUMENT: BadRequest,
    # Without an ErrorInfo it comes from gRPC itself, for a message over its limit.
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
"""The meaning of a status without an ErrorInfo of Taskyard: from gRPC itself, a proxy or an older server."""


WRITTEN_TOO_LATE: Final = "Internal error from Core"
"""The words of gRPC in place of the reason for which a stream has ended, where it was written to in that moment."""


def error_from_rpc(error: grpc.RpcError) -> TaskyardError:
    """Convert the error of a failed call, by its ErrorInfo and RetryInfo, else by its status.

    Args:
        error: The error that gRPC raised.

    Returns:
        The error to raise.
    """
    # grpc's blocking and asyncio calls raise errors with the same methods, which the type RpcError does not declare.
    call: Any = error
    reason = call.details() or call.code().name.lower().replace("_", " ")
    info, retry_after = _rich_details(call.trailing_metadata() or ())
    if info is None:
        kind = KIND_OF_STATUS.get(call.code(), Internal)
        if kind is Internal and reason == WRITTEN_TOO_LATE:
            kind, reason = StreamEnded, "the stream has ended"
        return kind(reason, retry_after=retry_after)
    return _error(
        info.reason.lower(),
        reason,
        details=info.metadata,
        retryable=True if retry_after is not None else None,
        retry_after=retry_after,
    )


def error_from_message(message: pb.Error, rejected_task_id: str | None = None) -> TaskyardError:
    """Convert the error of one item among several, in a batch or on a stream (docs/rules.md, Refused items).

    Args:
        message: The error as the server sends it.
        rejected_task_id: The id under which a refused task is kept, if it is. Default none.

    Returns:
        The error to raise or to show.
    """
    error = _error(
        message.code,
        message.error,
        details=plain_object(message.details) if message.HasField("details") else None,
        retryable=message.retryable or None,
        retry_after=optional_span(message, "retry_after_ms"),
    )
    if isinstance(error, QueueFull):
        error.task_id = rejected_task_id or None
    return error


def _error(
    code: str,
    reason: str,
    *,
    details: Mapping[str, Any] | None,
    retryable: bool | None,
    retry_after: timedelta | None,
) -> TaskyardError:
    kind = NotOwner if code == "not_owner" else KINDS.get(code, TaskyardError)
    error = kind(reason, details=details, retryable=retryable, retry_after=retry_after)
    if kind is TaskyardError:
        # A later server may have codes that this client does not know.
        error.code = code
    return error


def _rich_details(
    metadata: Iterable[tuple[str, str | bytes]],
) -> tuple[error_details_pb2.ErrorInfo | None, timedelta | None]:
    """The ErrorInfo of Taskyard and the span of the RetryInfo, each None where it is missing."""
    error_info, retry_after = None, None
    for packed in _details(metadata):
        info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        if packed.Unpack(info) and info.domain == DOMAIN:
            error_info = info
        elif packed.Unpack(retry):
            retry_after = retry.retry_delay.ToTimedelta()
    return error_info, retry_after


def _details(metadata: Iterable[tuple[str, str | bytes]]) -> list[Any]:
    for key, value in metadata:
        if key == DETAILS_KEY and isinstance(value, bytes):
            try:
                return list(status_pb2.Status.FromString(value).details)
            except DecodeError:
                # The status of a proxy may be anything.
                return []
    return []
