"""Histories of schedules in which the process ends, and another one goes on with the rows of a store.

Unlike in `schedule_world`, nothing is handed over as an object: schedules, triggers and tasks are written as rows at
random moments, as they changed, and are read back. The cadences of these histories are no real ones, so that they have
a record of their own.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final
from unittest.mock import patch

import msgspec

from taskyard_server.core.changes import Changes
from taskyard_server.core.limits import Limits
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.schedules.schedule import Cadence, Schedule, Trigger
from taskyard_server.store.loading import load
from taskyard_server.store.port import Group
from taskyard_server.store.records import schedules as schedule_records
from taskyard_server.store.records.schedules import CadenceRecord
from taskyard_server.store.rows import add_rows
from tests.simulation.indexes import recount, same
from tests.store.dict_store import DictStore

from . import cadences
from .event_tape import record
from .schedule_world import Simulation
from .stored_schedules import OF_A_SCHEDULE, OF_A_TRIGGER

NUMBER: Final = 3


class StoredSimulation(Simulation):
    """A history whose restarts go through a store."""

    test = "schedules/test_stored_schedules.py"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._dice = Random(f"store of {seed}")

    def _new_core(self) -> Scheduler:
        self.store = DictStore()
        return Scheduler(Limits(**self._limits), self._entropy, Changes())

    def _check(self) -> None:
        super()._check()
        if self._dice.random() < 0.3:
            self._commit()

    def _commit(self) -> None:
        self._told = record(self.core)
        changes = self.core.changes
        assert changes is not None
        group = Group(self.store.meta.number + 1, self.now)
        with patch.object(schedule_records, "_of_cadence", _of_beats):
            add_rows(group, NUMBER, "space", self.core, changes.take(), keep_history=False)
        self.store.write(group)
        same("what is wrong with the store", self.store.wrong(), [])

    def _restart(self) -> None:
        """The process ends after a commit."""
        if self.model.firing.hold:
            return
        self._commit()
        old, was = self.model, self.core
        meta = self.store.meta
        self.now += self.chances.secs(self.chances.one_of([0.0, 5, 500]))
        limits = Limits(**self._limits)
        with patch.object(schedule_records, "_to_cadence", _to_beats):
            (loaded,) = asyncio.run(load(self.store, limits, self._entropy, self.now, meta, 0))
        same("fault of what was loaded", loaded.error, None)
        self.core = loaded.scheduler
        _same_schedules(self.core, was)
        recount(self.core)
        self._leases = [task.lease for task in self.core.tasks_after(0) if task.lease is not None]
        self.model = self._new_model()
        self.model.plans = old.plans
        # Those that ended at the same time come back in the order in which they were made.
        ended = sorted(old.firing.ended, key=lambda shot: (shot.ended_at, shot.number))
        for shot in [*old.firing.live(), *ended]:
            self.model.firing.hold_on_to(shot, self.model.plans.get(shot.plan.id) is shot.plan)
        self.model.firing.left_over = True
        self.model.firing.tasks, self.model.firing.counts = old.firing.tasks, old.firing.counts
        self.given.update(old.given)
        self.ledger.restarted()
        self._told = record(self.core)
        self._note_wall()
        born = {task.id: task.created_at for task in self.core.tasks_after(0)}
        live = self.model.firing.live()
        self._both("restart from a store", (), lambda: self.core.recover(self.now), lambda: self._take_up(born, live))
        recount(self.core)


def _of_beats(cadence: Cadence) -> CadenceRecord:
    return CadenceRecord("every", msgspec.json.encode(cadence).decode(), type(cadence).__name__)


def _to_beats(record: CadenceRecord) -> Cadence:
    return msgspec.json.decode(record.text, type=getattr(cadences, record.zone))


def _same_schedules(loaded: Scheduler, was: Scheduler) -> None:
    schedules = [_of_schedule(schedule) for schedule in was.schedules.after(0)]
    same("schedules", [_of_schedule(schedule) for schedule in loaded.schedules.after(0)], schedules)
    triggers = [_of_trigger(trigger) for trigger in was.schedules.triggers_before(None)]
    same("triggers", [_of_trigger(trigger) for trigger in loaded.schedules.triggers_before(None)], triggers)
    same("last numbers", loaded.schedules.last_numbers, was.schedules.last_numbers)
    same("counts of triggers", loaded.schedules.counters, was.schedules.counters)
    owners = {
        trigger.id: was.schedules._schedules.get(trigger.schedule.id) is trigger.schedule
        for trigger in was.schedules.triggers_before(None)
    }
    found = {
        trigger.id: loaded.schedules._schedules.get(trigger.schedule.id) is trigger.schedule
        for trigger in loaded.schedules.triggers_before(None)
    }
    same("triggers of deleted schedules", found, owners)
    inflight = (loaded.view.inflight, loaded._life.triggered.inflight, loaded._life.ready._triggered_held)
    same("in flight", inflight, (was.view.inflight, was._life.triggered.inflight, was._life.ready._triggered_held))


def _of_schedule(schedule: Schedule) -> tuple[object, ...]:
    own = (schedule.id, schedule.spec, schedule.created_at, schedule.since, schedule.next_due, schedule.paused)
    return own + tuple(getattr(schedule, name) for name in OF_A_SCHEDULE)


def _of_trigger(trigger: Trigger) -> tuple[object, ...]:
    own = (trigger.id, trigger.number, trigger.due_at, trigger.key, trigger.traceparent, trigger.by_call)
    return (*own, trigger.schedule.id, trigger.schedule.number, *(getattr(trigger, name) for name in OF_A_TRIGGER))
