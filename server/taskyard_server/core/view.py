"""The state of one namespace as the engine and the store read it; nothing is changed through it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .lifecycle import Lifecycle
    from .stats import Counters
    from .task import Task


class View:
    """The tasks of a namespace and what is counted of them, for reading alone."""

    def __init__(self, life: Lifecycle) -> None:
        self._life = life

    @property
    def queued(self) -> int:
        """Pending and queued tasks."""
        return self._life.counts.queued

    @property
    def inflight(self) -> int:
        """Assigned and running tasks."""
        return self._life.counts.inflight

    @property
    def paused(self) -> int:
        """Paused tasks."""
        return self._life.counts.paused

    @property
    def parked(self) -> int:
        """Parked tasks."""
        return self._life.counts.parked

    @property
    def has_tasks(self) -> bool:
        """True while any task is retained."""
        return next(self._life.tasks.after(0), None) is not None

    @property
    def aside(self) -> list[int]:
        """The orders of submission of the tasks that are kept, since others need them, though their time is over."""
        return [task.seq for task in self._life.retention.aside]

    @property
    def last_seq(self) -> int:
        """The number of the last task; 0 before the first."""
        return self._life.tasks.last_seq

    @property
    def last_token(self) -> int:
        """The fencing token of the last grant; 0 before the first."""
        return self._life.grants.last_token

    @property
    def last_agent_number(self) -> int:
        """The number of the last agent whose figures were begun; 0 before the first."""
        return self._life.agents.figures.last_number

    @property
    def stood_still_secs(self) -> float:
        """How long default deadlines stood still, because nobody served the namespace."""
        return self._life.deadlines.stood_still_secs

    @property
    def tells_position(self) -> bool:
        """False where no task says how many were counted as queued after it."""
        return self._life.readers.tells_position

    @property
    def counters(self) -> Counters:
        """The counts since the namespace began."""
        return self._life.counters

    @property
    def event_count(self) -> int:
        """How many events there are to be taken."""
        return self._life.event_count

    def has_event_of(self, task: Task) -> bool:
        """True if something has happened to a task since events were taken."""
        return self._life.has_event_of(task)

    def has_key(self, task: Task) -> bool:
        """True if a repeat of the key that a task was submitted with is answered by this task."""
        key = task.options.key
        return key is not None and self._life.tasks.by_key.get((task.agent.id, key.key)) is task

    def tie_break_of_agent(self, name: str) -> int:
        """The tie-break of an agent in the order of claims; 0 if it has no task."""
        agent = self._life.agents.by_id.get(name)
        return 0 if agent is None else self._life.ready.tie_break_of(agent)

    def live_below(self, task_id: str) -> list[Task]:
        """The tasks that descend from this one and have not ended."""
        return self._life.children.live_below(task_id)
