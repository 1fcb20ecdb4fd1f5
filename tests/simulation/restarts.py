"""Histories in which the process ends at any moment, and another one goes on with what a store kept.

The store is a dict. Now and then what changed is committed; a restart loads what was committed last. Either nothing
was lost: then what was loaded is compared with what was there, field by field. Or some steps were not committed: then
the model is what it was at the last commit. In both cases the model learns of the restart, and the history goes on
with what was loaded, which must agree with the model after every step as before.
"""

from __future__ import annotations

import asyncio
from copy import deepcopy
from math import inf
from random import Random
from typing import Final

from taskyard_server.core.changes import Changes
from taskyard_server.core.limits import Limits
from taskyard_server.core.scheduler import RESTARTED, Scheduler
from taskyard_server.store.loading import load
from taskyard_server.store.port import Group
from taskyard_server.store.rows import add_rows
from tests.store.dict_store import DictStore

from .agreement import figures_agree
from .host_commands import EXECUTOR
from .indexes import recount, same
from .key_indexes import for_core, recount_keys
from .model import Model
from .model_records import FLYING
from .offer_indexes import recount_offers
from .park_indexes import recount_parks
from .random_choices import BUILT_IN
from .relation_indexes import recount_relations
from .restored_state import prime_ledger, prime_targets, prime_watch, same_state
from .simulator import Simulation
from .target_indexes import recount_targets

NUMBER: Final = 7
"""Of the namespace."""


class RestartingSimulation(Simulation):
    """A history with restarts."""

    test = "test_restarts.py"

    def __init__(self, seed: int, recount_every: int = 4) -> None:
        super().__init__(seed, recount_every)
        self._dice = Random(f"restarts of {seed}")
        self._restart_at = 1 << 60
        self._lost_from: Model | None = None

    def _new_core(self) -> Scheduler:
        self.store = DictStore()
        self._lost_from = None
        self._restart_at = self.steps + self._dice.choice([3, 30, 100])
        return Scheduler(Limits(**self._limits), self._entropy, Changes())

    def _take_a_step(self) -> None:
        if self.steps < self._restart_at or self.steps >= self._drain_at - 1:
            super()._take_a_step()
            if self._lost_from is None and self._dice.random() < 0.3:
                self._commit()
            if self._lost_from is None and self._restart_at - self.steps < 8 and self._dice.random() < 0.2:
                # What follows will be lost.
                self._commit()
                # The store knows of hosts that were forgotten in this step.
                self.model.forget_vanished(self.now, [host.id for host in self.core.hosts])
                self._lost_from = deepcopy(self.model)
            return
        if self._lost_from is None:
            self._commit()
        self._restart()
        self._restart_at = self.steps + self._dice.choice([1, 10, 60, 200])

    def _commit(self) -> None:
        same("events that nobody took", self.core.take_events(), [])
        changes = self.core.changes
        assert changes is not None
        group = Group(self.store.meta.number + 1, self.now)
        add_rows(group, NUMBER, "space", self.core, changes.take(), keep_history=False)
        self.store.write(group)
        same("what is wrong with the store", self.store.wrong(), [])

    def _restart(self) -> None:
        """The process ends, some time passes, another one begins."""
        old, lost, meta = self.core, self._lost_from, self.store.meta
        self.given["restart", "nothing lost" if lost is None else "steps lost"] += 1
        self._last.append((self.steps, self.now, "restart", (lost is not None,), "ok"))
        if lost is None and self._dice.random() < 0.5:
            same_state(old, self._load(meta.at), meta.at)
        self.now += self._dice.choice([0.0, 0.5, 5.0, 300.0]) * self._dice.choice([1.0, self._dice.random()])
        if lost is not None:
            self.model, self._lost_from = lost, None
            self._limits = dict(lost.world.limits)
            # Orders of submission that were lost are given again.
            self._parts[0]._places.clear()
            self._parts[0]._places.append((0, 0))
        core = self.core = self._load(self.now)
        for part in self._parts:
            part._core, part._model = core, self.model
        self._output.restarted()
        self._artifacts.restarted()
        self.store = self.store.copy()
        names = self._streams.names
        names.clear()
        streams: dict[str, int] = {}
        for task in core.tasks_after(0):
            if task.lease is not None and task.lease.stream is not None:
                stream = task.lease.stream
                if stream not in names:
                    names[stream] = self.model.world.number()
                streams[stream.host.id] = names[stream]
        restart(self.model, self.now, self.now - meta.at, streams)
        self.model.world.keys.restart(self.now)
        self.core.keys.set_limits(self.now, for_core(self.model.world.keys.limits))
        self.core.set_weights(self.weights)
        self.model.world.weights.put(self.weights)
        for task in core.tasks_after(0):
            job = self.model.world.tasks.get(task.id)
            if job is not None and job.deadline is not None and task.deadline is not None:
                same(f"deadline of {task.id} is close", abs(job.deadline - task.deadline) < 1e-4, True)
                job.deadline = task.deadline
        self.watch, self.ledger, self.targets = prime_watch(core), prime_ledger(core), prime_targets(core)
        self.both("recover", (), lambda: core.recover(self.now), lambda _: self._recover())
        recount(core)
        recount_keys(core)
        recount_offers(core, self.now)
        recount_targets(core)
        recount_relations(core)
        figures_agree(core, self.model)
        recount_parks(core)
        self._commit()
        self._parts[1].register_one(EXECUTOR, None, BUILT_IN, None)

    def _recover(self) -> None:
        world = self.model.world
        for job in world.leases():
            if job.host == EXECUTOR:
                world.lose(self.now, job, RESTARTED)

    def _load(self, now: float) -> Scheduler:
        meta = self.store.meta
        (loaded,) = asyncio.run(load(self.store, Limits(**self._limits), self._entropy, now, meta, 0))
        same("fault of what was loaded", loaded.error, None)
        same("name", (loaded.number, loaded.name), (NUMBER, "space"))
        return loaded.scheduler


