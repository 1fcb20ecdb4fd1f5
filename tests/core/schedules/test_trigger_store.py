"""The triggers that are kept: keys, listing, bounds, events and figures (docs/rules.md, Triggers)."""

import re
from itertools import islice

import pytest

from taskyard_server.core.errors import NotFound
from taskyard_server.core.figures.figures import add_to_totals
from taskyard_server.core.schedules import trigger_store as kept
from taskyard_server.core.schedules.schedule import LEGAL, CatchUp, Overlap, TriggerState
from taskyard_server.core.stats import Totals

from .clockwork import Steady, Wall

SELDOM = Steady(1_000_000)


def run_once(clockwork, schedule, key=None):
    """A trigger of a schedule that has ended."""
    trigger = clockwork.trigger(schedule, key)
    clockwork.yard.cancel(clockwork.task(trigger))
    clockwork.advance()
    return trigger


# Ids, keys and traces


def test_a_trigger_is_found_by_its_id(clockwork):
    made = [clockwork.trigger(clockwork.create(SELDOM)) for _ in range(50)]
    assert len({each.id for each in made}) == 50
    assert all(re.fullmatch(r"trg_[0-9a-z]{10,}", each.id) for each in made)
    assert all(clockwork.schedules.get_trigger(each.id) is each for each in made)
    with pytest.raises(NotFound):
        clockwork.schedules.get_trigger("trg_never")


@pytest.mark.parametrize("cadence", [Steady(100.125), Wall(100.125)], ids=repr)
def test_the_key_of_a_due_time_is_that_time_in_milliseconds(clockwork, cadence):
    clockwork.create(cadence)
    clockwork.run_to(120)
    (trigger,) = clockwork.triggers()
    assert trigger.key == str(round(trigger.due_at * 1000))


def test_a_key_of_the_callers_own_makes_one_trigger_however_often_it_is_used(clockwork, watch):
    schedule = clockwork.create(SELDOM)
    first = clockwork.trigger(schedule, "k")
    assert first.key == "k"
    clockwork.complete(first)
    clockwork.yard.now += 10
    assert clockwork.schedules.trigger(clockwork.yard.now, schedule.id, "k") is first
    clockwork.yard.scheduler.drain()
    changes = watch(clockwork.yard.scheduler)
    assert clockwork.schedules.trigger(clockwork.yard.now, schedule.id, "k") is first
    assert changes() == []


def test_without_a_key_each_call_makes_a_trigger_with_a_key_of_its_own(clockwork):
    schedule = clockwork.create(SELDOM, overlap=Overlap.ALLOW)
    first, second = clockwork.trigger(schedule), clockwork.trigger(schedule)
    assert first is not second
    assert len({first.key, second.key, ""}) == 3


def test_a_key_belongs_to_its_schedule(clockwork):
    first, second = (clockwork.trigger(clockwork.create(SELDOM), "k") for _ in range(2))
    assert first is not second


def test_a_due_time_whose_key_is_taken_makes_no_second_trigger(clockwork):
    schedule = clockwork.create(Steady(100), overlap=Overlap.ALLOW)
    by_call = clockwork.trigger(schedule, str(round(clockwork.at(100) * 1000)))
    clockwork.run_to(210)
    assert clockwork.outcomes() == [(0, "executing"), (200, "executing")]
    assert clockwork.triggers()[0] is by_call


def test_a_call_with_the_key_of_a_due_time_is_answered_with_its_trigger(clockwork):
    schedule = clockwork.create(Steady(100))
    clockwork.run_to(110)
    (trigger,) = clockwork.triggers()
    assert clockwork.trigger(schedule, trigger.key) is trigger


def test_a_trigger_by_call_is_due_at_the_time_of_the_call_and_leaves_the_next_time_as_it_is(clockwork):
    schedule = clockwork.create(Steady(100))
    clockwork.run_to(40)
    trigger = clockwork.trigger(schedule)
    assert (trigger.due_at, trigger.by_call) == (clockwork.at(40), True)
    assert schedule.next_due == clockwork.at(100)


def test_a_trigger_by_call_is_due_by_the_clock_of_its_schedule(clockwork):
    clockwork.jump(500)
    due = [clockwork.trigger(clockwork.create(cadence)).due_at for cadence in (SELDOM, Wall(1e6))]
    assert due == [clockwork.at(0), clockwork.at(500)]


