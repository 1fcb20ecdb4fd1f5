"""Terminal tasks that may still be asked for, oldest first, until their time or the space is over."""

from collections import deque
from typing import Final

from .task import Task

FEW: Final = 64


class Retention:
    """Tasks in the order in which they ended; it owns their `retained`.

    A task that goes on leaves its place in the line behind until that comes to the front, or until most are such.
    """

    def __init__(self) -> None:
        self._line: deque[Task] = deque()
        self._count = 0
        # How many of its places a task has left behind. They are older than the one that it may have besides.
        self._left: dict[Task, int] = {}

    def add(self, task: Task) -> None:
        """Retain a task that has just ended."""
        task.retained = True
        self._line.append(task)
        self._count += 1

    def remove(self, task: Task) -> None:
        """The task has left its terminal state, if it is retained here at all."""
        if not task.retained:
            return
        task.retained = False
        self._count -= 1
        self._left[task] = self._left.get(task, 0) + 1
        if len(self._line) > 2 * self._count + FEW:
            self._line = deque([task for task in self._line if not self._is_left(task)])
        self._tidy()

    def __len__(self) -> int:
        return self._count

    def oldest(self) -> float | None:
        """When the oldest retained task ended."""
        return self._line[0].completed_at if self._line else None

    def pop(self) -> Task:
        """The oldest retained task, no longer retained. Call only where there is one."""
        task = self._line.popleft()
        task.retained = False
        self._count -= 1
        if self._left:
            self._tidy()
        return task

    def _tidy(self) -> None:
        while self._line and self._is_left(self._line[0]):
            self._line.popleft()

    def _is_left(self, task: Task) -> bool:
        """Whether this, the oldest place of a task, was left behind. It is asked once for each such place."""
        left = self._left.get(task)
        if left is None:
            return False
        if left == 1:
            del self._left[task]
        else:
            self._left[task] = left - 1
        return True
