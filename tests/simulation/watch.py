"""The core's transitions, watched on their own: each legal, each task ended once a run, every figure a recount of them.

It knows the table of DESIGN and the list of transitions, nothing of the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from taskyard_server.core.stats import Counters
from taskyard_server.core.task import Task

from .indexes import same
from .model import ARROWS, ENDED

Moved: TypeAlias = tuple[float, Task, str]
"""When, which task, and the state it took."""


class Watch:
    """What one scheduler's transitions add up to."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}
        self._queued_at: dict[str, float] = {}
        self._over: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._latency = 0.0

    def see(self, now: float, moved: Sequence[Moved]) -> None:
        """Raise AssertionError for a transition that DESIGN does not allow, or for a second end of one run."""
        for at, task, state in moved:
            before = self._states.get(task.id)
            if state not in ARROWS[before]:
                raise AssertionError(f"{task.id} went from {before} to {state}")
            same(f"time of the transition of {task.id}", at, now)
            if state in ENDED and task.id in self._over:
                raise AssertionError(f"{task.id} ended twice, now as {state}")
            if state in ENDED:
                self._over.add(task.id)
            elif before in ENDED:
                self._over.discard(task.id)
            self._states[task.id] = str(state)
            self._count(at, task, before, state)

    def _count(self, at: float, task: Task, before: str | None, state: str) -> None:
        if state == "queued":
            self._queued_at[task.id] = at
            self._counts["submitted"] += before is None
        elif state == "assigned":
            self._counts["dispatched"] += 1
            self._latency += at - self._queued_at[task.id]
        elif state in ENDED:
            self._counts[state] += 1
            self._counts["expired"] += state == "failed" and before == "queued"

    def compare(self, counters: Counters, tasks: Iterable[Task]) -> None:
        """Raise AssertionError if states or counters are not what the transitions made them."""
        present = {task.id: task.state for task in tasks}
        if len(present) < len(self._states):
            self._forget(present)
        same("states after all transitions", present, self._states)
        counts = self._counts
        found = (counters.submitted, counters.completed, counters.failed, counters.cancelled, counters.rejected)
        same(
            "counters", found, tuple(counts[name] for name in ("submitted", "done", "failed", "cancelled", "rejected"))
        )
        found = (counters.dispatched, counters.expired, counters.dispatch_latency_secs)
        same("counters of hand-outs and expiry", found, (counts["dispatched"], counts["expired"], self._latency))
        live = sum(state not in ENDED for state in present.values())
        same("submitted", counters.submitted, counters.completed + counters.failed + counters.cancelled + live)
        retained = sum(state in ENDED and state != "rejected" for state in present.values())
        if counters.completed + counters.failed + counters.cancelled < retained + counters.evicted:
            raise AssertionError(f"{counters.evicted} evicted and {retained} retained are more than ended")

    def _forget(self, present: dict[str, str]) -> None:
        """Only tasks that have ended may be gone."""
        for task_id in [task_id for task_id in self._states if task_id not in present]:
            state = self._states.pop(task_id)
            if state not in ENDED:
                raise AssertionError(f"{task_id} was {state} and is gone")
            self._over.discard(task_id)
            self._queued_at.pop(task_id, None)
