"""One operation on many tasks: what was asked for, and how far it has come (docs/rules.md, Operations)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

# The compiled form needs a class that is the type of a field when it makes the named tuple.
from taskyard_server.core.search.task_filter import TaskFilter

if TYPE_CHECKING:
    from taskyard_server.core.names import Names
    from taskyard_server.core.task import Task


class OperationKind(StrEnum):
    """The kind of an operation; the values are those of the API."""

    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    RESOLVE = "resolve"
    REPRIORITIZE = "reprioritize"


class OperationStatus(StrEnum):
    """How far an operation is; the values are those of the API."""

    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    CANCELLED = "cancelled"


class OperationRequest(NamedTuple):
    """The request of a caller, under an id of its own making.

    `task_filter` holds the agents of the caller, whose tasks alone it is about. `shown_filter` is the filter as the
    caller gave it, to be shown; None for all tasks. `token_limit` is for resuming, `result` for resolving, `reason` for
    that, cancelling and pausing.
    """

    operation_id: str
    kind: OperationKind
    task_filter: TaskFilter
    shown_filter: bytes | None = None
    token_limit: int | None = None
    result: bytes | None = None
    priority: int = 0
    reason: str | None = None

    def asks_the_same(self, other: OperationRequest) -> bool:
        """True if another request under the same id is a repeat of this one, however its filter was spelled."""
        return self._replace(shown_filter=None) == other._replace(shown_filter=None)


class Operation:
    """One operation. It has looked at the tasks up to `after`, those up to `until` were submitted before it.

    `matched` is known once `is_counted`. `waits_for` is the task for which there is no room in the queue.
    """

    __slots__ = (
        "after",
        "created_at",
        "done",
        "ended_at",
        "failed",
        "first_error",
        "is_counted",
        "matched",
        "number",
        "request",
        "skipped",
        "status",
        "until",
        "waits_for",
    )

    def __init__(self, number: int, request: OperationRequest, created_at: float, until: int) -> None:
        self.number = number
        self.request = request
        self.created_at = created_at
        self.until = until
        self.after = 0
        self.is_counted = False
        self.matched = 0
        self.done = 0
        self.skipped = 0
        self.failed = 0
        self.first_error: str | None = None
        self.status = OperationStatus.RUNNING
        self.ended_at: float | None = None
        self.waits_for: Task | None = None

    @property
    def agents(self) -> Names | None:
        """The agents of the caller who began it; None for all."""
        return self.request.task_filter.agents

    @property
    def name(self) -> tuple[Names | None, str]:
        """The key by which it is known: ids of callers with other agents are others."""
        return self.agents, self.request.operation_id