def test_each_trigger_has_a_trace_of_its_own_or_that_of_the_call(clockwork):
    schedule = clockwork.create(SELDOM, overlap=Overlap.ALLOW)
    traces = [clockwork.trigger(schedule).traceparent for _ in range(20)]
    for trace in traces:
        version, trace_id, parent_id, flags = trace.split("-")
        assert (version, len(trace_id), len(parent_id), len(flags)) == ("00", 32, 16, 2)
        assert int(trace_id, 16)
        assert int(parent_id, 16)
    assert len({trace.split("-")[1] for trace in traces}) == 20
    given = f"00-{'a' * 32}-{'b' * 16}-01"
    assert clockwork.trigger(schedule, traceparent=given).traceparent == given


# Listing


@pytest.mark.parametrize("page_size", [1, 2, 5, 100])
@pytest.mark.parametrize("of_one", [False, True])
def test_pages_show_each_trigger_once_latest_due_first_also_when_others_come(clockwork, page_size, of_one):
    one = clockwork.create(Steady(50), overlap=Overlap.ALLOW)
    clockwork.create(Steady(100), overlap=Overlap.ALLOW)
    clockwork.create(Steady(100), overlap=Overlap.ALLOW)
    clockwork.run_to(410)
    only = one.id if of_one else None
    expected = [*clockwork.schedules.triggers_before(None, only)]
    assert expected == sorted(expected, key=lambda each: (each.due_at, each.number), reverse=True)
    assert len(expected) == (8 if of_one else 16)
    seen, before = [], None
    while page := [*islice(clockwork.schedules.triggers_before(before, only), page_size)]:
        seen += page
        before = (page[-1].due_at, page[-1].number)
        clockwork.trigger(one)
        clockwork.run_to(clockwork.yard.now - clockwork.start + 50)
    assert seen == expected


def test_the_triggers_of_one_schedule_are_those_of_no_other(clockwork):
    a, b = clockwork.create(SELDOM, "a"), clockwork.create(SELDOM, "b")
    first, second = clockwork.trigger(a), clockwork.trigger(b)
    assert (clockwork.triggers(a), clockwork.triggers(b)) == ([first], [second])
    assert [*clockwork.schedules.triggers_before(None, "c")] == []


def test_the_triggers_of_a_deleted_schedule_are_listed_on(clockwork):
    schedule = clockwork.create(SELDOM, overlap=Overlap.ALLOW)
    ended, executing = run_once(clockwork, schedule), clockwork.trigger(schedule)
    clockwork.delete(schedule)
    assert clockwork.triggers(schedule) == [ended, executing]


# Bounds


def test_of_the_ended_ones_the_newest_hundred_of_each_schedule_are_kept(clockwork):
    busy, other = clockwork.create(SELDOM), clockwork.create(SELDOM)
    first = run_once(clockwork, other)
    ended = [run_once(clockwork, busy, str(number)) for number in range(130)]
    assert clockwork.triggers(busy) == ended[-100:]
    assert clockwork.triggers(other) == [first]
    with pytest.raises(NotFound):
        clockwork.schedules.get_trigger(ended[29].id)
    assert clockwork.schedules.get_trigger(ended[30].id) is ended[30]


def test_the_key_of_a_trigger_that_is_forgotten_may_be_used_again(clockwork):
    schedule = clockwork.create(SELDOM)
    first = run_once(clockwork, schedule, "k")
    for _ in range(99):
        run_once(clockwork, schedule)
    assert clockwork.trigger(schedule, "k") is first
    run_once(clockwork, schedule)
    assert clockwork.trigger(schedule, "k") is not first


def test_a_trigger_that_has_not_ended_is_kept_beyond_every_bound(make_clockwork):
    clockwork = make_clockwork(max_queued_triggers=1)
    schedule = clockwork.create(SELDOM, overlap=Overlap.ALLOW)
    executing, *_, pending = [clockwork.trigger(schedule) for _ in range(3)]
    clockwork.update(schedule, overlap=Overlap.SKIP)
    for _ in range(150):
        clockwork.trigger(schedule)
    assert (executing.state, pending.state) == ("executing", "pending")
    assert {executing, pending} < {*clockwork.triggers()}
    assert len(clockwork.triggers()) == 103


def test_the_bound_of_a_namespace_lets_the_oldest_ends_of_all_go_first(clockwork, monkeypatch):
    monkeypatch.setattr(kept, "MAX_ENDED", 5)
    made = [clockwork.create(SELDOM) for _ in range(8)]
    executing = clockwork.trigger(made[0])
    ended = [run_once(clockwork, each) for each in made[1:]]
    assert clockwork.triggers() == [executing, *ended[2:]]


