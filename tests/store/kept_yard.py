"""A scheduler whose changes go to a dict store, and come back from it."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import Any

from taskyard_server.core.changes import Changes
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.leases import Lease
from taskyard_server.core.limits import Limits
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.task import Submission, Task
from taskyard_server.core.task_options import TaskExtras, TaskOptions
from taskyard_server.store.loading import LoadedNamespace, load
from taskyard_server.store.port import Group, Table, TaskRows, key_of
from taskyard_server.store.rows import add_rows

from .dict_store import DictStore

START = 1_700_000_000.0
NUMBER = 1


class KeptYard:
    """Commands in short words; `now` is set by tests."""

    def __init__(self, keep_history: bool = True, **limits: float) -> None:
        self.limits = Limits(**limits)
        self.now = START
        self.store = DictStore()
        self.keep_history = keep_history
        self._entropy = partial(Random(1).getrandbits, 40)
        self.scheduler = Scheduler(self.limits, self._entropy, Changes())

    # Commands

    def submit(self, agent: str = "agent", deadline: float | None = None, **options: Any) -> Task:
        extras = {name: options.pop(name) for name in TaskExtras._fields if name in options}
        if extras:
            options["extras"] = TaskExtras(**extras)
        submission = Submission(agent, "act", deadline=deadline, options=TaskOptions(**options))
        return self.scheduler.submit(self.now, submission)

    def host(self, name: str = "host", built_in: bool = False) -> None:
        self.scheduler.register(self.now, name, None, HostProfile(), built_in=built_in)

    def claim(self, host: str = "host", secs: float | None = None) -> Lease:
        (lease,) = self.scheduler.claim(self.now, host, 1, secs)
        return lease

    def start(self, lease: Lease) -> None:
        self.scheduler.reports.start(self.now, lease.host.id, lease.task.id, lease.token)

    def complete(self, lease: Lease) -> None:
        self.scheduler.reports.complete(self.now, lease.host.id, lease.task.id, lease.token, b"1")

    def fail(self, lease: Lease) -> None:
        self.scheduler.reports.fail(self.now, lease.host.id, lease.task.id, lease.token, "broken")

    def pass_time(self, secs: float) -> None:
        self.now += secs
        while self.scheduler.advance(self.now):
            pass

    # The store

    def group(self) -> Group:
        """What changed, which counts as written from now on."""
        self.scheduler.take_events()
        assert self.scheduler.changes is not None
        group = Group(self.store.meta.number + 1, self.now)
        add_rows(group, NUMBER, "space", self.scheduler, self.scheduler.changes.take(), self.keep_history)
        return group

    def commit(self) -> Group:
        group = self.group()
        self.store.write(group)
        assert self.store.wrong() == []
        return group

    def load(self, ended_since_ms: int = 0, shift: float = 0.0) -> LoadedNamespace:
        """What another process finds, which does not take over yet."""
        meta = self.store.meta
        (loaded,) = asyncio.run(load(self.store, self.limits, self._entropy, self.now, meta, ended_since_ms, shift))
        return loaded

    def restart(self, after: float = 0.0, **given: float) -> Scheduler:
        """Another process takes over, and has committed what it found."""
        self.now += after
        loaded = self.load(**given)
        assert loaded.error is None
        self.scheduler = loaded.scheduler
        self.scheduler.recover(self.now)
        self.commit()
        return self.scheduler

    def rows(self, task: Task) -> TaskRows:
        rows = asyncio.run(self.store.task(key_of(NUMBER, task.seq)))
        assert rows is not None
        return rows


def written(group: Group) -> dict[str, int]:
    """How many rows of tasks a group writes or removes, by table."""
    counts = {table.name.lower(): len(group.puts.get(table, ())) for table in (Table.TASKS, Table.STATES)}
    counts["ended"] = len(group.ended)
    counts |= {f"no {table.name.lower()}": len(keys) for table, keys in group.removes.items()}
    return {name: count for name, count in counts.items() if count}
