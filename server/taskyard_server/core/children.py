"""Which live tasks the work of a task has submitted, so that a cancel finds them without a look at all others.

A parent is named by its children alone: it need not exist. A task that has ended is remembered while something below it
lives, so that a cancel from above reaches that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .runs.named_children import NamedChildren
from .runs.parent_ends import ParentEnds
from .task import QUEUED

if TYPE_CHECKING:
    from .task import Task
    from .task_table import TaskTable


class Children:
    """Live tasks that have a parent, by that; `ends` are those that end with it, `named` those that it has by name.

    `tasks` are all that are in memory.
    """

    def __init__(self, tasks: TaskTable) -> None:
        self._tasks = tasks
        self.ends = ParentEnds(tasks)
        self.named = NamedChildren(tasks)
        # By the id of a parent its children, each the task if it lives, None if only something below it does.
        self._below: dict[str, dict[str, Task | None]] = {}
        self._parents: dict[str, str] = {}

    def add(self, task: Task) -> None:
        """A task that has a parent lives. It may be here already."""
        parent_id = task.options.parent_id
        assert parent_id is not None
        # Names can be given before their tasks exist. In a circle of them nobody would be the first to be forgotten.
        if parent_id == task.id or (task.id in self._below and self._is_below(parent_id, task.id)):
            return
        self._put(task.id, parent_id, task)
        self._link(parent_id)

    def ended(self, task: Task) -> None:
        """A task that has a parent has ended; nothing happens if it is not here."""
        parent_id = self._parents.get(task.id)
        if parent_id is not None:
            self._below[parent_id][task.id] = None
            self._drop(task.id)

    def restored(self, task: Task) -> None:
        """A task had ended before all that lives came back."""
        if task.id in self._below:
            self._link(task.id)

    def live_below(self, task_id: str) -> list[Task]:
        """The live tasks that descend from one, in order of submission."""
        found: list[Task] = []
        names = [task_id]
        seen = {task_id}
        index = 0
        while index < len(names):
            below = self._below.get(names[index])
            index += 1
            if below is None:
                continue
            for name, task in below.items():
                if name not in seen:
                    seen.add(name)
                    names.append(name)
                    if task is not None:
                        found.append(task)
        found.sort(key=_seq)
        return found

    def any_queued_below(self, task_id: str) -> bool:
        """True if something that descends from a task is queued."""
        names = [task_id]
        for name in names:
            for child_id, child in self._below.get(name, {}).items():
                if child is not None and child.state is QUEUED:
                    return True
                names.append(child_id)
        return False

    def _put(self, task_id: str, parent_id: str, task: Task | None) -> None:
        below = self._below.get(parent_id)
        if below is None:
            below = self._below[parent_id] = {}
        below[task_id] = task
        self._parents[task_id] = parent_id

    def _link(self, task_id: str) -> None:
        """Remember the ancestors of something that lives, as far up as they are in memory."""
        while task_id not in self._parents:
            task = self._tasks.get(task_id)
            if task is None or task.options.parent_id is None:
                return
            self._put(task_id, task.options.parent_id, None)
            task_id = task.options.parent_id

    def _is_below(self, task_id: str | None, ancestor_id: str) -> bool:
        while task_id is not None and task_id != ancestor_id:
            task_id = self._parents.get(task_id)
        return task_id is not None

    def _drop(self, task_id: str) -> None:
        """Forget what has ended, from here up, as far as nothing lives below it."""
        while task_id not in self._below:
            parent_id = self._parents.get(task_id)
            if parent_id is None or self._below[parent_id][task_id] is not None:
                return
            del self._parents[task_id]
            del self._below[parent_id][task_id]
            if self._below[parent_id]:
                return
            del self._below[parent_id]
            task_id = parent_id


def _seq(task: Task) -> int:
    return task.seq
