"""Ends of tasks that parked tasks wait for (docs/rules.md, Parked tasks).

The end of a task is noted, and those that wait for it are told of it one by one, in `act_on_one`, so that thousands of
them hold nobody up: the end that came first comes first, and of those that wait for it the oldest task. It goes on once
it was told of all that one of its waits is for. A task that is resumed has not ended: those that were not told of its
end wait for it as before. None of this is stored: what has ended by a restart is found by its state.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from taskyard_server.core.history import ENDS
from taskyard_server.core.task import TERMINAL

if TYPE_CHECKING:
    from taskyard_server.core.history import Wait
    from taskyard_server.core.task import Task
    from taskyard_server.core.task_table import TaskTable

EARLIER: Final = ""
"""Stands for the tasks of a wait that had all ended before it was noted."""


class NotedEnd:
    """The end of a task that those in `waiting` are to be told of, the next one last once they are in order."""

    __slots__ = ("is_in_order", "waiting")

    def __init__(self, waiting: dict[Task, None]) -> None:
        self.waiting = waiting
        self.is_in_order = False


class AwaitedEnds:
    """The tasks of one namespace whose ends parked tasks wait for, those that have ended among them.

    `on_over` is called with a parked task that is to go on, since all tasks of one of its waits have ended.
    """

    def __init__(self, tasks: TaskTable) -> None:
        self.on_over: Callable[[float, Task], None]
        self._tasks = tasks
        self._awaited: dict[str, dict[Task, None]] = {}
        """By the id of a task that lives those that wait for its end."""
        self._noted: OrderedDict[str, NotedEnd] = OrderedDict()
        """By the id of a task that has ended, the oldest end first."""
        self._unended: dict[Task, list[set[str]]] = {}
        """By a parked task, for each of its waits, the tasks of whose ends it was not told."""
        self._since = 0.0

    def is_over(self, wait: Wait) -> bool:
        """True if a wait is for the ends of tasks, none of which lives."""
        return wait.kind == ENDS and not any(map(self._is_live, wait.about))

    def wait(self, now: float, task: Task) -> bool:
        """Note a parked task by those that it waits for; returns true if a wait is over, for which it has a turn."""
        park = task.history.park
        assert park is not None
        is_any_over = False
        for wait in park.waits:
            if wait.kind == ENDS:
                unended = {each for each in wait.about if self._is_live(each)}
                for each in unended:
                    self._awaited.setdefault(each, {})[task] = None
                if not unended:
                    is_any_over = True
                    unended.add(EARLIER)
                    if EARLIER in self._noted:
                        self._noted[EARLIER].waiting[task] = None
                    else:
                        self._note(now, EARLIER, {task: None})
                self._unended.setdefault(task, []).append(unended)
        return is_any_over

    def withdraw(self, task: Task) -> None:
        """A parked task goes on or ends, or is to be noted anew."""
        for each in {each for unended in self._unended.pop(task, ()) for each in unended}:
            waiting = self._awaited.get(each)
            if waiting is not None:
                del waiting[task]
                if not waiting:
                    del self._awaited[each]
            else:
                noted = self._noted[each]
                del noted.waiting[task]
                if not noted.waiting:
                    del self._noted[each]

    def ended(self, now: float, task: Task) -> None:
        """A task has ended: those that wait for that have their turns."""
        waiting = self._awaited.pop(task.id, None) if self._awaited else None
        if waiting is not None:
            self._note(now, task.id, waiting)

    def resumed(self, task: Task) -> None:
        """A task lives again that may have ended: those that were not told of that wait for its next end."""
        noted = self._noted.pop(task.id, None)
        if noted is not None:
            self._awaited[task.id] = noted.waiting

    def next_due(self) -> float | None:
        """Since when tasks are to be told of ends; None if none is."""
        return self._since if self._noted else None

    def act_on_one(self, now: float) -> bool:
        """Tell the next task of an end, upon which it may go on; false if none is to be told."""
        for ended, noted in self._noted.items():
            if not noted.is_in_order:
                noted.waiting = dict.fromkeys(sorted(noted.waiting, key=_youngest_first))
                noted.is_in_order = True
            task, _ = noted.waiting.popitem()
            if not noted.waiting:
                del self._noted[ended]
            its = self._unended[task]
            for unended in its:
                unended.discard(ended)
            if not all(its):
                self._go_on(now, task)
            return True
        return False

    def _go_on(self, now: float, task: Task) -> None:
        park = task.history.park
        assert park is not None
        if any(map(self.is_over, park.waits)):
            self.on_over(now, task)
        else:
            # One that it was told of was resumed since.
            self.withdraw(task)
            self.wait(now, task)

    def _note(self, now: float, ended: str, waiting: dict[Task, None]) -> None:
        if not self._noted:
            self._since = now
        self._noted[ended] = NotedEnd(waiting)

    def _is_live(self, task_id: str) -> bool:
        task = self._tasks.get(task_id)
        return task is not None and task.state not in TERMINAL


def _youngest_first(task: Task) -> int:
    return -task.seq
