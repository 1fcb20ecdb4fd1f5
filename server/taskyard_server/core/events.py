"""What happened to tasks, in order.

An event holds what was true just after it of everything on a task that changes, since the task itself goes on changing.
`result` and `completed_at` need no place: `done` is never left, and a terminal event is itself the end.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .task import Task, TaskState


class EventKind(StrEnum):
    """What kind of thing happened."""

    SUBMITTED = "submitted"
    CHANGED = "changed"
    PROGRESSED = "progressed"
    EVICTED = "evicted"
    REPRIORITIZED = "reprioritized"

    # That of an enum is written in Python, and kinds are looked up with every event.
    __hash__ = str.__hash__


class Event:
    """One thing that happened to one task. `before` is the state before it, None for a new task."""

    __slots__ = (
        "at",
        "attempt_started_at",
        "before",
        "deadline",
        "error",
        "history",
        "host_id",
        "kind",
        "progress",
        "started_at",
        "state",
        "task",
    )

    def __init__(self, at: float, task: Task, kind: EventKind, before: TaskState | None) -> None:
        self.at = at
        self.task = task
        self.kind = kind
        self.before = before
        self.state = task.state
        self.host_id = task.host_id
        self.started_at = task.started_at
        lease = task.lease
        self.attempt_started_at = None if lease is None else lease.started_at
        self.deadline = task.deadline
        self.history = task.history
        self.error = task.error
        self.progress = task.progress
