"""Which tasks are meant: the criteria of listings and of operations on many tasks (docs/rules.md, Listing)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from taskyard_server.core.task import CANCELLED, FAILED, PAUSED, REJECTED

if TYPE_CHECKING:
    from taskyard_server.core.names import Names
    from taskyard_server.core.task import Task, TaskState

    from .label_selectors import Selector


WITH_ERROR: Final = frozenset({PAUSED, FAILED, CANCELLED, REJECTED})
"""The states in which a task can have an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """The tasks that match every criterion; None matches all.

    `agents` are those of the caller. The others are as in the messages: times are seconds on the core's clock, of which
    `created_from` and `ended_from` are included, the others are not. `host_id` is the host that has the task or had it
    last. `id_prefix` is how the id begins. `error` is a text that the error must hold, case-folded. It matches no task
    of other agents than `payloads`, whose errors the caller is not shown.
    """

    agents: Names | None = None
    payloads: Names | None = None
    agent_id: str | None = None
    states: frozenset[TaskState] | None = None
    batch_id: str | None = None
    target: str | None = None
    parent_id: str | None = None
    created_from: float | None = None
    created_until: float | None = None
    labels: Selector | None = None
    action: str | None = None
    host_id: str | None = None
    concurrency_key: str | None = None
    ended_from: float | None = None
    ended_until: float | None = None
    error: str | None = None
    id_prefix: str | None = None

    def matches(self, task: Task) -> bool:
        """True if the task matches every criterion."""
        options = task.options
        return (
            (self.id_prefix is None or task.id.startswith(self.id_prefix))
            and (self.agents is None or task.agent_id in self.agents)
            and (self.agent_id is None or task.agent_id == self.agent_id)
            and (self.states is None or task.state in self.states)
            and (self.batch_id is None or options.batch_id == self.batch_id)
            and (self.target is None or options.target == self.target)
            and (self.parent_id is None or options.parent_id == self.parent_id)
            and (self.created_from is None or task.created_at >= self.created_from)
            and (self.created_until is None or task.created_at < self.created_until)
            and (self.action is None or task.action == self.action)
            and (self.host_id is None or task.host_id == self.host_id)
            and (self.concurrency_key is None or self.concurrency_key in options.extras.concurrency_keys)
            and (self.labels is None or self.labels.matches(options.labels))
            and ((self.ended_from is None and self.ended_until is None) or self._ended_in_time(task))
            and (self.error is None or self._has_error(task, self.error))
        )

    def _has_error(self, task: Task, text: str) -> bool:
        is_shown = self.payloads is None or task.agent_id in self.payloads
        return is_shown and task.error is not None and text in task.error.casefold()

    def _ended_in_time(self, task: Task) -> bool:
        ended = task.completed_at
        return (
            ended is not None
            and (self.ended_from is None or ended >= self.ended_from)
            and (self.ended_until is None or ended < self.ended_until)
        )

    @property
    def is_empty(self) -> bool:
        """True if it has no criterion of its own: all tasks that the caller may see match."""
        return self == TaskFilter(agents=self.agents)


NO_FILTER: Final = TaskFilter()
