"""What may run on each target, by what the core tells: the rules of serial queues, checked on their own.

It learns from leases, events and reports, and knows nothing of the model. A target has one task in flight at a time;
one whose host was not the one to end it counts until the host says that it stopped, or its lease is over. A target with
a paused task, or one that failed after it had started, hands out nothing; else it hands out the oldest that waits.
One that is parked and keeps its target has it until it is handed out again, before all others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from taskyard_server.core.events import Event
from taskyard_server.core.leases import Lease

from .model_records import FLYING

Key = tuple[str, int]


class TargetLedger:
    """The targets of one scheduler, by name."""

    def __init__(self) -> None:
        self._flying: dict[str, str] = {}
        self._blockers: dict[str, set[str]] = {}
        self._waiting: dict[str, dict[str, int]] = {}
        self._keepers: dict[str, str] = {}
        self._leases: dict[str, Lease] = {}
        self._stopping: dict[str, dict[Key, Lease]] = {}

    def given(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            if lease.task.options.target is not None:
                self._leases[lease.task.id] = lease

    def see(self, events: Sequence[Event], reported: Collection[Key]) -> None:
        """`reported` are the tasks and tokens of which the host itself has just told the end."""
        for event in events:
            name = event.task.options.target
            if name is not None and event.kind != "progressed":
                self._leave(event, name, reported)
                self._enter(event, name)

    def stopped(self, host_id: str, keys: Collection[Key]) -> None:
        """The host says that nothing runs under these any more."""
        for leases in self._stopping.values():
            for key in [key for key, lease in leases.items() if key in keys and lease.host.id == host_id]:
                del leases[key]

    def connected(self, host_id: str, listed: Collection[Key]) -> None:
        """What a host does not list of its earlier streams does not run."""
        for leases in self._stopping.values():
            for key, lease in list(leases.items()):
                if lease.host.id == host_id and lease.stream is not None and key not in listed:
                    del leases[key]

    def _leave(self, event: Event, name: str, reported: Collection[Key]) -> None:
        if event.kind == "reprioritized":
            return
        task_id = event.task.id
        if event.kind == "evicted" and task_id in self._blockers.get(name, ()):
            raise AssertionError(f"{task_id} blocks {name} and is forgotten")
        self._waiting.get(name, {}).pop(task_id, None)
        self._blockers.get(name, set()).discard(task_id)
        if event.before in FLYING and event.state not in FLYING:
            del self._flying[name]
            lease = self._leases.pop(task_id)
            key = (task_id, lease.token)
            may_run = lease.stream is None or lease.started_at is not None
            if key not in reported and may_run and lease.expires_at > event.at:
                self._stopping.setdefault(name, {})[key] = lease

    def _enter(self, event: Event, name: str) -> None:
        task_id = event.task.id
        if event.kind in ("evicted", "reprioritized"):
            return
        park = event.history.park
        if park is not None and park.keeps_target:
            self._keepers[name] = task_id
        elif self._keepers.get(name) == task_id and event.state != "assigned":
            del self._keepers[name]
        blocks = event.task.options.extras.on_target_failure != "continue"
        if event.state == "queued" or (event.state == "pending" and event.before in FLYING):
            self._waiting.setdefault(name, {})[task_id] = event.task.seq
        elif event.state == "paused" or (event.state == "failed" and event.started_at is not None and blocks):
            self._blockers.setdefault(name, set()).add(task_id)
        elif event.state == "assigned":
            self._hand_out(event, name)
            self._flying[name] = task_id

    def _hand_out(self, event: Event, name: str) -> None:
        task_id = event.task.id
        if name in self._flying:
            raise AssertionError(f"{task_id} of {name} is handed out while {self._flying[name]} is in flight")
        keeper = self._keepers.pop(name, None)
        if keeper == task_id:
            return
        if keeper is not None:
            raise AssertionError(f"{task_id} of {name} is handed out while {keeper} keeps it")
        running = [key for key, lease in self._stopping.get(name, {}).items() if lease.expires_at > event.at]
        if running:
            raise AssertionError(f"{task_id} of {name} is handed out while {running} may still run")
        if self._blockers.get(name):
            raise AssertionError(f"{task_id} of {name} is handed out while {self._blockers[name]} blocks it")
        older = [other for other, seq in self._waiting.get(name, {}).items() if seq < event.task.seq]
        if older:
            raise AssertionError(f"{task_id} of {name} is handed out before {older}")
