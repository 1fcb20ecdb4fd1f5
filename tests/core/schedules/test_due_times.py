"""When triggers come due: two clocks, times that were missed, pauses, single times."""

from itertools import pairwise
from random import Random

import pytest

from taskyard_server.core.schedules.schedule import CatchUp, Overlap

from .clockwork import Once, Steady, Wall

ALL, LAST, NONE = CatchUp.ALL, CatchUp.LAST, CatchUp.NONE
POLL_SECS = 30.0
"""The default of `daemon.pollIntervalMs`: what is late by more was missed."""

both_clocks = pytest.mark.parametrize("cadence", [Steady(100), Wall(100)], ids=repr)
every_policy = pytest.mark.parametrize("policy", CatchUp)


def fired(*dues):
    return [(due, "executing") for due in dues]


def skipped(*dues):
    return [(due, "skipped") for due in dues]


def independent(clockwork, cadence, **wish):
    """A schedule whose triggers do not stand in each other's way."""
    return clockwork.create(cadence, overlap=Overlap.ALLOW, **wish)


# While somebody looks


@both_clocks
@every_policy
def test_a_schedule_is_due_at_each_time_of_its_cadence(clockwork, cadence, policy):
    schedule = independent(clockwork, cadence, catch_up=policy)
    clockwork.run_to(99.9)
    assert clockwork.triggers() == []
    clockwork.run_to(350)
    assert clockwork.outcomes() == fired(100, 200, 300)
    assert schedule.next_due == clockwork.at(400)


@both_clocks
def test_a_trigger_fires_within_an_eighth_of_a_second_of_its_time(clockwork, cadence):
    clockwork.create(cadence)
    clockwork.run_to(100.125)
    (trigger,) = clockwork.triggers()
    assert trigger.due_at == clockwork.at(100)
    assert clockwork.at(100) <= trigger.fired_at <= clockwork.at(100.125)


def test_an_interval_counts_from_the_creation_and_a_wall_time_does_not(clockwork):
    clockwork.skip_to(37)
    interval, wall = independent(clockwork, Steady(100)), independent(clockwork, Wall(100))
    clockwork.run_to(350)
    assert clockwork.outcomes(interval) == fired(137, 237, 337)
    assert clockwork.outcomes(wall) == fired(100, 200, 300)


def test_nothing_is_due_of_no_schedule_and_of_a_paused_one(clockwork):
    assert clockwork.yard.scheduler.next_due() is None
    for cadence in (Steady(100), Wall(100)):
        clockwork.pause(clockwork.create(cadence))
    assert clockwork.yard.scheduler.next_due() is None


def test_a_deleted_schedule_is_due_no_more(clockwork):
    for cadence in (Steady(100), Wall(100)):
        clockwork.delete(clockwork.create(cadence))
    assert clockwork.yard.scheduler.next_due() is None


def test_the_wall_clock_is_looked_at_in_time_however_far_the_next_time_is(clockwork):
    clockwork.create(Wall(1_000_000))
    clockwork.advance()
    assert clockwork.yard.scheduler.next_due() == clockwork.at(POLL_SECS)
    clockwork.skip_to(12)
    assert clockwork.yard.scheduler.next_due() == clockwork.at(12 + POLL_SECS)


def test_intervals_alone_need_no_look_at_the_wall_clock(clockwork):
    clockwork.create(Steady(1_000_000))
    clockwork.advance()
    assert clockwork.yard.scheduler.next_due() == pytest.approx(clockwork.at(1_000_000), abs=0.125)


# Jumps of the wall clock


@pytest.mark.parametrize("jump", [-1e6, -70, 70, 1e6])
def test_a_jump_of_the_wall_clock_neither_fires_nor_starves_an_interval(clockwork, jump):
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
def test_a_wall_clock_that_was_years_ahead_starves_nothing_when_it_is_right_again(clockwork, policy):
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


def test_what_fired_under_a_wall_clock_that_was_ahead_does_not_fire_when_its_time_is_really_there(clockwork):
    independent(clockwork, Wall(100), catch_up=NONE)
    clockwork.jump(1_040)
    clockwork.run_to(250)
    assert clockwork.outcomes() == skipped(100) + fired(1_100, 1_200)
    clockwork.jump(-1_040)
    clockwork.run_to(1_450)
    assert clockwork.outcomes() == skipped(100) + fired(*range(300, 1_401, 100))
    late_by = [round(each.fired_at - each.due_at) for each in clockwork.triggers()[1:]]
    assert late_by == [0] * 8 + [-1_040] * 2 + [0] * 2


def test_each_time_fires_once_however_often_the_wall_clock_goes_to_and_fro(clockwork):
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
def test_a_resume_under_a_wall_clock_years_ahead_starves_nothing(clockwork, looked, first):
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
def test_what_the_wall_clock_leaps_over_was_missed(clockwork, policy, outcomes):
    schedule = independent(clockwork, Wall(100), catch_up=policy)
    clockwork.run_to(50)
    clockwork.jump(300)
    assert clockwork.outcomes() == outcomes
    assert schedule.next_due == clockwork.at(400)
    clockwork.run_to(101)
    assert clockwork.outcomes() == [*outcomes, (400, "executing")]


