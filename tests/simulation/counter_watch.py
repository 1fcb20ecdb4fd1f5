"""The core's events, watched on their own: each transition legal, each task ended once a run, every figure a recount.

It knows the table of states (docs/rules.md, Task states) and the list of events, nothing of the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from taskyard_server.core.events import Event
from taskyard_server.core.stats import Counters
from taskyard_server.core.task import Task

from .indexes import same
from .model_records import ARROWS, ENDED, FLYING, WAITING


class Watch:
    """What one scheduler's events add up to."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}
        self._queued_at: dict[str, float] = {}
        self._failed: dict[str, int] = {}
        self._over: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._latency = 0.0

    def see(self, events: Sequence[Event]) -> None:
        """Raise AssertionError for a transition that the rules do not allow, or for a second end of one run."""
        for event in events:
            task_id, before = event.task.id, self._states.get(event.task.id)
            same(f"state of {task_id} before it {event.kind}", event.before, before)
            if event.kind == "evicted":
                self._forget(task_id, event.state)
            elif event.kind == "progressed":
                # A task that is held gets artifacts; one that was parked an answer, while it waits or is paused, too.
                goes_on = "pending" if event.history.held else "running"
                if event.history.park is not None and event.state not in ENDED | {"parked"}:
                    goes_on = str(event.state)
                same(f"state of {task_id} that goes on", (event.state, before), (goes_on, goes_on))
            elif event.kind == "reprioritized":
                same(f"state of {task_id} with another priority", event.state, before)
            else:
                same(f"kind of the event of {task_id}", event.kind, "changed" if before else "submitted")
                self._move(event, before)

    def _move(self, event: Event, before: str | None) -> None:
        task_id, state = event.task.id, event.state
        if state not in ARROWS[before]:
            raise AssertionError(f"{task_id} went from {before} to {state}")
        # A failure is only replaced by another end if someone resolves or cancels it.
        if state in ENDED and task_id in self._over and before != "failed":
            raise AssertionError(f"{task_id} ended twice, now as {state}")
        if state in ENDED:
            self._over.add(task_id)
        elif before in ENDED:
            self._over.discard(task_id)
        self._states[task_id] = str(state)
        self._count(event, before)

    def _count(self, event: Event, before: str | None) -> None:
        state, task_id = event.state, event.task.id
        self._counts["submitted"] += before is None and state in WAITING
        if state == "queued":
            self._queued_at[task_id] = event.at
        elif state == "assigned":
            self._counts["dispatched"] += 1
            self._latency += event.at - self._queued_at[task_id]
        elif state in ENDED:
            self._counts[state] += 1
            self._counts["expired"] += state == "failed" and before in WAITING
        self._counts["reopened"] += before == "failed"
        # What is given back to wait has not failed.
        failed = event.history.failed
        self._counts["retried"] += state == "pending" and before in FLYING and failed > self._failed.get(task_id, 0)
        self._failed[task_id] = failed

    def compare(self, counters: Counters, tasks: Iterable[Task]) -> None:
        """Raise AssertionError if states or counters are not what the events made them."""
        present = {task.id: task.state for task in tasks}
        same("states after all transitions", present, self._states)
        counts = self._counts
        found = (counters.submitted, counters.completed, counters.failed, counters.cancelled, counters.rejected)
        same(
            "counters", found, tuple(counts[name] for name in ("submitted", "done", "failed", "cancelled", "rejected"))
        )
        same("reopened", counters.reopened, counts["reopened"])
        same("retried", counters.retried, counts["retried"])
        found = (counters.dispatched, counters.expired, counters.dispatch_latency_secs)
        same("counters of hand-outs and expiry", found, (counts["dispatched"], counts["expired"], self._latency))
        live = sum(state not in ENDED for state in present.values())
        ended = counters.completed + counters.failed + counters.cancelled - counters.reopened
        same("submitted", counters.submitted, ended + live)
        retained = sum(state in ENDED and state != "rejected" for state in present.values())
        if ended < retained + counters.evicted:
            raise AssertionError(f"{counters.evicted} evicted and {retained} retained are more than ended")

    def _forget(self, task_id: str, state: str) -> None:
        """Only tasks that have ended may be gone."""
        if state not in ENDED:
            raise AssertionError(f"{task_id} was {state} and is gone")
        del self._states[task_id]
        self._over.discard(task_id)
        self._queued_at.pop(task_id, None)
        self._failed.pop(task_id, None)
