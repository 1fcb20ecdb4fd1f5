"""When triggers come due, and which missed times are caught up (docs/rules.md, Triggers, Catch-up)."""

from itertools import pairwise
from random import Random

import pytest

from taskyard_server.core.schedules.schedule import CatchUp

from .clockwork import Once, Steady, Wall, fired, independent, skipped

ALL, LAST, NONE = CatchUp.ALL, CatchUp.LAST, CatchUp.NONE


POLL_SECS = 30.0
"""The default of `daemon.pollIntervalMs`: what is late by more was missed."""


both_clocks = pytest.mark.parametrize("cadence", [Steady(100), Wall(100)], ids=repr)


every_policy = pytest.mark.parametrize("policy", CatchUp)


# On time


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


def test_the_wall_clock_is_polled_also_when_the_next_time_is_far(clockwork):
    clockwork.create(Wall(1_000_000))
    clockwork.advance()
    assert clockwork.yard.scheduler.next_due() == clockwork.at(POLL_SECS)
    clockwork.skip_to(12)
    assert clockwork.yard.scheduler.next_due() == clockwork.at(12 + POLL_SECS)


def test_intervals_alone_need_no_polls_of_the_wall_clock(clockwork):
    clockwork.create(Steady(1_000_000))
    clockwork.advance()
    assert clockwork.yard.scheduler.next_due() == pytest.approx(clockwork.at(1_000_000), abs=0.125)


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
        (515, LAST, skipped(100) + fired(400, 500)),
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


def test_a_time_that_is_noticed_in_time_fires_outside_of_the_window(clockwork):
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


# Random histories


@both_clocks
@pytest.mark.parametrize("seed", range(10))
def test_with_catch_up_all_each_time_fires_once_at_any_times_of_advance(clockwork, cadence, seed):
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