# Lateness and catching up


@both_clocks
@every_policy
@pytest.mark.parametrize("late", [0.125, 29, POLL_SECS])
def test_what_is_late_by_no_more_than_a_poll_is_on_time(clockwork, cadence, policy, late):
    clockwork.create(cadence, catch_up=policy)
    clockwork.skip_to(100 + late)
    assert clockwork.outcomes() == fired(100)


@both_clocks
def test_what_is_late_by_more_than_a_poll_was_missed(clockwork, cadence):
    clockwork.create(cadence, catch_up=NONE)
    clockwork.skip_to(100 + POLL_SECS + 0.125)
    assert clockwork.outcomes() == skipped(100)
    assert "missed" in clockwork.triggers()[0].reason


def test_how_late_is_late_can_be_configured(make_clockwork):
    clockwork = make_clockwork(poll_secs=5.0)
    clockwork.create(Steady(100), catch_up=NONE)
    clockwork.skip_to(106)
    assert clockwork.outcomes() == skipped(100)


@both_clocks
@pytest.mark.parametrize(
    ("wake", "policy", "outcomes"),
    [
        # Only one time has passed, long ago.
        (150, ALL, fired(100)),
        (150, LAST, fired(100)),
        (150, NONE, skipped(100)),
        # Several have, the last one long ago, too.
        (550, ALL, fired(100, 200, 300, 400, 500)),
        (550, LAST, skipped(100) + fired(500)),
        (550, NONE, skipped(100)),
        # Several have, the last one is on time.
        (515, ALL, fired(100, 200, 300, 400, 500)),
        (515, LAST, skipped(100) + fired(500)),
        (515, NONE, skipped(100) + fired(500)),
    ],
)
def test_what_was_missed_goes_by_the_policy(clockwork, cadence, wake, policy, outcomes):
    schedule = independent(clockwork, cadence, catch_up=policy)
    clockwork.skip_to(wake)
    assert clockwork.outcomes() == outcomes
    assert schedule.next_due == clockwork.at(200 if wake == 150 else 600)


@pytest.mark.parametrize(
    ("wake", "window", "outcomes"),
    [
        (550, 260, skipped(100) + fired(300, 400, 500)),
        (550, 60, skipped(100) + fired(500)),
        (550, 40, skipped(100)),
        (150, 40, skipped(100)),
        (150, 60, fired(100)),
    ],
)
def test_only_what_is_within_the_window_is_caught_up(clockwork, wake, window, outcomes):
    schedule = independent(clockwork, Steady(100), catch_up=ALL, catch_up_window_secs=window)
    clockwork.skip_to(wake)
    assert clockwork.outcomes() == outcomes
    assert schedule.next_due == clockwork.at(200 if wake == 150 else 600)


def test_what_is_on_time_fires_however_small_the_window_is(clockwork):
    independent(clockwork, Steady(100), catch_up=ALL, catch_up_window_secs=1)
    clockwork.skip_to(515)
    assert clockwork.outcomes() == skipped(100) + fired(500)


@pytest.mark.parametrize("policy", [LAST, NONE])
def test_the_window_bounds_no_other_policy(clockwork, policy):
    independent(clockwork, Steady(100), catch_up=policy, catch_up_window_secs=0)
    clockwork.skip_to(550)
    assert clockwork.outcomes() == skipped(100) + fired(*[500] * (policy is LAST))


@pytest.mark.python_core
@pytest.mark.parametrize("policy", [LAST, NONE])
def test_a_long_outage_costs_no_more_than_a_short_one(make_clockwork, instructions, policy):
    def cost(secs):
        clockwork = make_clockwork()
        clockwork.create(Steady(1), catch_up=policy)
        clockwork.yard.now += secs
        return instructions(clockwork.advance)

    assert cost(1_000_000) <= cost(1_000) * 1.1


# Pauses

AFTER_A_PAUSE = [(ALL, [], [100, 200, 300, 400, 500]), (LAST, [100], [500]), (NONE, [100], [])]


@both_clocks
@every_policy
@pytest.mark.parametrize("wake", [515, 560])
@pytest.mark.parametrize(("catch_up", "missed", "made_up"), AFTER_A_PAUSE)
def test_what_passed_in_a_pause_goes_by_the_word_of_the_resume(
    clockwork, cadence, policy, wake, catch_up, missed, made_up
):
    schedule = independent(clockwork, cadence, catch_up=policy)
    clockwork.run_to(50)
    clockwork.pause(schedule)
    clockwork.run_to(wake)
    clockwork.resume(schedule, catch_up)
    outcomes = skipped(*missed) + fired(*made_up)
    assert clockwork.outcomes() == outcomes
    assert schedule.next_due == clockwork.at(600)
    clockwork.run_to(650)
    assert clockwork.outcomes() == outcomes + fired(600)


def test_unless_it_is_said_otherwise_a_resume_makes_up_for_nothing(clockwork):
    schedule = clockwork.create(Steady(100), paused=True, catch_up=ALL)
    clockwork.run_to(315)
    clockwork.schedules.resume(clockwork.yard.now, schedule.id)
    clockwork.run_to(350)
    assert clockwork.outcomes() == skipped(100)
    assert "paused" in clockwork.triggers()[0].reason


