"""Schedules under test: cadences of plain arithmetic, and a scheduler whose two clocks are moved by hand."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import TYPE_CHECKING, Any, ClassVar

from taskyard_server.core.leases import Lease
from taskyard_server.core.schedules.schedule import Cadence, CatchUp, Schedule, ScheduleSpec, Trigger
from taskyard_server.core.stats import Totals
from taskyard_server.core.task import Submission, Task, TaskOptions, TaskState

if TYPE_CHECKING:
    from tests.core.conftest import Yard


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


def spec_of(cadence: Cadence, *, agent: str = "ann", action: str = "click", **wish: Any) -> ScheduleSpec:
    """What a schedule shall do; `wish` takes the fields of `ScheduleSpec` and of `TaskOptions`.

    The tasks have all the time that a test may take.
    """
    options = {field: wish.pop(field) for field in TaskOptions._fields if field in wish}
    task = Submission(agent, action, options=TaskOptions(**options))
    return ScheduleSpec(cadence, "UTC", task, **{"deadline_secs": 1e7, **wish})


class Clockwork:
    """A yard with schedules. Times are told in seconds since it was made.

    The wall clock agrees with the steady one until it jumps.
    """

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        self.schedules = yard.scheduler.schedules
        self.start = yard.now
        self.skew = 0.0

    # Commands

    def create(
        self, cadence: Cadence = Steady(100), schedule_id: str | None = None, paused: bool = False, **wish: Any
    ) -> Schedule:
        return self.schedules.create(self.yard.now, schedule_id, spec_of(cadence, **wish), paused)

    def update(self, schedule: Schedule, **parts: Any) -> Schedule:
        """Replace these fields of a schedule's spec."""
        return self.schedules.update(self.yard.now, schedule.id, schedule.spec._replace(**parts))

    def delete(self, schedule: Schedule) -> None:
        self.schedules.delete(schedule.id)

    def pause(self, schedule: Schedule) -> Schedule:
        return self.schedules.pause(self.yard.now, schedule.id)

    def resume(self, schedule: Schedule, catch_up: CatchUp = CatchUp.NONE) -> Schedule:
        """Resume a schedule, and let happen what comes of it at once."""
        self.schedules.resume(self.yard.now, schedule.id, catch_up)
        self.look()
        return schedule

    def trigger(self, schedule: Schedule, key: str | None = None, traceparent: str | None = None) -> Trigger:
        """Make a trigger, and let it fire if it may."""
        made = self.schedules.trigger(self.yard.now, schedule.id, key, traceparent)
        self.look()
        return made

    def reconfigure(self, **limits: Any) -> None:
        """Change the named limits, and let happen what comes of it at once."""
        self.yard.reconfigure(**limits)
        self.look()

    # Time

    def at(self, secs: float) -> float:
        """The moment so many seconds after the start."""
        return self.start + secs

    def look(self) -> None:
        """Say how the wall clock stands, and let everything happen that has come due."""
        self.schedules.note_wall(self.yard.now, self.yard.now + self.skew)
        while self.yard.scheduler.advance(self.yard.now):
            pass

    def run_to(self, secs: float) -> None:
        """Let time pass, and look whenever the scheduler wants to."""
        end = self.at(secs)
        self.look()
        while (due := self.yard.scheduler.next_due()) is not None and due <= end:
            assert due > self.yard.now, "it has something to do that it has not done"
            self.yard.now = due
            self.look()
        self.yard.now = end
        self.look()

    def wake_at(self, secs: float) -> None:
        """Let time pass in which nobody looks."""
        self.yard.now = self.at(secs)
        self.look()

    def jump(self, secs: float) -> None:
        """Let the wall clock jump."""
        self.skew += secs
        self.look()

    # What has become of it

    def triggers(self, schedule: Schedule | None = None) -> list[Trigger]:
        """The triggers that are kept, earliest due first."""
        return [*self.schedules.triggers_before(None, schedule and schedule.id)][::-1]

    def story(self, schedule: Schedule | None = None) -> list[tuple[float, str]]:
        """When each of the triggers was due, and its state."""
        return [(round(each.due_at - self.start, 3), each.state.value) for each in self.triggers(schedule)]

    def counts(self) -> tuple[int, int]:
        """How many triggers have not fired, and how many tasks of others have not ended."""
        self.yard.scheduler.add_to(totals := Totals())
        return totals.triggers_pending, totals.triggers_executing

    def happened(self) -> list[tuple[str, str]]:
        """What has happened since the last call: which trigger, what."""
        return [(event.trigger.id, event.kind.value) for event in self.schedules.take_events()]

    def tasks(self) -> list[Task]:
        return self.yard.tasks()

    def task(self, trigger: Trigger) -> Task:
        assert trigger.task_id is not None
        return self.yard.scheduler.get(trigger.task_id)

    # What hosts do

    def lease(self, trigger: Trigger) -> Lease:
        """Let a host claim the task of a trigger, and no other."""
        return self.lease_of(self.task(trigger).id)

    def lease_of(self, task_id: str) -> Lease:
        """The same for a task of any origin."""
        self.yard.register()
        leases = {lease.task.id: lease for lease in self.yard.claim(count=100_000)}
        wanted = leases.pop(task_id)
        for lease in leases.values():
            self.yard.release(lease)
        return wanted

    def complete(self, *triggers: Trigger) -> None:
        """Let the tasks of triggers be done."""
        for each in triggers:
            self.yard.complete(self.lease(each))
            self.look()

    def complete_all(self) -> None:
        """Let every task be done that was submitted."""
        self.complete(*(each for each in self.triggers() if each.state == "executing"))

    def fail(self, trigger: Trigger, error: str = "broken") -> None:
        self.yard.fail(self.lease(trigger), error)
        self.look()


def live(tasks: list[Task]) -> list[Task]:
    """The tasks that have not ended."""
    return [task for task in tasks if task.state in (TaskState.QUEUED, TaskState.ASSIGNED, TaskState.RUNNING)]
