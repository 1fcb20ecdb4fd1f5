"""Jumps of the wall clock: no time fires twice, and none is lost (docs/rules.md, Recovery)."""

import pytest

from taskyard_server.core.schedules.schedule import CatchUp, Overlap

from .clockwork import Once, Steady, Wall, fired, independent, skipped

ALL, LAST, NONE = CatchUp.ALL, CatchUp.LAST, CatchUp.NONE
POLL_SECS = 30.0


@pytest.mark.parametrize("jump", [-1e6, -70, 70, 1e6])
def test_a_jump_of_the_wall_clock_neither_fires_nor_delays_an_interval(clockwork, jump):
    independent(clockwork, Steady(100))
    clockwork.run_to(150)
    clockwork.jump(jump)
    clockwork.run_to(350)
    assert clockwork.outcomes() == fired(100, 200, 300)
    assert [round(each.fired_at - clockwork.start) for each in clockwork.triggers()] == [100, 200, 300]


def test_a_wall_clock_that_goes_back_fires_nothing_twice(clockwork):
    schedule = independent(clockwork, Wall(100))
    clockwork.run_to(250)
    clockwork.jump(-200)
    assert schedule.next_due == clockwork.at(300)
    clockwork.run_to(499)
    assert clockwork.outcomes() == fired(100, 200)
    clockwork.run_to(501)
    assert clockwork.outcomes() == fired(100, 200, 300)


TEN_YEARS = 315_360_000.0


@pytest.mark.parametrize("policy", CatchUp)
def test_a_wall_clock_that_was_years_ahead_delays_nothing_when_it_is_right_again(clockwork, policy):
    schedule = independent(clockwork, Wall(100), catch_up=policy, catch_up_window_secs=150)
    clockwork.run_to(150)
    clockwork.jump(TEN_YEARS)
    clockwork.run_to(250)
    assert schedule.next_due == clockwork.at(TEN_YEARS + 300)
    clockwork.jump(-TEN_YEARS)
    assert schedule.next_due == clockwork.at(300)
    clockwork.run_to(450)
    assert [outcomes for outcomes in clockwork.outcomes() if 200 < outcomes[0] < 1_000] == fired(300, 400)


def test_what_was_made_or_changed_under_a_wall_clock_years_ahead_comes_when_it_is_right_again(clockwork):
    clockwork.jump(TEN_YEARS)
    new, paused = independent(clockwork, Wall(100)), independent(clockwork, Wall(100), paused=True)
    changed = independent(clockwork, Wall(70))
    clockwork.update(changed, cadence=Wall(100))
    clockwork.jump(-TEN_YEARS)
    clockwork.resume(paused)
    clockwork.run_to(150)
    for schedule in (new, paused, changed):
        assert clockwork.outcomes(schedule) == fired(100)


def test_a_time_that_fired_under_a_wall_clock_ahead_does_not_fire_again_when_it_comes(clockwork):
    independent(clockwork, Wall(100), catch_up=NONE)
    clockwork.jump(1_040)
    clockwork.run_to(250)
    assert clockwork.outcomes() == skipped(100) + fired(1_100, 1_200)
    clockwork.jump(-1_040)
    clockwork.run_to(1_450)
    assert clockwork.outcomes() == skipped(100) + fired(*range(300, 1_401, 100))
    late_by = [round(each.fired_at - each.due_at) for each in clockwork.triggers()[1:]]
    assert late_by == [0] * 8 + [-1_040] * 2 + [0] * 2


def test_each_time_fires_once_while_the_wall_clock_goes_back_and_forth(clockwork):
    independent(clockwork, Wall(100))
    for ahead in (5_000, -3_000, 10_000, -12_000, 700, -700):
        clockwork.jump(ahead)
        clockwork.run_to(clockwork.yard.now - clockwork.start + 250)
    clockwork.run_to(20_000)
    dues = [due for due, _ in clockwork.outcomes()]
    assert len(set(dues)) == len(dues)
    assert set(range(12_000, 20_000, 100)) <= set(dues)


def test_a_wall_clock_that_was_set_back_by_no_more_than_a_poll_brings_nothing_again(clockwork):
    schedule = independent(clockwork, Wall(1), catch_up=NONE)
    clockwork.jump(1_000)
    clockwork.run_to(100)
    next_due = schedule.next_due
    clockwork.jump(-POLL_SECS)
    assert schedule.next_due == next_due


def test_small_steps_back_of_the_wall_clock_add_up(clockwork):
    schedule = independent(clockwork, Wall(100), catch_up=NONE)
    clockwork.jump(1_000)
    for _ in range(50):
        clockwork.jump(-20)
    assert clockwork.outcomes() == skipped(100)
    assert schedule.next_due == clockwork.at(200)


@pytest.mark.parametrize(("looked", "first"), [(True, skipped), (False, fired)])
def test_a_resume_under_a_wall_clock_years_ahead_delays_nothing(clockwork, looked, first):
    schedule = independent(clockwork, Wall(100), paused=True)
    clockwork.jump(TEN_YEARS)
    clockwork.schedules.resume(clockwork.yard.now, schedule.id)
    if looked:
        clockwork.advance()
    clockwork.jump(-TEN_YEARS)
    clockwork.run_to(350)
    assert clockwork.outcomes() == first(100) + fired(200, 300)


def test_a_single_time_that_has_fired_does_not_come_again(clockwork):
    schedule = clockwork.create(Once(clockwork.at(100)))
    clockwork.jump(TEN_YEARS)
    assert clockwork.outcomes() == fired(100)
    clockwork.jump(-TEN_YEARS)
    clockwork.run_to(500)
    assert (clockwork.outcomes(), schedule.next_due) == (fired(100), None)


def test_a_replacing_schedule_goes_on_after_a_wall_clock_that_was_years_ahead(clockwork):
    clockwork.create(Wall(100), overlap=Overlap.REPLACE)
    clockwork.jump(TEN_YEARS)
    clockwork.run_to(50)
    clockwork.jump(-TEN_YEARS)
    clockwork.run_to(250)
    assert [due for due, state in clockwork.outcomes() if state == "executing"] == [200]


def test_a_small_step_of_the_wall_clock_makes_the_next_time_come_sooner(clockwork):
    independent(clockwork, Wall(100), catch_up=NONE)
    clockwork.run_to(90)
    clockwork.jump(POLL_SECS)
    assert clockwork.outcomes() == fired(100)


@pytest.mark.parametrize(
    ("policy", "outcomes"),
    [(ALL, fired(100, 200, 300)), (LAST, skipped(100) + fired(300)), (NONE, skipped(100))],
)
def test_times_that_the_wall_clock_jumps_over_were_missed(clockwork, policy, outcomes):
    schedule = independent(clockwork, Wall(100), catch_up=policy)
    clockwork.run_to(50)
    clockwork.jump(300)
    assert clockwork.outcomes() == outcomes
    assert schedule.next_due == clockwork.at(400)
    clockwork.run_to(101)
    assert clockwork.outcomes() == [*outcomes, (400, "executing")]