@pytest.mark.parametrize("catch_up", CatchUp)
def test_a_pause_between_two_times_misses_nothing(clockwork, catch_up):
    schedule = independent(clockwork, Steady(100))
    clockwork.run_to(120)
    clockwork.pause(schedule)
    clockwork.run_to(180)
    clockwork.resume(schedule, catch_up)
    assert clockwork.outcomes() == fired(100)
    clockwork.run_to(250)
    assert clockwork.outcomes() == fired(100, 200)


def test_the_window_reaches_back_from_the_resume(clockwork):
    schedule = independent(clockwork, Steady(100), catch_up_window_secs=260, paused=True)
    clockwork.run_to(550)
    clockwork.resume(schedule, ALL)
    assert clockwork.outcomes() == skipped(100) + fired(300, 400, 500)


@pytest.mark.parametrize(
    ("catch_up", "policy", "outcomes"),
    [
        (NONE, ALL, skipped(100) + fired(300, 400, 500, 600)),
        (ALL, NONE, fired(100, 200) + skipped(300)),
        (LAST, LAST, skipped(100) + fired(200) + skipped(300) + fired(600)),
        (ALL, LAST, fired(100, 200) + skipped(300) + fired(600)),
    ],
)
def test_an_outage_after_a_pause_goes_by_the_schedules_own_policy(clockwork, catch_up, policy, outcomes):
    schedule = independent(clockwork, Steady(100), catch_up=policy, paused=True)
    clockwork.skip_to(250)
    clockwork.schedules.resume(clockwork.yard.now, schedule.id, catch_up)
    clockwork.skip_to(650)
    assert clockwork.outcomes() == outcomes
    assert schedule.next_due == clockwork.at(700)


def test_an_interval_keeps_its_beat_through_pauses_and_outages(clockwork):
    clockwork.skip_to(37)
    schedule = independent(clockwork, Steady(100), catch_up=NONE)
    clockwork.skip_to(512)
    clockwork.pause(schedule)
    clockwork.run_to(999)
    clockwork.resume(schedule)
    assert schedule.next_due == clockwork.at(1_037)


def test_a_pause_is_forgotten_when_the_cadence_is_changed(clockwork):
    clockwork.jump(-1_000)
    schedule = clockwork.create(Steady(100))
    clockwork.pause(schedule)
    clockwork.run_to(250)
    clockwork.resume(schedule)
    clockwork.update(schedule, cadence=Wall(100))
    clockwork.run_to(310)
    assert clockwork.outcomes() == fired(-700) + skipped(100)


# Single times


@every_policy
def test_a_single_time_comes_once(clockwork, policy):
    schedule = clockwork.create(Once(clockwork.at(100)), catch_up=policy)
    clockwork.run_to(110)
    assert clockwork.outcomes() == fired(100)
    assert schedule.next_due is None
    clockwork.jump(-90)
    clockwork.run_to(5_000)
    assert clockwork.outcomes() == fired(100)


@pytest.mark.parametrize(("policy", "state"), [(LAST, "executing"), (ALL, "executing"), (NONE, "skipped")])
@pytest.mark.parametrize("missed_by", ["outage", "pause"])
def test_a_single_time_that_was_missed_goes_by_the_policy(clockwork, policy, state, missed_by):
    schedule = clockwork.create(Once(clockwork.at(100)), catch_up=policy, paused=missed_by == "pause")
    clockwork.skip_to(500)
    clockwork.resume(schedule, policy)
    assert clockwork.outcomes() == [(100, state)]
    assert schedule.next_due is None


def test_a_single_time_outside_of_the_window_is_skipped(clockwork):
    schedule = clockwork.create(Once(clockwork.at(100)), catch_up=ALL, catch_up_window_secs=300)
    clockwork.skip_to(500)
    assert clockwork.outcomes() == skipped(100)
    assert schedule.next_due is None


# Whatever happens


@both_clocks
@pytest.mark.parametrize("seed", range(10))
def test_with_catching_up_each_time_fires_just_once_whenever_one_looks(clockwork, cadence, seed):
    random = Random(seed)
    schedule = independent(clockwork, cadence, catch_up=ALL)
    # So long that no jump reaches the time before its creation.
    clockwork.skip_to(30_000)
    cursors = []
    for _ in range(40):
        clockwork.skip_to(clockwork.yard.now - clockwork.start + random.choice([0.1, 7, 45, 100, 730]))
        if random.random() < 0.2:
            clockwork.jump(random.choice([-500, -20, 20, 500]))
        if random.random() < 0.2:
            clockwork.pause(schedule)
            clockwork.skip_to(clockwork.yard.now - clockwork.start + random.choice([10, 250]))
            clockwork.resume(schedule, ALL)
        cursors.append(schedule.next_due)
    assert all(before <= after for before, after in pairwise(cursors))
    last = round(cursors[-1] - clockwork.start)
    assert clockwork.outcomes() == fired(*range(100, last, 100))
