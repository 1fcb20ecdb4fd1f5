"""Which live tasks have which unique keys (docs/rules.md, Unique keys).

A key is taken while a live task of the agent that came under it holds it: so whether it is follows from the states of
tasks alone, after a restart as before. More than one holds it where tasks came back by a resume or a lost lease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .errors import AlreadyExists, BadRequest
from .history import Bound
from .task import WAITING, Existing
from .task_options import OnConflict, UniqueWhile

if TYPE_CHECKING:
    from .changes import Changes
    from .targets import Targets
    from .task import Submission, Task
    from .task_options import IdempotencyKey
    from .task_table import TaskTable

QUEUED_ONLY: Final = UniqueWhile.QUEUED
REJECT: Final = OnConflict.REJECT
REPLACE_QUEUED: Final = OnConflict.REPLACE_QUEUED

TAKEN: Final = "uniqueKey: another task has it"
IS_AFTER: Final = "after: names a task that this one replaces"
REPLACED: Final = "replaced by a task with the same unique key"
MAX_BOUND: Final = 100
"""Maximum idempotency keys bound to one task. What repeats an older one is still answered while the task is live."""


class UniqueKeys:
    """The live tasks of one namespace that came under unique keys."""

    def __init__(self, tasks: TaskTable, targets: Targets, changes: Changes | None) -> None:
        self._tasks = tasks
        self._targets = targets
        self._changes = changes
        self._live: dict[tuple[str, str], dict[Task, None]] = {}

    def __len__(self) -> int:
        """How many keys live tasks came under."""
        return len(self._live)

    def add(self, task: Task) -> None:
        """A task lives. Nothing happens if it has no unique key."""
        key = task.options.extras.unique_key
        if key is None:
            return
        name = (task.agent.id, key)
        tasks = self._live.get(name)
        if tasks is None:
            tasks = self._live[name] = {}
        tasks[task] = None

    def remove(self, task: Task) -> None:
        """A task has ended. Nothing happens if it is not here."""
        key = task.options.extras.unique_key
        if key is None:
            return
        name = (task.agent.id, key)
        tasks = self._live.get(name)
        if tasks is not None and task in tasks:
            del tasks[task]
            if not tasks:
                del self._live[name]

    def holders(self, agent_id: str, key: str) -> list[Task]:
        """The tasks that hold a key of an agent, in order of submission; none if it is free."""
        tasks = self._live.get((agent_id, key))
        if tasks is None:
            return []
        holders = [task for task in tasks if _holds(task)]
        holders.sort(key=_seq)
        return holders

    def find_conflict(
        self, now: float, submission: Submission, max_blocked_targets: int
    ) -> Existing | list[Task] | None:
        """Look whether the unique key of a submission is free.

        The task that has it is the answer, and then has the submission's idempotency key too. Else these are the tasks
        that it replaces, none if the key is free; None if its target has no room, so that it replaces none. Raises
        `AlreadyExists`, or `BadRequest` where the submission comes after a task that it replaces, since both would be
        cancelled.
        """
        extras = submission.options.extras
        assert extras.unique_key is not None
        holders = self.holders(submission.agent_id, extras.unique_key)
        if not holders:
            return holders
        youngest = holders[-1]
        if extras.on_conflict is REJECT:
            raise AlreadyExists(TAKEN, {"taskId": youngest.id})
        if extras.on_conflict is REPLACE_QUEUED and _all_wait(holders):
            if any(task.id in extras.predecessors for task in holders):
                raise BadRequest(IS_AFTER)
            target = submission.options.target
            if target is not None and not self._targets.has_room(target, max_blocked_targets):
                return None
            return holders
        if submission.options.key is not None:
            self._bind(now, youngest, submission.options.key)
        return Existing(youngest)

    def _bind(self, now: float, task: Task, key: IdempotencyKey) -> None:
        """Let a task be the answer to what repeats a key, too."""
        bound = (*task.history.bound, Bound(key.key, key.fingerprint, now))
        for gone in bound[:-MAX_BOUND]:
            name = (task.agent.id, gone.key)
            if self._tasks.by_key.get(name) is task:
                del self._tasks.by_key[name]
        task.history = task.history._replace(bound=bound[-MAX_BOUND:])
        self._tasks.by_key[task.agent.id, key.key] = task
        if self._changes is not None:
            self._changes.tasks[task] = None


def _holds(task: Task) -> bool:
    """True if a live task holds the key that it came under."""
    return task.options.extras.unique_while is not QUEUED_ONLY or task.state in WAITING


def _all_wait(tasks: list[Task]) -> bool:
    return len([task for task in tasks if task.state in WAITING]) == len(tasks)


def _seq(task: Task) -> int:
    return task.seq
