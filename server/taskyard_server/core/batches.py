"""Batches: which retained tasks came in one call (docs/rules.md, Batches).

A batch is known for as long as one of its tasks is retained.
"""

from collections import Counter
from dataclasses import dataclass, field

from .errors import NotFound, Refusal
from .task import TERMINAL, Existing, Task, TaskState


@dataclass(slots=True)
class Batch:
    """One batch. `tasks` holds those that are retained, rejected ones included, in the order of the request."""

    id: str
    agent_id: str
    created_at: float
    tasks: dict[str, Task] = field(default_factory=dict)

    def states(self) -> Counter[TaskState]:
        """How many of its retained tasks are in each state."""
        return Counter([task.state for task in self.tasks.values()])

    def ended(self) -> bool:
        """True if all of its tasks have ended; those that are not retained any more had."""
        return all(task.state in TERMINAL for task in self.tasks.values())


@dataclass(frozen=True, slots=True)
class BatchSubmission:
    """A batch just after its admission: for each task, in order, the task, the one that it stands for, or why not."""

    batch: Batch
    outcomes: list[Task | Existing | Refusal]


class Batches:
    """The batches that are known."""

    def __init__(self) -> None:
        self._batches: dict[str, Batch] = {}
        # The one whose tasks come now: the first may have ended and been forgotten before the last.
        self._open: Batch | None = None

    def open(self, batch_id: str, agent_id: str, now: float) -> Batch:
        """Begin a batch, whose tasks follow by `add`, until `close`."""
        batch = self._open = self._batches[batch_id] = Batch(batch_id, agent_id, now)
        return batch

    def restore(self, batch_id: str, task: Task) -> None:
        """A stored task of a batch, which is made if it is not known; `sort` follows once all are there."""
        batch = self._batches.get(batch_id)
        if batch is None:
            batch = self._batches[batch_id] = Batch(batch_id, task.agent_id, task.created_at)
        batch.tasks[task.id] = task

    def sort(self) -> None:
        """Put the tasks of each batch in the order of the request."""
        for batch_id in self._batches:
            self.sort_one(batch_id)

    def sort_one(self, batch_id: str) -> None:
        """Put the tasks of one batch in the order of the request."""
        batch = self._batches[batch_id]
        batch.tasks = {task.id: task for task in sorted(batch.tasks.values(), key=_seq)}

    def find(self, batch_id: str) -> Batch | None:
        """The batch, or None."""
        return self._batches.get(batch_id)

    def get(self, batch_id: str) -> Batch:
        """The batch, or `NotFound`."""
        batch = self._batches.get(batch_id)
        if batch is None:
            raise NotFound("batch not found")
        return batch

    def add(self, batch_id: str, task: Task) -> None:
        """A task of the batch was accepted or rejected."""
        self._batches[batch_id].tasks[task.id] = task

    def close(self, batch: Batch) -> None:
        """All tasks of a batch were added; one that holds none, because all were repeats, is dropped."""
        self._open = None
        self._drop_empty(batch)

    def forget(self, batch_id: str, task: Task) -> None:
        """A task of the batch is no longer retained."""
        batch = self._batches.get(batch_id)
        if batch is not None:
            del batch.tasks[task.id]
            if batch is not self._open:
                self._drop_empty(batch)

    def _drop_empty(self, batch: Batch) -> None:
        if not batch.tasks:
            self._batches.pop(batch.id, None)


def _seq(task: Task) -> int:
    return task.seq
