"""The one place where a refusal becomes a gRPC status and a REST body (docs/rules.md, Errors).

Every error carries a `google.rpc.ErrorInfo`. For a call that came by REST, the trailing metadata also hold the
documented JSON body, which the gateway puts in the place of the answer.
"""

import json
from dataclasses import dataclass
from typing import Final

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

from taskyard_server.core.errors import NotOwner, Refusal, Unavailable

DOMAIN: Final = "taskyard"
MAX_BODY_BYTES: Final = 2048
MAX_TEXT_BYTES: Final = 640
"""All metadata of a call together may be 8 KiB, and a text is in there up to three times, each time escaped."""

HTTP_STATUS_KEY: Final = "x-http-status"
HTTP_BODY_KEY: Final = "x-error-json"
NOT_OWNER_KEY: Final = "x-not-owner"
"""Tells the gateway that nothing was done, and that another replica does it (gateway/README.md, Replicas)."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """The gRPC and the HTTP side of one code word."""

    grpc: grpc.StatusCode
    http: int


MAPPINGS: Final = {
    "bad_request": Mapping(grpc.StatusCode.INVALID_ARGUMENT, 400),
    "batch_too_large": Mapping(grpc.StatusCode.INVALID_ARGUMENT, 400),
    "too_large": Mapping(grpc.StatusCode.INVALID_ARGUMENT, 413),
    "unauthenticated": Mapping(grpc.StatusCode.UNAUTHENTICATED, 401),
    "permission_denied": Mapping(grpc.StatusCode.PERMISSION_DENIED, 403),
    "not_found": Mapping(grpc.StatusCode.NOT_FOUND, 404),
    "conflict": Mapping(grpc.StatusCode.FAILED_PRECONDITION, 409),
    "lease_lost": Mapping(grpc.StatusCode.ABORTED, 409),
    "already_exists": Mapping(grpc.StatusCode.ALREADY_EXISTS, 409),
    "out_of_range": Mapping(grpc.StatusCode.OUT_OF_RANGE, 416),
    "cursor_expired": Mapping(grpc.StatusCode.OUT_OF_RANGE, 410),
    "queue_full": Mapping(grpc.StatusCode.RESOURCE_EXHAUSTED, 429),
    "too_many_requests": Mapping(grpc.StatusCode.RESOURCE_EXHAUSTED, 429),
    "unavailable": Mapping(grpc.StatusCode.UNAVAILABLE, 503),
    "internal": Mapping(grpc.StatusCode.INTERNAL, 500),
}


class InternalError(Refusal):
    """Something that should not happen; the caller learns no more."""

    code = "internal"

    def __init__(self) -> None:
        super().__init__("internal error")


def refusal_of(error: Exception) -> Refusal:
    """The refusal by which the caller is told of an error."""
    if isinstance(error, grpc.aio.InternalError):
        # So writing to a caller that has gone ends, where grpc cancels the call only afterwards.
        return Unavailable("the connection is broken")
    return error if isinstance(error, Refusal) else InternalError()


def trailing_metadata(refusal: Refusal, by_rest: bool) -> tuple[tuple[str, str | bytes], ...]:
    """The metadata beside status code and message."""
    details: tuple[tuple[str, str | bytes], ...] = (("grpc-status-details-bin", _status(refusal).SerializeToString()),)
    if not by_rest:
        return details
    if isinstance(refusal, NotOwner):
        details = (*details, (NOT_OWNER_KEY, "1"))
    return (
        *details,
        (HTTP_STATUS_KEY, str(MAPPINGS[refusal.code].http)),
        (HTTP_BODY_KEY, rest_body(refusal)),
    )


def rest_body(refusal: Refusal) -> str:
    """The documented JSON in ASCII, cut to what fits into the metadata of a call."""
    for most in (MAX_TEXT_BYTES, MAX_TEXT_BYTES // 8):
        body: dict[str, object] = {"code": refusal.code, "error": _cut(refusal.message, most)}
        if refusal.retryable:
            body["retryable"] = True
        if refusal.details:
            body["details"] = {key: _cut(value, most) for key, value in refusal.details.items()}
        text = json.dumps(body, separators=(",", ":"))
        if len(text) <= MAX_BODY_BYTES:
            break
    return text


def _status(refusal: Refusal) -> status_pb2.Status:
    info = error_details_pb2.ErrorInfo(
        reason=refusal.reason,
        domain=DOMAIN,
        metadata={key: str(_cut(value, MAX_TEXT_BYTES)) for key, value in refusal.details.items()},
    )
    status = status_pb2.Status(code=MAPPINGS[refusal.code].grpc.value[0], message=message_of(refusal))
    status.details.append(_packed(info))
    if refusal.retryable:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(refusal.retry_after_ms)
        status.details.append(_packed(error_details_pb2.RetryInfo(retry_delay=delay)))
    return status


def message_of(refusal: Refusal) -> str:
    """The message, cut to what fits into the metadata of a call."""
    return str(_cut(refusal.message, MAX_TEXT_BYTES))


def _cut(value: str | float, most: int) -> str | float:
    if not isinstance(value, str) or len(value.encode(errors="replace")) <= most:
        return value
    return value.encode(errors="replace")[:most].decode(errors="ignore") + " ..."


def _packed(message: error_details_pb2.ErrorInfo | error_details_pb2.RetryInfo) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed
