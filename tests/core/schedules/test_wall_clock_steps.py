"""A wall clock that is set back: no call looks at more than some schedules (docs/rules.md, Recovery)."""

from dataclasses import dataclass, field

import pytest

from taskyard_server.core.schedules import registry
from taskyard_server.core.schedules.schedule import Overlap

from .clockwork import Steady, Wall, fired, spec_of

AHEAD_SECS = 100_000.0


@dataclass(frozen=True)
class CountedWall(Wall):
    """A cadence that counts how often its next time is computed."""

    computed: list[None] = field(default_factory=list, compare=False)

    def next_after(self, at: float, since: float) -> float | None:
        self.computed.append(None)
        return super().next_after(at, since)


@pytest.fixture
def ten_per_call(monkeypatch):
    """Lets each call look at no more than ten schedules."""
    monkeypatch.setattr(registry, "MAX_RECOMPUTED_PER_CALL", 10)


def note_wall(clockwork):
    """Report the wall clock without letting anything else happen."""
    clockwork.schedules.note_wall(clockwork.yard.now, clockwork.yard.now + clockwork.skew)


def set_back(clockwork, secs=AHEAD_SECS):
    clockwork.skew -= secs
    note_wall(clockwork)


def schedules_ahead(clockwork, count, cadence=None, **fields):
    """That many schedules that were made while the wall clock was far ahead."""
    clockwork.jump(AHEAD_SECS)
    return [clockwork.create(cadence or Wall(100), overlap=Overlap.ALLOW, **fields) for _ in range(count)]


def due_in(clockwork, schedule):
    return schedule.next_due - clockwork.start


def test_with_ten_thousand_cron_schedules_no_call_looks_at_more_than_a_hundred(make_clockwork):
    clockwork = make_clockwork()
    cadence = CountedWall(100)
    schedules = schedules_ahead(clockwork, 10_000, cadence)
    cadence.computed.clear()
    costs = []

    def count():
        costs.append(len(cadence.computed))
        cadence.computed.clear()

    set_back(clockwork)
    count()
    while clockwork.yard.scheduler.next_due() <= clockwork.yard.now:
        clockwork.yard.scheduler.advance(clockwork.yard.now)
        count()
    assert max(costs) <= registry.MAX_RECOMPUTED_PER_CALL == 100
    assert sum(costs) == 10_000
    assert {due_in(clockwork, each) for each in schedules} == {100}


@pytest.mark.usefixtures("ten_per_call")
def test_until_all_are_looked_at_something_is_due_at_once(clockwork):
    schedules_ahead(clockwork, 35)
    set_back(clockwork)
    for _ in range(3):
        assert clockwork.yard.scheduler.next_due() <= clockwork.yard.now
        clockwork.yard.scheduler.advance(clockwork.yard.now, 10)
    assert clockwork.yard.scheduler.next_due() > clockwork.yard.now


@pytest.mark.usefixtures("ten_per_call")
def test_the_last_one_looked_at_fires_at_the_same_times_as_the_first(clockwork):
    schedules = schedules_ahead(clockwork, 35)
    set_back(clockwork)
    clockwork.run_to(250)
    for schedule in schedules:
        assert clockwork.outcomes(schedule) == fired(100, 200)


@pytest.mark.usefixtures("ten_per_call")
def test_a_time_that_comes_before_all_were_looked_at_fires_in_time(clockwork):
    """The process is slow: a minute passes between two steps."""
    schedules = schedules_ahead(clockwork, 25)
    clockwork.yard.now = clockwork.at(95)
    set_back(clockwork)
    clockwork.yard.now = clockwork.at(120)
    clockwork.advance()
    for schedule in schedules:
        assert clockwork.outcomes(schedule) == fired(100)


@pytest.mark.usefixtures("ten_per_call")
def test_what_has_fired_under_the_clock_ahead_does_not_fire_again_in_any_step(clockwork):
    schedules = schedules_ahead(clockwork, 25)
    clockwork.run_to(250)
    set_back(clockwork)
    clockwork.run_to(450)
    clockwork.jump(AHEAD_SECS)
    clockwork.run_to(650)
    for schedule in schedules:
        dues = [due for due, _ in clockwork.outcomes(schedule)]
        assert len(set(dues)) == len(dues)
        assert {300, 400, *(AHEAD_SECS + due for due in (100, 200, 500, 600))} <= set(dues)


@pytest.mark.usefixtures("ten_per_call")
def test_a_clock_that_is_set_back_again_meanwhile_is_looked_at_from_the_beginning(clockwork):
    schedules = schedules_ahead(clockwork, 25)
    set_back(clockwork, AHEAD_SECS / 2)
    set_back(clockwork, AHEAD_SECS / 2)
    clockwork.advance()
    assert {due_in(clockwork, each) for each in schedules} == {100}


@pytest.mark.usefixtures("ten_per_call")
def test_a_clock_that_is_set_forward_meanwhile_loses_and_repeats_nothing(clockwork):
    schedules = schedules_ahead(clockwork, 25)
    set_back(clockwork)
    clockwork.jump(AHEAD_SECS)
    clockwork.run_to(250)
    for schedule in schedules:
        dues = [due for due, _ in clockwork.outcomes(schedule) if due > AHEAD_SECS - 1_000]
        assert len(set(dues)) == len(dues)
        assert {AHEAD_SECS + 100, AHEAD_SECS + 200} <= set(dues)


@pytest.mark.usefixtures("ten_per_call")
def test_a_clock_that_is_set_back_with_each_report_never_costs_more_than_the_bound(clockwork):
    cadence = CountedWall(100)
    schedules_ahead(clockwork, 25, cadence)
    for _ in range(20):
        cadence.computed.clear()
        set_back(clockwork, 50)
        assert len(cadence.computed) <= 10


# Commands between two steps


@pytest.mark.usefixtures("ten_per_call")
def test_a_schedule_that_is_deleted_meanwhile_is_passed_over(clockwork):
    schedules = schedules_ahead(clockwork, 25)
    set_back(clockwork)
    for schedule in schedules[12:]:
        clockwork.delete(schedule)
    clockwork.run_to(150)
    assert len(clockwork.triggers()) == 12


@pytest.mark.usefixtures("ten_per_call")
def test_a_schedule_with_the_id_of_one_that_was_deleted_meanwhile_is_not_taken_for_it(clockwork):
    clockwork.jump(AHEAD_SECS)
    for number in range(15):
        clockwork.create(Wall(100), f"s{number}")
    set_back(clockwork)
    clockwork.schedules.delete("s14")
    again = clockwork.create(Wall(70), "s14")
    next_due = again.next_due
    clockwork.advance()
    assert again.next_due == next_due


@pytest.mark.usefixtures("ten_per_call")
def test_a_schedule_that_is_made_meanwhile_is_due_by_the_present_clock(clockwork):
    schedules_ahead(clockwork, 25)
    set_back(clockwork)
    new = clockwork.create(Wall(100))
    assert due_in(clockwork, new) == 100
    clockwork.run_to(150)
    assert clockwork.outcomes(new) == fired(100)


@pytest.mark.parametrize("cadence", [Wall(70), Steady(70)], ids=repr)
@pytest.mark.usefixtures("ten_per_call")
def test_a_schedule_whose_cadence_is_changed_meanwhile_is_due_by_the_new_one(clockwork, cadence):
    last = schedules_ahead(clockwork, 25)[-1]
    set_back(clockwork)
    clockwork.update(last, cadence=cadence)
    next_due = last.next_due
    clockwork.advance()
    assert last.next_due == next_due
    clockwork.run_to(75)
    assert [due for due, _ in clockwork.outcomes(last)] == [round(next_due - clockwork.start, 3)]


@pytest.mark.usefixtures("ten_per_call")
def test_a_schedule_that_is_paused_meanwhile_stays_paused_and_comes_after_its_resume(clockwork):
    last = schedules_ahead(clockwork, 25)[-1]
    set_back(clockwork)
    clockwork.pause(last)
    clockwork.advance()
    clockwork.run_to(150)
    assert clockwork.outcomes(last) == []
    clockwork.resume(last)
    clockwork.run_to(250)
    assert clockwork.outcomes(last)[-1:] == fired(200)


