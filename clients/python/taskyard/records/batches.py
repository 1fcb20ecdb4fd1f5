"""Batches: several tasks of one agent in one call, and what became of them (docs/rules.md, Batches)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from taskyard.errors import TaskyardError, error_from_message
from taskyard.v1 import batch_pb2 as pb
from taskyard.values.convert import datetime_from

from .tasks import STATE_OF_NUMBER, Task, TaskState


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The outcome of one task of a batch.

    Attributes:
        state: The state of the task.
        task_id: The task's id. A task that was refused because the queue is full is kept as `rejected` and has one;
            others that were refused have none.
        position: The number of queued tasks of the namespace when it was accepted.
        error: Why it was refused, None if it was accepted.
        existing: Whether it is a task that had the unique key already, so that nothing was submitted.
    """

    state: TaskState
    task_id: str | None = None
    position: int | None = None
    error: TaskyardError | None = None
    existing: bool = False

    @classmethod
    def from_message(cls, message: pb.BatchOutcome) -> BatchOutcome:
        """Convert a message.

        Args:
            message: The outcome as the server sends it.

        Returns:
            The outcome.
        """
        task_id = message.task_id or None
        return cls(
            state=STATE_OF_NUMBER[message.state],
            task_id=task_id,
            position=message.position if message.HasField("position") else None,
            error=error_from_message(message.error, task_id) if message.HasField("error") else None,
            existing=message.existing,
        )


@dataclass(frozen=True, slots=True)
class SubmittedBatch:
    """A batch just after its submission.

    Attributes:
        id: The batch's id.
        outcomes: The outcome of each task, in their order.
    """

    id: str
    outcomes: tuple[BatchOutcome, ...]

    @property
    def task_ids(self) -> tuple[str, ...]:
        """The ids of the accepted tasks, in their order; those that had their unique key before are among them."""
        return tuple(
            outcome.task_id for outcome in self.outcomes if outcome.task_id is not None and outcome.error is None
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as it was when the server answered.

    Attributes:
        id: The batch's id.
        agent_id: The agent that submitted it.
        created_at: When it was submitted.
        states: How many of its retained tasks are in each state.
        ended: Whether all of its tasks have ended.
        tasks: Its retained tasks.
    """

    id: str
    agent_id: str
    created_at: datetime
    states: dict[TaskState, int]
    ended: bool
    tasks: tuple[Task, ...]

    @classmethod
    def from_message(cls, message: pb.GetBatchResponse, tasks: tuple[Task, ...]) -> Batch:
        """Convert a message.

        Args:
            message: A page of the batch as the server sends it.
            tasks: The tasks of all pages.

        Returns:
            The batch.
        """
        return cls(
            id=message.batch_id,
            agent_id=message.agent_id,
            created_at=datetime_from(message.created_at),
            states={TaskState(state): count for state, count in message.states.items()},
            ended=message.ended,
            tasks=tasks,
        )
