"""The part of an engine for agents: tasks, their batches and their targets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from taskyard_server.core.batches import Batch, BatchSubmission
from taskyard_server.core.errors import Refusal
from taskyard_server.core.targets import Target
from taskyard_server.core.task import Submission, Task, TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Which tasks a listing wants; None wants all (scheduler-reference, List Tasks)."""

    agent_id: str | None = None
    states: frozenset[TaskState] | None = None
    batch_id: str | None = None
    target: str | None = None

    def matches(self, task: Task) -> bool:
        """Whether the task matches every criterion."""
        return (
            (self.agent_id is None or task.agent_id == self.agent_id)
            and (self.states is None or task.state in self.states)
            and (self.batch_id is None or task.options.batch_id == self.batch_id)
            and (self.target is None or task.options.target == self.target)
        )


@dataclass(frozen=True, slots=True)
class TaskPage:
    """Part of a listing, in order of submission. `next_after` is where the next page starts, None at the end."""

    tasks: list[Task]
    next_after: int | None


class TaskPort(Protocol):
    """Tasks, batches and targets."""

    async def submit(self, namespace: str, submission: Submission) -> Task:
        """Accept one task, or raise `BadRequest`, `AlreadyExists`, `QueueFull` or `Unavailable`."""

    async def submit_each(self, namespace: str, submissions: Sequence[Submission]) -> list[Task | Refusal]:
        """Admit tasks one by one, all of them in one step: each task, or why it was refused, in order."""

    async def submit_batch(self, namespace: str, submissions: Sequence[Submission]) -> BatchSubmission:
        """Admit tasks one by one as one batch. Raises `BadRequest` for a bad one before any is admitted."""

    async def get(self, namespace: str, task_id: str) -> Task:
        """The task, or `NotFound`."""

    async def wait(self, namespace: str, task_id: str, secs: float) -> Task:
        """The task once it is terminal, or as it is after `secs`. Raises `NotFound`."""

    async def list_tasks(self, namespace: str, task_filter: TaskFilter, after: int, limit: int) -> TaskPage:
        """Up to `limit` matching tasks submitted after the one numbered `after`, as they were when they were read."""

    async def cancel(self, namespace: str, task_id: str) -> Task:
        """End a task, or raise `NotFound` or `Conflict`."""

    async def pause(self, namespace: str, task_id: str) -> Task:
        """Interrupt a task in flight, or raise `NotFound` or `Conflict`."""

    async def resume(
        self, namespace: str, task_id: str, target: str | None = None, token_limit: int | None = None
    ) -> Task:
        """Queue a paused or failed task again or release a held one, perhaps with a new token limit.

        Raises `NotFound`, `Conflict`, `BadRequest` or `Unavailable`.
        """

    async def resolve(self, namespace: str, task_id: str, result: bytes | None) -> Task:
        """End a paused or failed task as done, or raise `NotFound` or `Conflict`."""

    async def get_batch(self, namespace: str, batch_id: str) -> Batch:
        """The batch, or `NotFound`."""

    async def cancel_batch(self, namespace: str, batch_id: str) -> int:
        """Cancel what has not ended of a batch; how many tasks that were. Raises `NotFound`."""

    async def list_targets(self, namespace: str, after: str) -> list[Target]:
        """The targets after this name, in order of their names."""
