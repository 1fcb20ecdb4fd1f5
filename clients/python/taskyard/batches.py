"""Batches: several tasks of one agent in one call, and what became of them (scheduler-reference, Batch Submission)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from taskyard.v1 import batch_pb2 as pb

from .errors import TaskyardError, error_from_message
from .tasks import STATE_OF_NUMBER, Task, TaskState
from .values import datetime_from


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """How one task of a batch fared. `error` is None if it was accepted.

    A task that was refused because the queue is full is kept as `rejected`, and has an id; others that were refused
    have none.
    """

    state: TaskState
    task_id: str | None = None
    position: int | None = None
    error: TaskyardError | None = None

    @classmethod
    def from_message(cls, message: pb.BatchOutcome) -> BatchOutcome:
        """The outcome as the server tells it."""
        task_id = message.task_id or None
        return cls(
            state=STATE_OF_NUMBER[message.state],
            task_id=task_id,
            position=message.position if message.HasField("position") else None,
            error=error_from_message(message.error, task_id) if message.HasField("error") else None,
        )


@dataclass(frozen=True, slots=True)
class SubmittedBatch:
    """A batch just after its submission: one outcome for each task, in their order."""

    id: str
    outcomes: tuple[BatchOutcome, ...]

    @property
    def task_ids(self) -> tuple[str, ...]:
        """The tasks that were accepted, in their order."""
        return tuple(each.task_id for each in self.outcomes if each.task_id is not None and each.error is None)


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as it stood when the server answered. `states` counts its retained tasks; `tasks` are those tasks."""

    id: str
    agent_id: str
    created_at: datetime
    states: dict[TaskState, int]
    ended: bool
    tasks: tuple[Task, ...]

    @classmethod
    def from_message(cls, message: pb.GetBatchResponse, tasks: tuple[Task, ...]) -> Batch:
        """The batch as the server tells it, with the tasks of all pages."""
        return cls(
            id=message.batch_id,
            agent_id=message.agent_id,
            created_at=datetime_from(message.created_at),
            states={TaskState(word): count for word, count in message.states.items()},
            ended=message.ended,
            tasks=tasks,
        )
