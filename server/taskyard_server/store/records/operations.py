"""Operations as records (`records.py` says what holds for all of them).

The filter stands in them as it came, so that a later version reads in its own way what an earlier one was asked for.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.message import DecodeError
from msgspec.msgpack import Decoder

from taskyard.v1 import task_pb2 as pb
from taskyard_server.conversion.task_filters import task_filter
from taskyard_server.core.errors import BadRequest
from taskyard_server.core.names import names
from taskyard_server.core.operations.operation import Operation, OperationKind, OperationRequest, OperationStatus

from .records import Record
from .tasks import encode


class OperationRecord(Record):
    """An operation, and how far it has come. `agents` are the patterns of those that its caller had, None for all."""

    id: str
    kind: OperationKind
    filter: bytes | None
    agents: tuple[str, ...] | None
    token_limit: int | None
    result: bytes | None
    priority: int
    created_at: float
    until: int
    after: int
    is_counted: bool
    matched: int
    done: int
    skipped: int
    failed: int
    status: OperationStatus
    first_error: str | None = None
    ended_at: float | None = None
    reason: str | None = None


decode_operation: Final = Decoder(OperationRecord).decode


def encode_operation(operation: Operation) -> bytes:
    """An `OperationRecord`."""
    request, agents = operation.request, operation.agents
    return encode(
        OperationRecord(
            request.operation_id,
            request.kind,
            request.shown_filter,
            None if agents is None else tuple(agents.patterns),
            request.token_limit,
            request.result,
            request.priority,
            operation.created_at,
            operation.until,
            operation.after,
            operation.is_counted,
            operation.matched,
            operation.done,
            operation.skipped,
            operation.failed,
            operation.status,
            operation.first_error,
            operation.ended_at,
            request.reason,
        )
    )


def to_operation(record: OperationRecord, number: int) -> Operation:
    """The operation, ready for `Operations.restore`. Raises `ValueError` for a filter that cannot be read."""
    agents = None if record.agents is None else names(record.agents)
    try:
        selected = task_filter(pb.TaskFilter.FromString(record.filter or b""), agents)
    except (DecodeError, BadRequest) as fault:
        raise ValueError(f"its filter: {fault}") from None
    request = OperationRequest(
        record.id,
        record.kind,
        selected,
        record.filter,
        record.token_limit,
        record.result,
        record.priority,
        record.reason,
    )
    operation = Operation(number, request, record.created_at, record.until)
    operation.after, operation.is_counted = record.after, record.is_counted
    operation.matched, operation.done = record.matched, record.done
    operation.skipped, operation.failed = record.skipped, record.failed
    operation.status, operation.first_error, operation.ended_at = record.status, record.first_error, record.ended_at
    return operation
