"""Terminal tasks that may still be asked for, oldest first, until their time or the space is over."""

from collections import OrderedDict

from .task import Task


class Retention:
    """Tasks in the order in which they ended."""

    def __init__(self) -> None:
        self._ended: OrderedDict[Task, None] = OrderedDict()

    def add(self, task: Task) -> None:
        """Retain a task that has just ended."""
        self._ended[task] = None

    def remove(self, task: Task) -> None:
        """The task has left its terminal state, if it is retained here at all."""
        self._ended.pop(task, None)

    def __len__(self) -> int:
        return len(self._ended)

    def oldest(self) -> float | None:
        """When the oldest retained task ended."""
        task = next(iter(self._ended), None)
        return None if task is None else task.completed_at

    def pop(self) -> Task:
        """The oldest retained task, no longer retained. Call only where there is one."""
        return self._ended.popitem(last=False)[0]
