"""Events of tasks, in order.

An event holds what was true just after it of everything on a task that changes, since the task itself goes on changing.
It needs neither `result` nor `completed_at`: `done` is never left, and a terminal event is itself the end. Times are
as on the task, `inf` for none.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, Final

from .native import mypyc_attr

if TYPE_CHECKING:
    from .task import Task, TaskState


class EventKind(StrEnum):
    """The kind of an event."""

    SUBMITTED = "submitted"
    CHANGED = "changed"
    PROGRESSED = "progressed"
    EVICTED = "evicted"
    REPRIORITIZED = "reprioritized"

    # That of an enum is written in Python, and kinds are looked up with every event.
    __hash__ = str.__hash__


SUBMITTED: Final = EventKind.SUBMITTED
CHANGED: Final = EventKind.CHANGED


@mypyc_attr(acyclic=True)
class Event:
    """One thing that happened to one task. `before` is the state before it, None for a new task."""

    __slots__ = (
        "at",
        "attempt_begun_at",
        "before",
        "begun_at",
        "due_at",
        "error",
        "history",
        "host_id",
        "kind",
        "progress",
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
        self.begun_at = task.begun_at
        lease = task.lease
        self.attempt_begun_at = inf if lease is None else lease.begun_at
        self.due_at = task.due_at
        self.history = task.history
        self.error = task.error
        self.progress = task.progress

    @property
    def started_at(self) -> float | None:
        """When the task was started first, None if never."""
        return None if self.begun_at == inf else self.begun_at

    @property
    def attempt_started_at(self) -> float | None:
        """When the attempt was started, None if it was not or if there is none."""
        return None if self.attempt_begun_at == inf else self.attempt_begun_at

    @property
    def deadline(self) -> float | None:
        """The deadline of the task, None if it had none just then."""
        return None if self.due_at == inf else self.due_at


def transitions(events: Sequence[Event]) -> list[Event]:
    """The events by which tasks came into being or changed their state."""
    return [event for event in events if event.kind is CHANGED or event.kind is SUBMITTED]


def changes_to(states: frozenset[TaskState], events: Sequence[Event]) -> list[Event]:
    """The events by which tasks went over into one of these states."""
    return [event for event in events if event.kind is CHANGED and event.state in states]
