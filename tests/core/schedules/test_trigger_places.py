"""Tasks of triggers take a place of `max_concurrent` while they are in flight (docs/rules.md, Trigger places)."""

from random import Random

import pytest

from taskyard_server.core.history import RetryPolicy, Wait
from taskyard_server.core.schedules.schedule import Overlap

from .clockwork import Steady

SELDOM = Steady(1_000_000)
"""For schedules that are triggered by calls."""


@pytest.fixture
def make_clockwork(make_clockwork):
    """Makes a clockwork with a registered host, and leases that last."""

    def make(**limits):
        clockwork = make_clockwork(**{"lease_secs": 3_600.0, "heartbeat_timeout_secs": 1e9, **limits})
        clockwork.yard.register()
        return clockwork

    return make


def triggered(clockwork, count, **options):
    """The tasks of that many triggers, each of its own schedule."""
    return [clockwork.task(clockwork.trigger(clockwork.create(SELDOM, **options))) for _ in range(count)]


def claimed(clockwork, count=100):
    return [lease.task for lease in clockwork.yard.claim(count=count)]


def test_no_more_tasks_of_triggers_are_in_flight_than_there_are_places(make_clockwork):
    clockwork = make_clockwork(max_concurrent=2)
    tasks = triggered(clockwork, 3)
    assert claimed(clockwork) == tasks[:2]
    assert claimed(clockwork) == []
    assert tasks[2].state == "queued"


def test_triggers_fire_and_queue_their_tasks_though_all_places_are_taken(make_clockwork):
    clockwork = make_clockwork(max_concurrent=1)
    triggered(clockwork, 1)
    claimed(clockwork)
    trigger = clockwork.trigger(clockwork.create(SELDOM))
    assert (trigger.state, clockwork.task(trigger).state) == ("executing", "queued")


def test_other_tasks_can_be_claimed_meanwhile_and_take_no_place(make_clockwork):
    clockwork = make_clockwork(max_concurrent=1)
    of_trigger, waiting = triggered(clockwork, 2)
    others = [clockwork.yard.submit("bob") for _ in range(3)]
    assert sorted(claimed(clockwork), key=lambda task: task.seq) == [of_trigger, *others]
    assert waiting.state == "queued"
    assert clockwork.yard.scheduler.view.inflight == 4


def test_a_task_of_a_trigger_does_not_hide_other_tasks_of_its_agent_and_kind(make_clockwork):
    clockwork = make_clockwork(max_concurrent=1)
    first, _ = triggered(clockwork, 2)
    plain = clockwork.yard.submit("ann", "click", priority=9)
    assert claimed(clockwork) == [first, plain]


END_OF_FLIGHT = {
    "complete": lambda yard, lease: yard.complete(lease),
    "fail": lambda yard, lease: yard.fail(lease),
    "release": lambda yard, lease: yard.release(lease),
    "cancel": lambda yard, lease: yard.cancel(lease.task),
    "pause": lambda yard, lease: yard.pause(lease.task),
    "deregister": lambda yard, _: (yard.deregister(), yard.register()),
    "expiry": lambda yard, lease: yard.pass_time(lease.expires_at - yard.now + 0.2),
    "failed attempt": lambda yard, lease: yard.fail(lease),
}


@pytest.mark.parametrize("end", END_OF_FLIGHT)
def test_every_end_of_flight_gives_the_place_back(make_clockwork, end):
    clockwork = make_clockwork(max_concurrent=1)
    retry = RetryPolicy(2, 1_000.0) if end == "failed attempt" else None
    triggered(clockwork, 2, retry=retry)
    (lease,) = clockwork.yard.claim(count=5)
    clockwork.yard.start(lease)
    END_OF_FLIGHT[end](clockwork.yard, lease)
    assert len(claimed(clockwork)) == 1


@pytest.mark.parametrize("end", ["complete", "cancel", "pause"])
def test_a_place_that_is_given_back_wakes_a_host_that_waits(make_clockwork, end):
    clockwork = make_clockwork(max_concurrent=1)
    clockwork.yard.stream("streamer", credit=5)
    first, second = triggered(clockwork, 2)
    lease = clockwork.yard.dispatch_one()
    assert lease.task is first
    assert clockwork.yard.dispatch() == []
    END_OF_FLIGHT[end](clockwork.yard, lease)
    assert clockwork.yard.dispatch_one().task is second


