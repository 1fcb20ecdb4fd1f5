"""Jitter: many triggers that come due at one moment are spread, few are not (docs/rules.md, Jitter)."""

from itertools import pairwise

from taskyard_server.core.limits import Limits
from taskyard_server.core.schedules.schedule import CatchUp, Overlap

from .clockwork import Steady


def schedules(clockwork, count):
    return [clockwork.create(Steady(100)) for _ in range(count)]


def states(triggers):
    return [str(each.state) for each in triggers]


def test_the_documented_defaults():
    limits = Limits()
    assert (limits.max_concurrent, limits.jitter_threshold, limits.max_jitter_secs) == (5, 3, 30.0)


def test_as_many_as_the_threshold_fire_at_once(make_clockwork):
    clockwork = make_clockwork(jitter_threshold=3)
    schedules(clockwork, 3)
    clockwork.run_to(100.125)
    assert states(clockwork.triggers()) == ["executing"] * 3


def test_more_than_the_threshold_are_spread_over_the_jitter(make_clockwork):
    clockwork = make_clockwork(jitter_threshold=3, max_jitter_secs=30.0)
    schedules(clockwork, 40)
    clockwork.run_to(100.125)
    put_off = [each for each in clockwork.triggers() if each.state == "pending"]
    assert len(put_off) >= 38
    assert all(clockwork.yard.now < each.fire_at <= clockwork.at(130.125) for each in put_off)
    clockwork.run_to(130.5)
    fired_at = [each.fired_at - clockwork.start for each in clockwork.triggers()]
    assert len({*fired_at}) > 20
    assert min(fired_at) < 108
    assert max(fired_at) > 122
    assert all(each.fire_at is None for each in clockwork.triggers())


def test_a_batch_is_spread_in_the_order_of_due_times(make_clockwork):
    clockwork = make_clockwork(jitter_threshold=3)
    clockwork.create(Steady(7), overlap=Overlap.ALLOW, catch_up=CatchUp.ALL)
    clockwork.create(Steady(11), overlap=Overlap.ALLOW, catch_up=CatchUp.ALL)
    clockwork.skip_to(300)
    clockwork.pause(clockwork.schedules.after(0)[0])
    spread = [each.fire_at for each in clockwork.triggers(clockwork.schedules.after(0)[1]) if each.fire_at is not None]
    assert len(spread) > 20
    assert all(before <= after for before, after in pairwise(spread))


def test_triggers_of_different_schedules_are_spread_together_also_in_small_steps(make_clockwork):
    clockwork = make_clockwork(jitter_threshold=3)
    schedules(clockwork, 4)
    clockwork.yard.now = clockwork.at(101)
    while clockwork.yard.scheduler.advance(clockwork.yard.now, 1):
        pass
    assert sum(each.state == "pending" for each in clockwork.triggers()) >= 3


def test_what_is_skipped_does_not_count_for_the_jitter(make_clockwork):
    clockwork = make_clockwork(jitter_threshold=3)
    for each in [*schedules(clockwork, 5), clockwork.create(Steady(530))][:5]:
        clockwork.update(each, catch_up=CatchUp.NONE)
    clockwork.skip_to(540)
    assert sorted(states(clockwork.triggers())) == ["executing"] + ["skipped"] * 5


def test_the_spread_comes_from_the_seeded_source(make_clockwork):
    def spread():
        clockwork = make_clockwork(jitter_threshold=3)
        schedules(clockwork, 10)
        clockwork.run_to(101)
        return [each.fire_at for each in clockwork.triggers()]

    assert spread() == spread()


def test_a_trigger_by_call_waits_for_no_batch_and_is_not_held_up_by_one_that_is_put_off(make_clockwork):
    clockwork = make_clockwork(jitter_threshold=3)
    made = schedules(clockwork, 20)
    clockwork.run_to(100.125)
    put_off = next(each for each in clockwork.triggers() if each.fire_at is not None)
    assert put_off.schedule in made
    assert clockwork.trigger(put_off.schedule).state == "executing"
    clockwork.run_to(131)
    assert put_off.state == "skipped"


def test_a_long_outage_makes_a_thousand_triggers_at_once_and_no_more(make_clockwork):
    clockwork = make_clockwork(jitter_threshold=3, max_concurrent=1)
    schedule = clockwork.create(Steady(1), overlap=Overlap.ALLOW, catch_up=CatchUp.ALL)
    clockwork.skip_to(3000)
    (skipped,) = [each for each in clockwork.triggers() if each.state == "skipped"]
    assert skipped.reason == "1000 triggers of the schedule have not ended"
    assert skipped.due_at == clockwork.at(1001)
    # The times of the last poll interval are on time, and come beyond the bound.
    assert len(schedule.live) == 1000 + 29
    assert schedule.next_due == clockwork.at(3000)
