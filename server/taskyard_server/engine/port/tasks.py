"""The port for tasks, batches and targets."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from taskyard_server.core.batches import Batch, BatchSubmission
from taskyard_server.core.errors import Refusal
from taskyard_server.core.figures.explain import Explanation
from taskyard_server.core.names import Names
from taskyard_server.core.predecessors import IN_MEMORY, Known
from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.core.stop_waits import StopOutcome
from taskyard_server.core.targets import Target
from taskyard_server.core.task import Existing, Submission, Task, TaskState

from .answers import Answer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListedTasks:
    """One page of a listing, in its order. `next_after` starts the next page; None on the last one.

    A page may hold less than was asked for, even nothing, and not be the last.
    """

    tasks: list[Task]
    next_after: int | None


class TaskPort(Protocol):
    """Commands on tasks, batches and targets.

    `agents` are those of the caller, None for all: a task or a batch of another agent is as if it were not there.
    """

    async def submit(
        self,
        namespace: str,
        submission: Submission,
        *,
        agents: Names | None = None,
        show: Callable[[Task | Existing], T],
    ) -> T:
        """Admit one task. Raises `BadRequest`, `NotFound`, `Conflict`, `AlreadyExists`, `QueueFull` or `Unavailable`.

        Only tasks of these agents can be named as predecessors.
        """

    async def known(self, namespace: str, submissions: Sequence[Submission], *, agents: Names | None = None) -> Known:
        """What these submissions may name, right before `submit_each`. Raises `Unavailable`."""

    def submit_each(
        self,
        namespace: str,
        submissions: Sequence[Submission],
        *,
        known: Known = IN_MEMORY,
        show: Callable[[list[Task | Existing | Refusal]], T],
    ) -> Answer[T]:
        """Admit several tasks in one step, now, each on its own. Shows each task or its refusal, in order."""

    async def submit_batch(
        self,
        namespace: str,
        submissions: Sequence[Submission],
        *,
        agents: Names | None = None,
        show: Callable[[BatchSubmission], T],
    ) -> T:
        """Admit several tasks as one batch. Raises `BadRequest` for an invalid one before any is admitted."""

    async def get(self, namespace: str, task_id: str, *, agents: Names | None = None, show: Callable[[Task], T]) -> T:
        """The task, in memory or as it ended, from the history. Raises `NotFound`."""

    async def explain(
        self, namespace: str, task_id: str, *, agents: Names | None = None, sees_others: bool = True
    ) -> Explanation:
        """Why a task waits. Raises `NotFound`. Without `sees_others` it names no tasks but those of `agents`."""

    def state_of(self, namespace: str, task_id: str, host_id: str | None = None) -> TaskState | None:
        """The state of a task as it is now, which may not be kept yet: for answers that wait until it is.

        With `host_id` only of a task that was last handed to this host.
        """

    async def wait(
        self, namespace: str, task_id: str, secs: float, *, agents: Names | None = None, show: Callable[[Task], T]
    ) -> T:
        """The task once it is terminal, or after `secs`; at once from the history. Raises `NotFound`."""

    async def list_tasks(
        self,
        namespace: str,
        task_filter: TaskFilter,
        after: int,
        limit: int,
        *,
        newest_first: bool = False,
        history: bool = False,
        at_once: bool = False,
    ) -> ListedTasks:
        """Up to `limit` matching tasks that come after the one numbered `after`, as copies; from the first if it is 0.

        They are in order of submission, or in the opposite one. With `history` they are those of the store, live ones
        and all that ended within the time for which these are kept, but none that was rejected. Raises `BadRequest`
        where there is no history. A page `at_once` shows its tasks as they are when this is called; it ends where the
        search would pause.
        """

    def changed_since(
        self, namespace: str, commit: int, ms: int, *, agents: Names | None = None
    ) -> AsyncIterator[list[Task]]:
        """The tasks that changed after a commit, which was at `ms`, as they stand now; rejected ones are not kept.

        Those in memory are shown as they are when the next are asked for, the others as of their `commit`. Raises
        `CursorExpired` where some of them may have been forgotten, and `Unavailable`.
        """

    def untold(self, namespace: str) -> int:
        """How many events of the namespace, which its tasks show already, listeners are still to hear of."""

    async def cancel(
        self, namespace: str, task_id: str, *, agents: Names | None = None, show: Callable[[Task], T]
    ) -> T:
        """Cancel a task. Raises `NotFound` or `Conflict`."""

    async def cancel_with_children(
        self, namespace: str, task_id: str, *, agents: Names | None = None, show: Callable[[Task], T]
    ) -> tuple[T, int]:
        """Cancel a task, and what descends from it and has not ended; with how many these were.

        Raises `NotFound`, or `Conflict` where nothing can be cancelled.
        """

    async def cancel_and_wait(
        self,
        namespace: str,
        task_id: str,
        secs: float,
        *,
        with_children: bool = False,
        agents: Names | None = None,
        show: Callable[[Task], T],
    ) -> tuple[T, int, StopOutcome]:
        """Cancel as the two above do, and wait up to `secs` until nothing runs any more of what was cancelled."""

    async def pause_and_wait(
        self, namespace: str, task_id: str, secs: float, *, agents: Names | None = None, show: Callable[[Task], T]
    ) -> tuple[T, StopOutcome]:
        """Pause a task in flight, and wait up to `secs` until nothing of it runs any more."""

    async def pause(self, namespace: str, task_id: str, *, agents: Names | None = None, show: Callable[[Task], T]) -> T:
        """Pause a task in flight. Raises `NotFound` or `Conflict`."""

    async def resume(
        self,
        namespace: str,
        task_id: str,
        target: str | None = None,
        token_limit: int | None = None,
        *,
        agents: Names | None = None,
        show: Callable[[Task], T],
    ) -> T:
        """Requeue a paused or failed task, or release a held one. `token_limit` replaces the limit of the task.

        Raises `NotFound`, `Conflict`, `BadRequest` or `Unavailable`.
        """

    async def resolve(
        self,
        namespace: str,
        task_id: str,
        result: bytes | None,
        *,
        agents: Names | None = None,
        show: Callable[[Task], T],
    ) -> T:
        """End a paused or failed task as done. Raises `NotFound` or `Conflict`."""

    async def get_batch(
        self, namespace: str, batch_id: str, *, agents: Names | None = None, show: Callable[[Batch], T]
    ) -> T:
        """The batch. Raises `NotFound`."""

    async def cancel_batch(self, namespace: str, batch_id: str, *, agents: Names | None = None) -> int:
        """Cancel the tasks of a batch that have not ended. Returns how many were cancelled. Raises `NotFound`."""

    async def list_targets(self, namespace: str, after: str, *, show: Callable[[list[Target]], T]) -> T:
        """The targets with a name above `after`, ordered by name."""
