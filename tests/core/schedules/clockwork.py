"""Schedules under test: cadences of plain arithmetic, and a scheduler whose two clocks a test moves."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import TYPE_CHECKING, Any, ClassVar

from taskyard_server.core.figures.figures import add_to_totals
from taskyard_server.core.leases import Lease
from taskyard_server.core.schedules.schedule import Cadence, CatchUp, Overlap, Schedule, ScheduleSpec, Trigger
from taskyard_server.core.stats import Totals
from taskyard_server.core.task import Submission, Task, TaskState
from taskyard_server.core.task_options import TaskOptions

if TYPE_CHECKING:
    from tests.core.yard import Yard


@dataclass(frozen=True)
class Steady:
    """Every so many seconds of the steady clock, counted from when the schedule took it up."""

    secs: float
    by_wall: ClassVar = False

    def next_after(self, at: float, since: float) -> float | None:
        return since + max(1, floor((at - since) / self.secs) + 1) * self.secs

    def last_until(self, at: float, since: float) -> float | None:
        turns = floor((at - since) / self.secs)
        return since + turns * self.secs if turns >= 1 else None


@dataclass(frozen=True)
class Wall:
    """Whenever the wall clock shows a multiple of so many seconds, as cron does."""

    secs: float
    by_wall: ClassVar = True

    def next_after(self, at: float, since: float) -> float | None:  # noqa: ARG002
        return (floor(at / self.secs) + 1) * self.secs

    def last_until(self, at: float, since: float) -> float | None:  # noqa: ARG002
        return floor(at / self.secs) * self.secs


@dataclass(frozen=True)
class Once:
    """One time of the wall clock."""

    at: float
    by_wall: ClassVar = True

    def next_after(self, at: float, since: float) -> float | None:  # noqa: ARG002
        return self.at if at < self.at else None

    def last_until(self, at: float, since: float) -> float | None:  # noqa: ARG002
        return self.at if self.at <= at else None


@dataclass(frozen=True)
class Never:
    """A cadence that names no time, such as 30 February."""

    by_wall: ClassVar = True

    def next_after(self, at: float, since: float) -> float | None:  # noqa: ARG002
        return None

    def last_until(self, at: float, since: float) -> float | None:  # noqa: ARG002
        return None


def spec_of(cadence: Cadence, *, agent: str = "ann", action: str = "click", **fields: Any) -> ScheduleSpec:
    """A schedule's spec; `fields` are those of `ScheduleSpec` and of `TaskOptions`.

    Unless a test says otherwise its tasks have a deadline that no test reaches.
    """
    options = {name: fields.pop(name) for name in TaskOptions._fields if name in fields}
    task = Submission(agent, action, options=TaskOptions(**options))
    return ScheduleSpec(cadence, "UTC", task, **{"deadline_secs": 1e7, **fields})


class Clockwork:
    """A yard with schedules. Times are in seconds since it was made.

    The wall clock agrees with the steady one until it jumps.
    """

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        self.schedules = yard.scheduler.schedules
        self.start = yard.now
        self.skew = 0.0

    # Commands

    def create(
        self, cadence: Cadence = Steady(100), schedule_id: str | None = None, paused: bool = False, **fields: Any
    ) -> Schedule:
        return self.schedules.create(self.yard.now, schedule_id, spec_of(cadence, **fields), paused)

    def update(self, schedule: Schedule, **parts: Any) -> Schedule:
        """Replace these fields of a schedule's spec."""
        return self.schedules.update(self.yard.now, schedule.id, schedule.spec._replace(**parts))

    def delete(self, schedule: Schedule) -> None:
        self.schedules.delete(schedule.id)

    def pause(self, schedule: Schedule) -> Schedule:
        return self.schedules.pause(self.yard.now, schedule.id)

    def resume(self, schedule: Schedule, catch_up: CatchUp = CatchUp.NONE) -> Schedule:
        """Resume a schedule, and do what has come due with that."""
        self.schedules.resume(self.yard.now, schedule.id, catch_up)
        self.advance()
        return schedule

    def trigger(self, schedule: Schedule, key: str | None = None, traceparent: str | None = None) -> Trigger:
        """Make a trigger, which fires if it may."""
        made = self.schedules.trigger(self.yard.now, schedule.id, key, traceparent)
        self.advance()
        return made

    def reconfigure(self, **limits: Any) -> None:
        """Change the named limits, and do what has come due with that."""
        self.yard.reconfigure(**limits)
        self.advance()

    # Time

    def at(self, secs: float) -> float:
        """The moment so many seconds after the start."""
        return self.start + secs

    def advance(self) -> None:
        """Report the wall clock, and do everything that has come due."""
        self.schedules.note_wall(self.yard.now, self.yard.now + self.skew)
        while self.yard.scheduler.advance(self.yard.now):
            pass

    def run_to(self, secs: float) -> None:
        """Let time pass, and advance the scheduler whenever something is due."""
        end = self.at(secs)
        self.advance()
        while (due := self.yard.scheduler.next_due()) is not None and due <= end:
            assert due > self.yard.now, "what was due has not been done"
            self.yard.now = due
            self.advance()
        self.yard.now = end
        self.advance()

    def skip_to(self, secs: float) -> None:
        """Let time pass at once, as if the process had stood still."""
        self.yard.now = self.at(secs)
        self.advance()

    def jump(self, secs: float) -> None:
        """Let the wall clock jump."""
        self.skew += secs
        self.advance()

    # What came of it

    def triggers(self, schedule: Schedule | None = None) -> list[Trigger]:
        """The triggers that are kept, earliest due first."""
        return [*self.schedules.triggers_before(None, schedule and schedule.id)][::-1]

    def outcomes(self, schedule: Schedule | None = None) -> list[tuple[float, str]]:
        """The due time and the state of each trigger."""
        return [(round(each.due_at - self.start, 3), each.state.value) for each in self.triggers(schedule)]

    def counts(self) -> tuple[int, int]:
        """How many triggers are pending, and how many execute."""
        add_to_totals(totals := Totals(), self.yard.scheduler)
        return totals.triggers_pending, totals.triggers_executing

    def trigger_events(self) -> list[tuple[str, str]]:
        """The events of triggers since the last call: the id of the trigger, and the kind."""
        return [(event.trigger.id, event.kind.value) for event in self.schedules.take_events()]

    def tasks(self) -> list[Task]:
        return self.yard.tasks()

    def task(self, trigger: Trigger) -> Task:
        assert trigger.task_id is not None
        return self.yard.scheduler.get(trigger.task_id)

    # What hosts do

    def lease(self, trigger: Trigger) -> Lease:
        """Let a host claim the task of a trigger alone."""
        return self.lease_of(self.task(trigger).id)

    def lease_of(self, task_id: str) -> Lease:
        """The same for a task of any origin."""
        self.yard.register()
        leases = {lease.task.id: lease for lease in self.yard.claim(count=100_000)}
        found = leases.pop(task_id)
        for lease in leases.values():
            self.yard.release(lease)
        return found

    def complete(self, *triggers: Trigger) -> None:
        """Let the tasks of triggers be done."""
        for each in triggers:
            self.yard.complete(self.lease(each))
            self.advance()

    def complete_all(self) -> None:
        """Let the tasks of all triggers be done."""
        self.complete(*(each for each in self.triggers() if each.state == "executing"))

    def fail(self, trigger: Trigger, error: str = "broken") -> None:
        self.yard.fail(self.lease(trigger), error)
        self.advance()


def live(tasks: list[Task]) -> list[Task]:
    """The tasks that have not ended."""
    return [task for task in tasks if task.state in (TaskState.QUEUED, TaskState.ASSIGNED, TaskState.RUNNING)]


def fired(*dues: float) -> list[tuple[float, str]]:
    """The outcomes of triggers that were due then, and that fired."""
    return [(due, "executing") for due in dues]


def skipped(*dues: float) -> list[tuple[float, str]]:
    """The outcomes of triggers that were due then, and that were skipped."""
    return [(due, "skipped") for due in dues]


def independent(clockwork: Clockwork, cadence: Cadence, **fields: Any) -> Schedule:
    """A schedule whose triggers do not wait for one another."""
    return clockwork.create(cadence, overlap=Overlap.ALLOW, **fields)
