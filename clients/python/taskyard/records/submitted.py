"""The acceptance of a task (docs/rules.md, Submitting)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from taskyard.renamed import old_name
from taskyard.v1 import task_pb2 as pb
from taskyard.values.convert import datetime_from

from .tasks import STATE_OF_NUMBER, TaskState


@dataclass(frozen=True, slots=True)
class Submitted:
    """The acceptance of a task.

    Attributes:
        id: The task's id.
        state: `queued` or `pending`. If the idempotency key was known, the state of the first task.
        position: The number of queued tasks of the namespace at that moment.
        created_at: When it was accepted.
        existing: Whether it is a task that had the unique key already, so that nothing was submitted.
    """

    id: str
    state: TaskState
    position: int
    created_at: datetime
    existing: bool = False

    task_id = old_name("Submitted.task_id", "id")

    @classmethod
    def from_message(cls, message: pb.SubmitTaskResponse) -> Submitted:
        """Convert a message.

        Args:
            message: The acceptance as the server sends it.

        Returns:
            The acceptance.
        """
        return cls(
            message.task_id,
            STATE_OF_NUMBER[message.state],
            message.position,
            datetime_from(message.created_at),
            message.existing,
        )
