"""What the core told of tasks and of triggers, in one order: the model follows it and takes ids and chances from it.

What happens to tasks is given to the model as a fact, since another simulation covers it (`tests/simulation`); what it
means for triggers the model works out by itself.
"""

from __future__ import annotations

from collections import deque
from math import floor, inf
from typing import Any, Final, NamedTuple

from taskyard_server.core.events import Event
from taskyard_server.core.lifecycle import Lifecycle
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.schedules.schedule import TriggerEvent

FLYING: Final = ("assigned", "running")
WAITING: Final = ("pending", "queued")
ENDED: Final = ("done", "failed", "cancelled", "rejected")


class OfTask(NamedTuple):
    """Something that happened to a task. `key` is its idempotency key."""

    kind: str
    task: str
    agent: str
    before: str | None
    state: str
    error: str | None
    key: str | None


class OfTrigger(NamedTuple):
    """Something that happened to a trigger; `due_at` and `schedule` tell which."""

    at: float
    kind: str
    trigger: str
    schedule: str
    due_at: float


Entry = OfTask | OfTrigger


def record(core: Scheduler) -> list[Event | TriggerEvent]:
    """What a core tells from now on, until this is called again: one list takes the place of both that it has."""
    told: list[Any] = []
    if core.changes is not None:
        core.changes.see([event for event in core._life._events if isinstance(event, Event)])
    core._life._events = told
    core.schedules._dispatcher.events = told
    return told


def tape_of(told: list[Event | TriggerEvent]) -> deque[Entry]:
    """What was told, as the model reads it."""
    tape: deque[Entry] = deque()
    for event in told:
        if isinstance(event, TriggerEvent):
            trigger = event.trigger
            tape.append(OfTrigger(event.at, event.kind, trigger.id, trigger.schedule.id, trigger.due_at))
        elif event.kind != "progressed":
            task, key = event.task, event.task.options.key
            key_text = None if key is None else key.key
            tape.append(OfTask(event.kind, task.id, task.agent.id, event.before, event.state, event.error, key_text))
    return tape


def tick_of(at: float) -> int:
    """When the core looks at what is due at `at`, in eighths of a second: never before, and soon after."""
    return floor(at * 8) + 1


class Ticks:
    """When time may do something to tasks, in ticks, as it stood before a command."""

    def __init__(self, life: Lifecycle) -> None:
        self._of: dict[str, tuple[float, float, float]] = {}
        for task in life.tasks.after(0):
            if task.state not in ENDED:
                lease, due = task.lease, task.history.not_before
                self._of[task.id] = (
                    inf if task.deadline is None else tick_of(task.deadline),
                    inf if lease is None else tick_of(lease.due),
                    inf if due is None else tick_of(due),
                )

    def of(self, entry: OfTask) -> float:
        """The tick of something that time did, infinite for forgetting a task, which comes last."""
        if entry.kind == "evicted":
            return inf
        deadline, lease, due = self._of[entry.task]
        if entry.error is not None and entry.error.startswith("deadline exceeded"):
            return deadline
        return due if entry.before == "pending" and entry.state == "queued" else lease
