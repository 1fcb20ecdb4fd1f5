"""The children that tasks have by name, as long as these may run again (docs/rules.md, Children).

A child is found by its name, and retained with what became of it, until its parent has ended for good, or has failed
and would be forgotten if nobody needed it: a child may need its parent, and then neither would ever go. Which those of
a parent are stands in its history, so that a restart has them again, and so has a parent that is resumed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from taskyard_server.core.errors import NotFound
from taskyard_server.core.task import CANCELLED, DONE, REJECTED

if TYPE_CHECKING:
    from taskyard_server.core.task import Task
    from taskyard_server.core.task_table import TaskTable

OVER: Final = (DONE, CANCELLED, REJECTED)
"""Who has ended so never runs again."""


class NamedChildren:
    """The named children of the tasks of one namespace, by their parents, as long as these may run again.

    `on_let_go` is called with a child that nobody looks for any more.
    """

    def __init__(self, tasks: TaskTable) -> None:
        self._tasks = tasks
        self._of: dict[Task, dict[str, Task]] = {}
        self.on_let_go: Callable[[Task], None]

    def find(self, parent: Task, name: str) -> Task | None:
        """The child that a task has under a name."""
        children = self._of.get(parent)
        return None if children is None else children.get(name)

    def get(self, parent: Task, name: str) -> Task:
        """The same. Raises `NotFound`."""
        child = self.find(parent, name)
        if child is None:
            raise NotFound("child not found")
        return child

    def add(self, parent: Task, child: Task) -> None:
        """A task that may run again has this child, which has its name."""
        name = child.options.extras.child_name
        assert name is not None
        children = self._of.get(parent)
        if children is None:
            children = self._of[parent] = {}
        children[name] = child

    def holds(self, task: Task) -> bool:
        """True if a task is the child of one that may run again."""
        if not self._of:
            return False
        name, parent_id = task.options.extras.child_name, task.options.parent_id
        parent = None if name is None or parent_id is None else self._tasks.get(parent_id)
        return parent is not None and name is not None and self.find(parent, name) is task

    def let_go(self, parent: Task) -> None:
        """The children of a task need not be retained for it any more. Nothing happens if it has none."""
        for child in self._of.pop(parent, {}).values():
            self.on_let_go(child)

    def restored(self, parent: Task) -> None:
        """A task is there again, or lives again: it has its children, as far as they are retained."""
        if parent.state in OVER:
            return
        for seq in parent.history.children:
            child = next(self._tasks.after(seq - 1), None)
            if child is not None and child.seq == seq and child.options.parent_id == parent.id:
                self.add(parent, child)
