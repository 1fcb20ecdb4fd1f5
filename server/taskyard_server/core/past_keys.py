"""Idempotency keys that are known longer than their tasks are in memory (docs/rules.md, Idempotency).

A key is here, or its task is in memory and has it, never both. What is left of a task is what answers a repeat: 500
bytes with all that leads to it, and the text of the key. There are at most as many as submissions with a key came in
`idempotency_secs`. A key is dropped by its timer, so it is known until the tick after its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .agents import Agent
from .task import Submission, Task, TaskState
from .task_options import IdempotencyKey, TaskOptions
from .timers import TimerOrder

if TYPE_CHECKING:
    from .timers import Timers

Name = tuple[str, str]
"""An agent and its key."""


class PastKey:
    """A key, known `until` then, and what is still told of its task."""

    __slots__ = ("created_at", "fingerprint", "name", "position", "state", "task_id", "until")

    def __init__(
        self,
        name: Name,
        fingerprint: bytes,
        task_id: str,
        state: TaskState,
        position: int | None,
        created_at: float,
        until: float,
    ) -> None:
        self.name = name
        self.fingerprint = fingerprint
        self.task_id = task_id
        self.state = state
        self.position = position
        self.created_at = created_at
        self.until = until


class PastKeys:
    """The keys of one namespace whose tasks have left memory."""

    def __init__(self, timers: Timers) -> None:
        self._by_name: dict[Name, PastKey] = {}
        self._due = timers.queue(self._forget, TimerOrder.FORGET_KEY)

    def __len__(self) -> int:
        return len(self._by_name)

    def add(self, past: PastKey) -> None:
        """Know a key that no task in memory has, and that is not here."""
        self._by_name[past.name] = past
        self._due.add(past.until, past)

    def find(self, name: Name) -> Task | None:
        """As much as is known of the task that had a key, in no index; None for a key that is not here."""
        past = self._by_name.get(name)
        if past is None:
            return None
        agent_id, key = name
        options = TaskOptions(key=IdempotencyKey(key, past.fingerprint))
        submission = Submission(agent_id, "", options=options)
        task = Task(past.task_id, 0, Agent(agent_id, 0), submission, past.created_at, None, past.state)
        task.position = past.position
        return task

    def forget_positions(self) -> None:
        """Tell of no task how many were counted as queued after it."""
        for past in self._by_name.values():
            past.position = None

    def give_back(self, name: Name, task_id: str) -> bool:
        """Forget the key of a task that is in memory again; False if it is that of another task, which keeps it."""
        past = self._by_name.get(name)
        if past is None:
            return True
        if past.task_id != task_id:
            return False
        self._due.remove(past.until, past)
        del self._by_name[name]
        return True

    def _forget(self, now: float, past: PastKey) -> None:
        del now
        del self._by_name[past.name]
