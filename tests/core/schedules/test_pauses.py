"""Paused schedules, and what a resume catches up (docs/rules.md, Schedule fields, Catch-up)."""

import pytest

from taskyard_server.core.schedules.schedule import CatchUp

from .clockwork import Steady, Wall, fired, independent, skipped

ALL, LAST, NONE = CatchUp.ALL, CatchUp.LAST, CatchUp.NONE
both_clocks = pytest.mark.parametrize("cadence", [Steady(100), Wall(100)], ids=repr)
every_policy = pytest.mark.parametrize("policy", CatchUp)


AFTER_A_PAUSE = [(ALL, [], [100, 200, 300, 400, 500]), (LAST, [100], [500]), (NONE, [100], [])]


@both_clocks
@every_policy
@pytest.mark.parametrize("wake", [515, 560])
@pytest.mark.parametrize(("catch_up", "missed", "made_up"), AFTER_A_PAUSE)
def test_times_in_a_pause_go_by_the_catch_up_of_the_resume(clockwork, cadence, policy, wake, catch_up, missed, made_up):
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


def test_by_default_a_resume_catches_up_nothing(clockwork):
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