def test_the_bounds_count_the_triggers_of_deleted_schedules(clockwork, monkeypatch):
    monkeypatch.setattr(kept, "MAX_ENDED", 5)
    for _ in range(8):
        schedule = clockwork.create(SELDOM)
        run_once(clockwork, schedule)
        clockwork.delete(schedule)
    assert len(clockwork.triggers()) == 5


def test_the_documented_bounds():
    assert (kept.MAX_ENDED_PER_SCHEDULE, kept.MAX_ENDED) == (100, 100_000)


def test_memory_grows_neither_with_the_triggers_nor_with_the_schedules_that_are_gone(
    make_clockwork, object_count, monkeypatch
):
    monkeypatch.setattr(kept, "MAX_ENDED", 50)

    def load(turns):
        clockwork = make_clockwork(result_ttl_secs=1)
        busy = clockwork.create(Steady(100))
        for _ in range(turns):
            run_once(clockwork, busy)
            gone = clockwork.create(SELDOM)
            run_once(clockwork, gone)
            clockwork.trigger(gone)
            clockwork.delete(gone)
            clockwork.complete_all()
        clockwork.run_to(20)
        clockwork.trigger_events()
        clockwork.yard.transitions()
        return object_count(clockwork.schedules)

    assert load(300) < load(100) * 1.1


def test_what_was_replaced_before_it_fired_is_not_held_in_memory(make_clockwork, object_count):
    def load(turns):
        clockwork = make_clockwork(max_queued_triggers=0)
        replaced = clockwork.create(SELDOM, overlap=Overlap.REPLACE)
        for _ in range(turns):
            clockwork.trigger(replaced)
        clockwork.trigger_events()
        return object_count(clockwork.schedules)

    assert load(1_000) < load(300) * 1.1


# States, events and figures


def test_the_legal_transitions_are_the_documented_ones():
    pending, executing, completed, failed, skipped = TriggerState
    documented = {
        pending: {executing, skipped, failed},
        executing: {completed, failed},
        completed: set(),
        failed: set(),
        skipped: set(),
    }
    assert documented == LEGAL


@pytest.mark.parametrize(
    ("end", "kinds"),
    [
        ("complete", ["due", "claimed", "completed"]),
        ("fail", ["due", "claimed", "failed"]),
        ("cancel", ["due", "claimed", "failed"]),
    ],
)
def test_a_trigger_has_its_events_in_order(clockwork, end, kinds):
    schedule = clockwork.create(Steady(100))
    clockwork.run_to(110)
    (trigger,) = clockwork.triggers()
    match end:
        case "complete":
            clockwork.complete(trigger)
        case "fail":
            clockwork.fail(trigger)
        case "cancel":
            clockwork.yard.cancel(clockwork.task(trigger))
    events = clockwork.schedules.take_events()
    assert [event.kind for event in events] == kinds
    assert {event.trigger for event in events} == {trigger}
    assert [event.at for event in events] == [trigger.fired_at, trigger.fired_at, clockwork.yard.now]
    assert clockwork.trigger_events() == []
    assert schedule.last_task_id == trigger.task_id


def test_skipped_and_deferred_triggers_have_events(make_clockwork):
    clockwork = make_clockwork(max_queue_size=1)
    schedule = clockwork.create(Steady(100), catch_up=CatchUp.NONE)
    clockwork.yard.submit(deadline=clockwork.at(1e6))
    clockwork.skip_to(150)
    late = clockwork.triggers()[0]
    deferred = clockwork.trigger(schedule)
    overlapping = clockwork.trigger(schedule)
    assert clockwork.trigger_events() == [
        (late.id, "due"),
        (late.id, "skipped"),
        (deferred.id, "due"),
        (deferred.id, "deferred"),
        (overlapping.id, "due"),
        (overlapping.id, "skipped"),
    ]
    clockwork.run_to(151.5)
    assert clockwork.trigger_events() == [(deferred.id, "deferred")]


def test_the_figures_count_what_fired_how_it_ended_and_each_deferral(make_clockwork):
    clockwork = make_clockwork(max_queue_size=1)
    schedule = clockwork.create(SELDOM)
    first = clockwork.trigger(schedule)
    clockwork.trigger(schedule)
    deferred = clockwork.trigger(clockwork.create(SELDOM))
    clockwork.run_to(1.5)
    clockwork.complete(first)
    clockwork.run_to(5)
    clockwork.fail(deferred)
    counters = clockwork.schedules.counters
    assert (counters.fired, counters.completed, counters.failed, counters.skipped) == (2, 1, 1, 1)
    assert counters.deferred == 2
    add_to_totals(totals := Totals(), clockwork.yard.scheduler)
    assert (totals.schedules, totals.triggers) == (2, counters)