def test_a_dispatch_hands_out_no_more_tasks_of_triggers_than_there_are_places(make_clockwork):
    clockwork = make_clockwork(max_concurrent=2)
    for name in ("one", "two"):
        clockwork.yard.stream(name, credit=5)
    tasks = triggered(clockwork, 3)
    plain = clockwork.yard.submit("bob")
    handed = [lease.task for lease in clockwork.yard.dispatch()]
    assert sorted(handed, key=lambda task: task.seq) == [*tasks[:2], plain]


def test_a_paused_task_takes_no_place_until_it_is_handed_out_again(make_clockwork):
    clockwork = make_clockwork(max_concurrent=1)
    first, second = triggered(clockwork, 2)
    clockwork.yard.pause(clockwork.yard.claim_one().task)
    (lease,) = clockwork.yard.claim(count=5)
    assert lease.task is second
    clockwork.yard.resume(first)
    assert claimed(clockwork) == []
    clockwork.yard.complete(lease)
    assert claimed(clockwork) == [first]


def test_a_failed_task_that_is_resumed_takes_a_place_though_its_trigger_has_ended(make_clockwork):
    clockwork = make_clockwork(max_concurrent=1)
    first, second = triggered(clockwork, 2)
    clockwork.yard.fail(clockwork.yard.claim_one())
    clockwork.yard.resume(first)
    assert claimed(clockwork) == [first], "at its old place"
    assert claimed(clockwork) == []
    assert second.state == "queued"


@pytest.mark.parametrize(("limit", "count"), [(1, 0), (2, 0), (3, 1), (5, 3)])
def test_a_changed_limit_holds_at_once_and_ends_nothing(make_clockwork, limit, count):
    clockwork = make_clockwork(max_concurrent=2)
    triggered(clockwork, 6)
    leases = clockwork.yard.claim(count=10)
    clockwork.reconfigure(max_concurrent=limit)
    assert [lease.task.state for lease in leases] == ["assigned"] * 2
    assert len(claimed(clockwork)) == count


def test_below_a_lowered_limit_places_are_given_out_again_only_when_enough_have_ended(make_clockwork):
    clockwork = make_clockwork(max_concurrent=3)
    triggered(clockwork, 5)
    leases = clockwork.yard.claim(count=10)
    clockwork.reconfigure(max_concurrent=1)
    for lease in leases[:2]:
        clockwork.yard.complete(lease)
        assert claimed(clockwork) == []
    clockwork.yard.complete(leases[2])
    assert len(claimed(clockwork)) == 1


def test_a_raised_limit_wakes_a_host_that_waits(make_clockwork):
    clockwork = make_clockwork(max_concurrent=1)
    clockwork.yard.stream("streamer", credit=5)
    triggered(clockwork, 2)
    assert len(clockwork.yard.dispatch()) == 1
    clockwork.reconfigure(max_concurrent=2)
    assert len(clockwork.yard.dispatch()) == 1


def test_many_schedules_share_the_places(make_clockwork):
    """No more are in flight than may be, and no task is forgotten."""
    clockwork = make_clockwork(max_concurrent=3)
    schedules = [clockwork.create(SELDOM, overlap=Overlap.ALLOW, agent=f"agent-{number % 2}") for number in range(5)]
    for schedule in schedules:
        for _ in range(3):
            clockwork.trigger(schedule)
    finished = 0
    while leases := clockwork.yard.claim(count=10):
        assert clockwork.yard.scheduler.view.inflight <= 3
        clockwork.yard.complete(leases[0])
        for lease in leases[1:]:
            clockwork.yard.release(lease)
        finished += 1
    assert finished == 15


# What the figures name


def test_while_tasks_of_triggers_wait_for_a_place_the_limit_is_named(make_clockwork):
    clockwork = make_clockwork(max_concurrent=1)
    triggered(clockwork, 1)
    lease = clockwork.yard.claim_one()
    assert clockwork.schedules.limited_by is None
    triggered(clockwork, 1)
    assert clockwork.schedules.limited_by == "maxConcurrent"
    clockwork.yard.complete(lease)
    assert clockwork.schedules.limited_by is None


