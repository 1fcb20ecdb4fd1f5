"""Operations: what is done to many tasks at once, and how far it is (docs/rules.md, Operations)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from taskyard.v1 import operation_pb2 as pb
from taskyard.values.convert import optional, optional_time


class OperationKind(StrEnum):
    """The kind of the operation."""

    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    RESOLVE = "resolve"
    REPRIORITIZE = "reprioritize"


class OperationStatus(StrEnum):
    """How far an operation is."""

    RUNNING = "running"
    """It is at work."""
    WAITING = "waiting"
    """It waits for room in the queue."""
    DONE = "done"
    """It has been through all tasks."""
    CANCELLED = "cancelled"
    """It was cancelled."""

    @property
    def ended(self) -> bool:
        """True if an operation with this status has ended."""
        return self in (OperationStatus.DONE, OperationStatus.CANCELLED)


KIND_OF_NUMBER: Final = {pb.Operation.Kind.Value(kind.value): kind for kind in OperationKind}
STATUS_OF_NUMBER: Final = {pb.Operation.Status.Value.Value(status.value): status for status in OperationStatus}


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on many tasks as it was when the server answered.

    Attributes:
        id: The id that its caller gave it.
        kind: What is done.
        status: How far it is.
        matched: Tasks that matched, in a state in which this can be done to them, when they were counted at the
            beginning: in slices, so that it grows until the first is treated.
        done: Tasks that were treated.
        skipped: Those that matched no longer when their turn came, or were in another state. Known at the end.
        failed: Tasks that were refused.
        first_error: The first of these and why it was refused. None if none was.
        created_at: When it began. None for a dry run.
        ended_at: When it ended.
    """

    id: str
    kind: OperationKind
    status: OperationStatus
    matched: int
    done: int = 0
    skipped: int = 0
    failed: int = 0
    first_error: str | None = None
    created_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def ended(self) -> bool:
        """True if it has ended."""
        return self.status.ended

    @property
    def fraction(self) -> float:
        """How far it is, from 0 to 1."""
        seen = self.done + self.skipped + self.failed
        return 1.0 if self.ended else min(seen / self.matched, 1.0) if self.matched else 0.0

    @classmethod
    def from_message(cls, message: pb.Operation) -> Operation:
        """Convert a message.

        Args:
            message: The operation as the server sends it.

        Returns:
            The operation.
        """
        return cls(
            id=message.operation_id,
            kind=KIND_OF_NUMBER[message.kind],
            status=STATUS_OF_NUMBER.get(message.status, OperationStatus.RUNNING),
            matched=message.matched,
            done=message.done,
            skipped=message.skipped,
            failed=message.failed,
            first_error=optional(message, "first_error"),
            created_at=optional_time(message, "created_at"),
            ended_at=optional_time(message, "ended_at"),
        )
