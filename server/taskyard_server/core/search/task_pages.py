"""A page of the table of tasks, and what it says of them, so that a search passes by those that hold nothing it wants.

In which states its tasks are a page knows exactly. Which agents, labels, targets, parents and keys they have it may
know too well: what was there stays noted until few of its tasks are left. So a removal costs nothing, and what a page
notes is a few times as much as its tasks have at most. Agents are noted once a search asks for them, since every task
has one and few are searched for.

A task stands at the index that the end of its order of submission names. So it is found and removed by one look into
one list, which takes a third of the memory of a dict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from taskyard_server.core.task import DONE, IN_FLIGHT, QUEUED, TaskState
from taskyard_server.core.timers import Holder

if TYPE_CHECKING:
    from taskyard_server.core.task import Task
    from taskyard_server.core.task_options import TaskOptions

# Of an id the digits that name the page: all but the last two of the order of submission.
PAGE_BEGIN: Final = 16
PAGE_END: Final = 24
PAGE_BITS: Final = 8
PAGE_SIZE: Final = 1 << PAGE_BITS
# The two digits after these name the index in the page.
INDEX_END: Final = 26
INDEXES: Final[dict[str, int]] = {f"{index:02x}": index for index in range(PAGE_SIZE)}
NOTED_TIMES: Final = 8
"""How many times as many tasks a page may have noted as it holds."""
Mark = tuple[str, str]
"""A note that few tasks have: the kind of a thing and its name."""
TARGET: Final = "target"
PARENT: Final = "parent"
KEY: Final = "key"


class TaskPage(Holder):
    """Tasks that were submitted one after the other, `size` of them; `name` says where the page belongs.

    `done` are done, and `others` counts those in each state but done, queued and in flight; who changes the state of a
    task keeps these right. Unless it `is_timely` its tasks were created in another order.
    """

    __slots__ = (
        "_by_index",
        "done",
        "is_timely",
        "label_keys",
        "labels",
        "marks",
        "name",
        "noted_agents",
        "others",
        "renew_below",
        "size",
    )

    def __init__(self, name: str) -> None:
        super().__init__()
        self._by_index: list[Task | None] = []
        self.size = 0
        self.done = 0
        self.name = name
        self.others: dict[TaskState, int] = {}
        self.is_timely = True
        self.renew_below = PAGE_SIZE // NOTED_TIMES
        self.noted_agents: set[str] | None = None
        self.labels: set[tuple[str, str]] | None = None
        self.label_keys: set[str] | None = None
        self.marks: set[Mark] | None = None

    @property
    def tasks(self) -> list[Task]:
        """Its tasks in order of submission."""
        return [task for task in self._by_index if task is not None]

    def find(self, task_id: str) -> Task | None:
        """The task of an id that belongs to this page, or None."""
        index = INDEXES.get(task_id[PAGE_END:INDEX_END])
        if index is None or index >= len(self._by_index):
            return None
        task = self._by_index[index]
        return None if task is None or task.id != task_id else task

    def add(self, task: Task) -> None:
        """A task of this page comes, or comes again."""
        index = task.seq & PAGE_SIZE - 1
        missing = index - len(self._by_index)
        if missing >= 0:
            if missing:
                self._by_index.extend([None] * missing)
            self._by_index.append(task)
            self.size += 1
        else:
            self.size += self._by_index[index] is None
            self._by_index[index] = task

    def remove(self, task: Task) -> None:
        """A task of this page goes."""
        self._by_index[task.seq & PAGE_SIZE - 1] = None
        self.size -= 1

    @property
    def agents(self) -> set[str]:
        """The ids of the agents of its tasks, and perhaps of some that left."""
        if self.noted_agents is None:
            self.noted_agents = {task.agent.id for task in self.tasks}
        return self.noted_agents

    def renew(self) -> None:
        """Note what the tasks have that are here, and nothing else."""
        self.renew_below = max(1, self.size // NOTED_TIMES)
        self.noted_agents = None
        self.labels = self.label_keys = self.marks = None
        for task in self.tasks:
            self.note(task.options)

    def see_times(self) -> None:
        """See whether the tasks were created in the order of their submission."""
        created = [task.created_at for task in self.tasks]
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
        return self.size - self.done - sum(self.others.values())

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
