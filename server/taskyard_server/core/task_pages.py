"""A page of the table of tasks, and what it says of them, so that a search passes by those that hold nothing it wants.

In which states its tasks are a page knows exactly. Which agents, labels, targets, parents and keys they have it may
know too well: what was there stays noted until few of its tasks are left. So a removal costs nothing, and what a page
notes is a few times as much as its tasks have at most. Agents are noted once a search asks for them, since every task
has one and few are searched for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .task import DONE, IN_FLIGHT, QUEUED, TaskState
from .timers import Holder

if TYPE_CHECKING:
    from .task import Task, TaskOptions

# Of an id the digits that name the page: all but the last two of the order of submission.
PAGE_BEGIN: Final = 16
PAGE_END: Final = 24
PAGE_BITS: Final = 8
PAGE_SIZE: Final = 1 << PAGE_BITS
NOTED_TIMES: Final = 8
"""How many times as many tasks a page may have noted as it holds."""
Mark = tuple[str, str]
"""What few tasks have: the kind of a thing and its name."""
TARGET: Final = "target"
PARENT: Final = "parent"
KEY: Final = "key"


class TaskPage(Holder):
    """Tasks that were submitted one after the other, by their ids and in that order; `name` says where it belongs.

    `done` are done, and `others` counts those in each state but done, queued and in flight; who changes the state of a
    task keeps these right. Unless it `is_timely` its tasks were created in another order.
    """

    __slots__ = (
        "done",
        "is_timely",
        "label_keys",
        "labels",
        "marks",
        "name",
        "noted_agents",
        "others",
        "renew_below",
        "tasks",
    )

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.tasks: dict[str, Task] = {}
        self.done = 0
        self.others: dict[TaskState, int] = {}
        self.is_timely = True
        self.renew_below = PAGE_SIZE // NOTED_TIMES
        self.noted_agents: set[str] | None = None
        self.labels: set[tuple[str, str]] | None = None
        self.label_keys: set[str] | None = None
        self.marks: set[Mark] | None = None

    @property
    def agents(self) -> set[str]:
        """The ids of the agents of its tasks, and perhaps of some that left."""
        if self.noted_agents is None:
            self.noted_agents = {task.agent.id for task in self.tasks.values()}
        return self.noted_agents

    def renew(self) -> None:
        """Note what the tasks have that are here, and nothing else."""
        self.renew_below = max(1, len(self.tasks) // NOTED_TIMES)
        self.noted_agents = None
        self.labels = self.label_keys = self.marks = None
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

    def note(self, options: TaskOptions) -> None:
        """A task has these options."""
        if options.labels:
            if self.labels is None or self.label_keys is None:
                self.labels, self.label_keys = set(), set()
            for pair in options.labels:
                self.labels.add(pair)
                self.label_keys.add(pair[0])
        keys = options.extras.concurrency_keys
        if options.target is not None or options.parent_id is not None or keys:
            marks = self.marks
            if marks is None:
                marks = self.marks = set()
            if options.target is not None:
                marks.add((TARGET, options.target))
            if options.parent_id is not None:
                marks.add((PARENT, options.parent_id))
            for key in keys:
                marks.add((KEY, key))


def _seq(task: Task) -> int:
    return task.seq
