"""The tasks of triggers that have not ended, and their places in flight (docs/rules.md, Trigger places)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from taskyard_server.core.task import IN_FLIGHT, WAITING

if TYPE_CHECKING:
    from taskyard_server.core.queue.ready_queue import ReadyQueue
    from taskyard_server.core.task import Task, TaskState

    from .schedule import Trigger


class TriggeredTasks:
    """The trigger of each of these tasks. `TriggerDispatcher` fills `triggers`, and sets the two callbacks.

    `on_end` is called with a task that has ended, `on_queued` with a trigger of which one more task, or one less, waits
    in the queue. `inflight` counts the tasks in flight: each takes a place of `max_concurrent`.
    """

    def __init__(self, ready: ReadyQueue) -> None:
        self.triggers: dict[Task, Trigger] = {}
        self.on_end: Callable[[float, Task], None]
        self.on_queued: Callable[[Trigger, int], None]
        self.inflight = 0
        self._ready = ready

    def changed(self, task: Task, before: TaskState, state: TaskState, max_concurrent: int) -> None:
        """The state of a task has changed."""
        inflight = (state in IN_FLIGHT) - (before in IN_FLIGHT)
        if inflight:
            self.inflight += inflight
            self.hold(max_concurrent)
        queued = (state in WAITING) - (before in WAITING)
        if queued and (trigger := self.triggers.get(task)) is not None:
            self.on_queued(trigger, queued)

    def restored(self, max_concurrent: int) -> None:
        """A stored task is in flight."""
        self.inflight += 1
        self.hold(max_concurrent)

    def hold(self, max_concurrent: int) -> None:
        """Let no more of them be claimed while all places are taken."""
        self._ready.hold_triggered(self.inflight >= max_concurrent)

    def ended(self, now: float, task: Task) -> None:
        """A task has ended. One whose trigger is not known any more concerns nobody."""
        if task in self.triggers:
            self.on_end(now, task)
