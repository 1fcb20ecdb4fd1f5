"""Which deadlines of live tasks have passed (docs/rules.md, Deadlines).

Most tasks end long before their deadline. So a deadline costs nothing until a look at its page, at the first deadline
that a task of the page had when it was last looked at (`timers.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from .task import TIMED
from .timers import TimerOrder, Timers, tick_of

if TYPE_CHECKING:
    from .search.task_pages import TaskPage
    from .task import Task


class Deadlines:
    """The deadlines of tasks that wait, are parked or in flight; `expire` is called with each that passes.

    `stood_still_secs` is how long default deadlines stood still because nobody served the namespace.
    """

    def __init__(self, timers: Timers, expire: Callable[[float, Task], None]) -> None:
        self.stood_still_secs = 0.0
        self._expire = expire
        self._due = timers.queue(self._pass, TimerOrder.DEADLINE)
        self.pages = timers.looks(self._first, self._due, self.add)

    def add(self, task: Task) -> None:
        """A task may have a deadline. Nobody has to tell when it has none any more, or a later one."""
        page = task.page
        if task.due_at < page.look_at:
            self.pages.no_later(task.due_at, page)

    def _first(self, page: TaskPage, tick: int) -> float:
        first = inf
        for task in page.tasks:
            at = task.due_at
            if at < first and task.state in TIMED:
                if tick and tick_of(at) <= tick:
                    self._due.add(at, task)
                else:
                    first = at
        return first

    def _pass(self, now: float, task: Task) -> bool:
        if task.is_overdue(now) and task.state in TIMED:
            self._expire(now, task)
            return True
        return False