def restart(model: Model, now: float, stood_still: float, streams: dict[str, int]) -> None:
    """What a restart does to what the model knows. `streams` are the numbers of the streams that hosts had."""
    world = model.world
    limits = world.limits
    world.happened.clear()
    for task_id in world.rejected:
        del world.tasks[task_id]
    world.rejected.clear()
    # The rows of tasks that left memory are gone: this store has no history.
    world.past_keys.clear()
    world.families.absent.clear()
    owners = {job.wish.agent for job in world.tasks.values()}
    world.agents = {name: agent for name, agent in world.agents.items() if name in owners}
    world.ended += world.relations.aside
    world.relations.aside.clear()
    world.ended.sort(key=lambda task_id: (world.tasks[task_id].completed_at, world.tasks[task_id].order))
    world.weights.begin_equal()
    model.operations.restarted()
    world.offers.clear()
    model._held_up.clear()
    world.stops = []
    world.parks.came.clear()
    world.parks.restarted()
    for event in world.parks.events.kept():
        event.is_over = False
    world.hosts = {name: host for name, host in world.hosts.items() if not host.machine.built_in}
    for host in world.hosts.values():
        host.heard_at, host.lost_at = now, None
        host.reported_status = host.figures = None
        host.losses, host.rested_at, host.rests_until = 0, -inf, None
    for job in world.tasks.values():
        job.is_over = False
        if job.own_secs is None and job.deadline is not None:
            job.deadline += stood_still
        if job.state in FLYING:
            job.lease_until = now + job.lease_secs
            job.run_until = None if job.run_until is None else max(job.run_until, now + 15)
            if job.stream is not None:
                job.stream = streams[job.host or ""]
                job.adopt_by = now + max(limits["reconnect_grace_secs"], 15)
                job.start_by = now + max(limits["start_timeout_secs"], 15) if job.state == "assigned" else inf
    for lease in world.stopping:
        lease.until = now + lease.secs
