"""Which tasks end with their parents (docs/rules.md, Parents).

When a parent ends, those of its children that asked for it are noted as to be cancelled, and are so one by one, in
`act_on_one`, so that thousands of them hold nobody up. Until then the parent is retained and cannot be resumed. So
whatever lives and ends with a parent that has ended is one that is to be cancelled, after a restart too. What fails and
is resumed once its parent has ended lives by itself, and its options say so from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from taskyard_server.core.errors import Conflict, NotFound, Unavailable
from taskyard_server.core.task import TERMINAL
from taskyard_server.core.task_options import OnParentEnd

if TYPE_CHECKING:
    from taskyard_server.core.predecessors import Known
    from taskyard_server.core.task import Task
    from taskyard_server.core.task_options import TaskOptions
    from taskyard_server.core.task_table import TaskTable

CANCEL: Final = OnParentEnd.CANCEL

T = TypeVar("T")


class ParentEnds:
    """The live tasks of one namespace that end with their parents.

    `on_orphaned` is called with a task that is to be cancelled and the id of its parent; `on_let_go` with a parent once
    all that ends with it has ended.
    """

    def __init__(self, tasks: TaskTable) -> None:
        self._tasks = tasks
        self.on_orphaned: Callable[[float, Task, str], None]
        self.on_let_go: Callable[[Task], None]
        self.bound: dict[str, dict[Task, None]] = {}
        """By the id of a parent that has not ended, which need not exist, the live tasks that end with it."""
        self.ending: dict[Task, dict[Task, None]] = {}
        """By a parent that has ended the live tasks to be cancelled, the next one last. It is retained meanwhile."""
        self._since = 0.0

    def check(self, options: TaskOptions, known: Known) -> None:
        """Raise `Conflict` if the parent of a new task that ends with it has ended.

        Who may name tasks of certain agents alone gets `NotFound` for any other.
        """
        parent_id = options.parent_id
        assert parent_id is not None
        agents, past = known
        parent = self._tasks.get(parent_id)
        if parent is not None and agents is not None and parent.agent.id not in agents:
            parent = None
        state = past.get(parent_id) if parent is None else parent.state
        if state is None and agents is not None:
            raise NotFound(f"parentId: task {parent_id} not found")
        if state is not None and state in TERMINAL:
            raise Conflict("parentId: the task has ended")

    def bind(self, task: Task) -> None:
        """A live task ends with its parent, if it asks for that."""
        parent_id = task.options.parent_id
        if parent_id is None or task.options.extras.on_parent_end is not CANCEL:
            return
        bound = self.bound.get(parent_id)
        if bound is None:
            bound = self.bound[parent_id] = {}
        bound[task] = None

    def bind_again(self, task: Task) -> None:
        """A failed task is resumed: it ends with its parent only if that lives."""
        options = task.options
        if options.parent_id is None or options.extras.on_parent_end is not CANCEL:
            return
        parent = self._tasks.get(options.parent_id)
        if parent is None or parent.state in TERMINAL:
            task.options = options._replace(extras=options.extras._replace(on_parent_end=OnParentEnd.KEEP))
        else:
            self.bind(task)

    def unbind(self, task: Task) -> None:
        """A task that has a parent ends; nothing happens if it is not here."""
        parent_id = task.options.parent_id
        assert parent_id is not None
        bound = self.bound.get(parent_id)
        if bound is not None and task in bound:
            del bound[task]
            if not bound:
                del self.bound[parent_id]
        elif self.ending:
            parent = self._tasks.get(parent_id)
            children = None if parent is None else self.ending.get(parent)
            if parent is not None and children is not None and task in children:
                del children[task]
                if not children:
                    del self.ending[parent]
                    self.on_let_go(parent)

    def ended(self, now: float, parent: Task) -> None:
        """A task has ended: those that end with it, if any do, are to be cancelled."""
        bound = self.bound.pop(parent.id, None)
        if bound is None:
            return
        if not self.ending:
            self._since = now
        children = list(bound)
        children.reverse()
        self.ending[parent] = dict.fromkeys(children)

    def require_settled(self, parent: Task) -> None:
        """Raise `Unavailable` while tasks that end with this one, which has ended, are to be cancelled."""
        if parent in self.ending:
            raise Unavailable("the children that end with the task are being cancelled")

    def next_due(self) -> float | None:
        """Since when tasks are to be cancelled; None if none is."""
        return self._since if self.ending else None

    def act_on_one(self, now: float) -> bool:
        """Cancel the next task that ends with its parent; False if none is to be cancelled."""
        if not self.ending:
            return False
        parent = _last_of(self.ending)
        self.on_orphaned(now, _last_of(self.ending[parent]), parent.id)
        return True


def _last_of(items: dict[Task, T]) -> Task:
    """The last key of a dict, which is found at once: to look for the first or the last passes by all that are gone."""
    task, value = items.popitem()
    items[task] = value
    return task


def ended_text(parent_id: str) -> str:
    """The error of a task that is cancelled since its parent has ended."""
    return f"parent {parent_id} ended"