@pytest.mark.usefixtures("ten_per_call")
def test_a_schedule_that_is_resumed_meanwhile_is_due_by_the_present_clock(clockwork):
    last = schedules_ahead(clockwork, 25, paused=True)[-1]
    set_back(clockwork)
    clockwork.schedules.resume(clockwork.yard.now, last.id)
    clockwork.run_to(150)
    assert clockwork.outcomes(last) == fired(100)


@pytest.mark.usefixtures("ten_per_call")
def test_a_call_of_a_trigger_meanwhile_fires_at_once(clockwork):
    last = schedules_ahead(clockwork, 25)[-1]
    set_back(clockwork)
    assert clockwork.schedules.trigger(clockwork.yard.now, last.id).state == "executing"


@pytest.mark.usefixtures("ten_per_call")
def test_tasks_of_agents_are_dealt_with_meanwhile(clockwork):
    schedules_ahead(clockwork, 25)
    task = clockwork.yard.submit(deadline=clockwork.at(1))
    clockwork.yard.now = clockwork.at(2)
    set_back(clockwork)
    clockwork.yard.scheduler.advance(clockwork.yard.now, 1)
    assert task.state == "failed"


@pytest.mark.usefixtures("ten_per_call")
def test_intervals_are_not_looked_at(clockwork):
    clockwork.jump(AHEAD_SECS)
    for _ in range(25):
        clockwork.create(Steady(100))
    set_back(clockwork)
    assert clockwork.yard.scheduler.next_due() > clockwork.yard.now
    assert spec_of(Steady(100)).cadence.by_wall is False


@pytest.mark.usefixtures("ten_per_call")
def test_a_drain_does_not_stop_the_steps(clockwork):
    schedules = schedules_ahead(clockwork, 25)
    set_back(clockwork)
    clockwork.yard.scheduler.drain()
    clockwork.advance()
    assert {due_in(clockwork, each) for each in schedules} == {100}


@pytest.mark.usefixtures("ten_per_call")
def test_a_schedule_that_is_made_between_two_steps_has_no_due_time_before_it(clockwork):
    schedules_ahead(clockwork, 25)
    clockwork.yard.now = clockwork.at(95)
    set_back(clockwork)
    clockwork.yard.now = clockwork.at(120)
    new = clockwork.create(Wall(100))
    clockwork.run_to(250)
    assert clockwork.outcomes(new) == fired(200)


@pytest.mark.usefixtures("ten_per_call")
def test_a_schedule_whose_cadence_is_changed_between_two_steps_has_no_due_time_before_that(clockwork):
    last = schedules_ahead(clockwork, 25)[-1]
    clockwork.yard.now = clockwork.at(95)
    set_back(clockwork)
    clockwork.yard.now = clockwork.at(120)
    clockwork.update(last, cadence=Wall(50))
    clockwork.run_to(160)
    assert clockwork.outcomes(last) == fired(150)


@pytest.mark.usefixtures("ten_per_call")
def test_a_time_before_a_resume_between_two_steps_lies_in_the_pause(clockwork):
    last = schedules_ahead(clockwork, 25, paused=True)[-1]
    clockwork.yard.now = clockwork.at(95)
    set_back(clockwork)
    clockwork.yard.now = clockwork.at(120)
    clockwork.schedules.resume(clockwork.yard.now, last.id)
    clockwork.run_to(250)
    assert clockwork.outcomes(last) == [(100, "skipped"), (200, "executing")]


@pytest.mark.usefixtures("ten_per_call")
def test_a_resume_under_the_clock_ahead_puts_no_time_after_the_set_back_into_the_pause(clockwork):
    schedules = schedules_ahead(clockwork, 25, paused=True)
    for schedule in schedules:
        clockwork.schedules.resume(clockwork.yard.now, schedule.id)
    clockwork.yard.now = clockwork.at(95)
    set_back(clockwork)
    clockwork.yard.now = clockwork.at(120)
    clockwork.advance()
    for schedule in schedules:
        assert clockwork.outcomes(schedule) == fired(100)
