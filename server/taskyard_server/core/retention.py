"""Terminal tasks that may still be asked for, oldest first, until their time or the space is over."""

from collections import deque

from .task import Task


class Retention:
    """Tasks in the order in which they ended.

    An entry of a task that has left its terminal state, or ended again since, is dead and is passed over.
    """

    def __init__(self) -> None:
        self._ended: deque[tuple[float, Task]] = deque()

    def add(self, task: Task) -> None:
        """Retain a task that has just ended."""
        assert task.completed_at is not None
        self._ended.append((task.completed_at, task))

    def __len__(self) -> int:
        return len(self._ended)

    def oldest(self) -> float | None:
        """When the oldest retained task ended."""
        ended = self._ended
        while ended and ended[0][1].completed_at != ended[0][0]:
            ended.popleft()
        return ended[0][0] if ended else None

    def pop(self) -> Task:
        """The oldest retained task, no longer retained. Call only where `oldest` is not None."""
        return self._ended.popleft()[1]
