"""The tasks that a watch has shown before it follows the log, so that what they include is not sent again."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from taskyard_server.core.events import Event
    from taskyard_server.core.task import Task

    from .recent_events import RecentEvents

LAST: Final = 2**63
"""Comes after every task."""


class ShownTasks:
    """Tasks that were shown one by one, and such that were listed in the order of their numbers.

    Each includes the events up to a position in the log, which may be still to come there, and up to its `commit`.
    """

    def __init__(self, events: RecentEvents) -> None:
        self._events = events
        self._end = 0
        self._last_commit = 0
        self._one_by_one: dict[str, tuple[int, int]] = {}
        self._listed_to: list[int] = []
        self._listed_at: list[int] = []

    def add(self, task: Task, position: int) -> None:
        """Note a task that was shown as it was at a position, or as of its commit if that is later."""
        self._one_by_one[task.id] = (position, task.commit)
        self._end = max(self._end, position)
        self._last_commit = max(self._last_commit, task.commit)

    def add_listed(self, after: int | None, position: int) -> None:
        """Note that a listing went on to `after`, or to its end, and shows its tasks as they were at a position."""
        self._listed_to.append(LAST if after is None else after)
        self._listed_at.append(position)
        self._end = max(self._end, position)

    def include(self, number: int, event: Event) -> bool:
        """True if what was shown of the task of an event includes it."""
        task = event.task
        if (shown := self._one_by_one.get(task.id)) is not None:
            return number <= shown[0] or 0 < self._events.commit_of(number) <= shown[1]
        index = bisect_left(self._listed_to, task.seq)
        return index < len(self._listed_to) and number <= self._listed_at[index]

    def are_passed_at(self, position: int) -> bool:
        """True if none of the events after a position is included."""
        return position >= self._end and self._events.last_commit >= self._last_commit
