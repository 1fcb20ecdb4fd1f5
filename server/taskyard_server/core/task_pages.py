"""A page of the table of tasks, and what it says of them, so that a listing passes by those that hold nothing it wants.

In which states its tasks are a page knows exactly. Which agents, labels, targets, parents and keys they have it may
know too well: what was there stays noted until few of its tasks are left. So a removal costs nothing, and what a page
notes is a few times as much as its tasks have at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .label_selectors import IN, PRESENT
from .task import CANCELLED, DONE, FAILED, IN_FLIGHT, PAUSED, QUEUED, REJECTED, TERMINAL, TaskState

if TYPE_CHECKING:
    from .label_selectors import Requirement
    from .task import Task, TaskOptions
    from .task_filter import TaskFilter

PAGE_BITS: Final = 8
PAGE_SIZE: Final = 1 << PAGE_BITS
NOTED_TIMES: Final = 8
"""How many times as many tasks a page may have noted as it holds."""
WITH_ERROR: Final = frozenset({PAUSED, FAILED, CANCELLED, REJECTED})
"""The states in which a task can have an error."""

Mark = tuple[str, str]
"""What few tasks have: the kind of a thing and its name."""
TARGET: Final = "target"
PARENT: Final = "parent"
KEY: Final = "key"


class TaskPage:
    """Tasks that were submitted one after the other, by their ids and in that order; `name` says where it belongs.

    `done` are done, and `others` counts those in each state but done, queued and in flight; who changes the state of a
    task keeps these right. Unless it `is_timely` its tasks were created in another order.
    """

    __slots__ = (
        "_label_keys",
        "_labels",
        "_marks",
        "agents",
        "done",
        "is_timely",
        "name",
        "others",
        "renew_below",
        "tasks",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.tasks: dict[str, Task] = {}
        self.done = 0
        self.others: dict[TaskState, int] = {}
        self.is_timely = True
        self.renew_below = PAGE_SIZE // NOTED_TIMES
        self.agents: set[str] = set()
        self._labels: set[tuple[str, str]] | None = None
        self._label_keys: set[str] | None = None
        self._marks: set[Mark] | None = None

    def renew(self) -> None:
        """Note what the tasks have that are here, and nothing else."""
        self.renew_below = max(1, len(self.tasks) // NOTED_TIMES)
        self.agents = {task.agent.id for task in self.tasks.values()}
        self._labels = self._label_keys = self._marks = None
        for task in self.tasks.values():
            self.note(task.options)

    def sort(self) -> None:
        """Put the tasks in order of submission."""
        tasks = sorted(self.tasks.values(), key=_seq)
        self.tasks = {task.id: task for task in tasks}
        created = [task.created_at for task in tasks]
        self.is_timely = created == sorted(created)

    def entered(self, state: TaskState) -> None:
        """A task of this page is in a state now that `others` counts."""
        self.others[state] = self.others.get(state, 0) + 1

    def left(self, state: TaskState) -> None:
        """A task of this page has left a state that `others` counts."""
        left = self.others[state] - 1
        if left:
            self.others[state] = left
        else:
            del self.others[state]

    def count(self, state: TaskState) -> int:
        """How many of its tasks are in a state; one that is queued or in flight counts as each of these."""
        if state is DONE:
            return self.done
        if state is not QUEUED and state not in IN_FLIGHT:
            return self.others.get(state, 0)
        return len(self.tasks) - self.done - sum(self.others.values())

    def may_hold(self, wanted: TaskFilter, in_flight: set[TaskPage]) -> bool:
        """Whether a task that matches may be here; false if certainly none is.

        `in_flight` are the pages that have tasks in flight, if some in these states are wanted, but no queued ones.
        """
        options_named = wanted.target is not None or wanted.parent_id is not None or wanted.concurrency_key is not None
        return (
            (wanted.agent_id is None or wanted.agent_id in self.agents)
            and (wanted.agents is None or any(agent in wanted.agents for agent in self.agents))
            and (not options_named or self._has_marks(wanted))
            and (wanted.labels is None or all(self._may_meet(each) for each in wanted.labels.requirements))
            and (wanted.states is None or self in in_flight or self._has_any_of(wanted.states - IN_FLIGHT))
            and ((wanted.ended_from is None and wanted.ended_until is None) or self._has_any_of(TERMINAL))
            and (wanted.error is None or self._has_any_of(WITH_ERROR))
            and ((wanted.created_from is None and wanted.created_until is None) or self._was_created_in_time(wanted))
        )

    def _has_any_of(self, states: frozenset[TaskState]) -> bool:
        return any(self.count(state) > 0 for state in states)

    def _has_marks(self, wanted: TaskFilter) -> bool:
        marks = self._marks
        return marks is not None and (
            (wanted.target is None or (TARGET, wanted.target) in marks)
            and (wanted.parent_id is None or (PARENT, wanted.parent_id) in marks)
            and (wanted.concurrency_key is None or (KEY, wanted.concurrency_key) in marks)
        )

    def _may_meet(self, requirement: Requirement) -> bool:
        relation, key = requirement.relation, requirement.key
        if relation is IN:
            labels = self._labels
            return labels is not None and any((key, value) in labels for value in requirement.values)
        if relation is PRESENT:
            return self._label_keys is not None and key in self._label_keys
        # That a task lacks a label is not noted.
        return True

    def _was_created_in_time(self, wanted: TaskFilter) -> bool:
        if not self.is_timely:
            return True
        if not self.tasks:
            return False
        first, last = next(iter(self.tasks.values())), next(reversed(self.tasks.values()))
        return (wanted.created_from is None or last.created_at >= wanted.created_from) and (
            wanted.created_until is None or first.created_at < wanted.created_until
        )

    def note(self, options: TaskOptions) -> None:
        """A task has these options."""
        if options.labels:
            if self._labels is None or self._label_keys is None:
                self._labels, self._label_keys = set(), set()
            for pair in options.labels:
                self._labels.add(pair)
                self._label_keys.add(pair[0])
        keys = options.extras.concurrency_keys
        if options.target is not None or options.parent_id is not None or keys:
            marks = self._marks
            if marks is None:
                marks = self._marks = set()
            if options.target is not None:
                marks.add((TARGET, options.target))
            if options.parent_id is not None:
                marks.add((PARENT, options.parent_id))
            for key in keys:
                marks.add((KEY, key))


def _seq(task: Task) -> int:
    return task.seq