def test_of_both_limits_the_one_that_holds_up_queued_tasks_is_named(make_clockwork):
    clockwork = make_clockwork(max_concurrent=1, max_queued_triggers=1)
    schedule = clockwork.create(SELDOM, overlap=Overlap.ALLOW)
    clockwork.trigger(schedule)
    clockwork.yard.claim_one()
    clockwork.trigger(schedule)
    clockwork.trigger(schedule)
    assert clockwork.schedules.limited_by == "maxConcurrent"


def test_the_limit_of_triggers_is_not_the_one_that_holds_up_hosts(make_clockwork):
    """`limitedBy` of the stats is about tasks of all kinds."""
    clockwork = make_clockwork(max_concurrent=1)
    triggered(clockwork, 2)
    assert len(claimed(clockwork)) == 1
    assert clockwork.yard.scheduler.limited_by is None


@pytest.mark.parametrize("end", ["cancel", "deadline"])
def test_no_limit_is_named_once_no_task_of_a_trigger_waits(make_clockwork, end):
    clockwork = make_clockwork(max_concurrent=1)
    triggered(clockwork, 1)
    clockwork.yard.claim_one()
    (waiting,) = triggered(clockwork, 1, deadline_secs=10.0)
    if end == "cancel":
        clockwork.yard.cancel(waiting)
    else:
        clockwork.yard.pass_time(11)
    assert waiting.lease is None
    assert clockwork.schedules.limited_by is None


def test_the_choice_among_agents_is_that_of_the_claimable_tasks(make_clockwork):
    """The agent that would be next has only tasks of triggers, and all places are taken."""
    clockwork = make_clockwork(max_concurrent=1, max_per_agent_inflight=1)
    triggered(clockwork, 1, agent="ann")
    triggered(clockwork, 1, agent="cy")
    plain = clockwork.yard.submit("bob")
    assert claimed(clockwork) == [clockwork.tasks()[0], plain]


@pytest.mark.parametrize("seed", range(5))
def test_the_places_never_drift(make_clockwork, seed):
    """Random claims, ends, releases, pauses, resumes and limits: the number in flight is always below the limit."""
    draw = Random(seed)
    clockwork = make_clockwork(max_concurrent=3, max_queued_triggers=4)
    yard, most = clockwork.yard, 3
    schedules = [clockwork.create(SELDOM, overlap=Overlap.ALLOW) for _ in range(4)]

    def in_flight():
        return [task for task in yard.tasks() if task.lease is not None and task.options.trigger_id is not None]

    for _ in range(300):
        before = len(in_flight())
        match draw.randrange(6):
            case 0 | 1:
                clockwork.trigger(draw.choice(schedules))
            case 2:
                yard.claim(count=draw.randrange(1, 4))
                assert len(in_flight()) <= max(most, before)
            case 3 if tasks := in_flight():
                lease = draw.choice(tasks).lease
                draw.choice([yard.complete, yard.fail, yard.release, lambda its: yard.pause(its.task)])(lease)
            case 4 if paused := [task for task in yard.tasks() if task.state in ("paused", "failed")]:
                yard.resume(draw.choice(paused))
            case 5:
                most = draw.randrange(1, 6)
                clockwork.reconfigure(max_concurrent=most)
        clockwork.advance()
        for schedule in schedules:
            states = [clockwork.task(each).state for each in schedule.live if each.task_id is not None]
            assert schedule.queued == sum(state in ("queued", "pending") for state in states)
            assert schedule.executing == len(states)
    assert yard.scheduler._life.triggered.inflight == len(in_flight())


def test_a_parked_task_takes_no_place_though_it_has_not_ended(make_clockwork):
    clockwork = make_clockwork(max_concurrent=1)
    schedule = clockwork.create(SELDOM, overlap=Overlap.SKIP)
    trigger = clockwork.trigger(schedule)
    (second,) = triggered(clockwork, 1)
    lease = clockwork.yard.claim_one()
    clockwork.yard.park(lease, Wait("answer", "go"))
    assert claimed(clockwork) == [second]
    assert (trigger.state, clockwork.trigger(schedule).state) == ("executing", "skipped")
    clockwork.yard.answer(lease.task, "go")
    assert claimed(clockwork) == [], "the place is taken"
    clockwork.yard.cancel(second)
    assert claimed(clockwork) == [lease.task]
