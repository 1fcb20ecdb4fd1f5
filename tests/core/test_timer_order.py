"""What happens first of things that come due in the same tick: one table for all of them (docs/rules.md, Time)."""

from itertools import combinations, permutations

import pytest

from taskyard_server.core.figures.figures import stats_of
from taskyard_server.core.timers import TimerOrder, Timers
from tests.cases import every_case
from tests.core.schedules.clockwork import Clockwork, Steady
from tests.core.yard import TICK, Yard

SECS = 10.0
"""After which everything in these tests comes due."""


def test_the_order_is_the_documented_one():
    assert [each.name for each in TimerOrder] == [
        "DEADLINE",
        "RUN_TIMEOUT",
        "LEASE_END",
        "SILENCE",
        "DRAIN",
        "NOT_BEFORE",
        "PARK",
        "STOPPING",
        "TRIGGER_DELAY",
        "FORGET_HOST",
        "FORGET_KEY",
        "FORGET_EVENT",
        "HOST_REST",
    ]


@every_case("made", list(permutations([TimerOrder.DEADLINE, TimerOrder.DRAIN, TimerOrder.FORGET_HOST])))
def test_the_order_does_not_depend_on_which_queue_was_made_first(made):
    timers, done = Timers(), []
    queues = {order: timers.queue(lambda _, item: done.append(item), order) for order in made}
    for order, queue in queues.items():
        queue.add(SECS, order)
    while timers.act_on_one(SECS + 1):
        pass
    assert done == sorted(made)


@every_case(("first", "second"), list(combinations(TimerOrder, 2)), ids=lambda order: order.name)
def test_an_earlier_tick_goes_before_any_order(first, second):
    timers, done = Timers(), []
    early = timers.queue(lambda _, item: done.append(item), second)
    late = timers.queue(lambda _, item: done.append(item), first)
    late.add(SECS + TICK, "late")
    early.add(SECS, "early")
    while timers.act_on_one(SECS + 1):
        pass
    assert done == ["early", "late"]


def test_an_item_that_is_added_for_the_present_tick_by_another_comes_in_its_order():
    timers, done = Timers(), []

    def act_on_deadline(now, item):
        done.append(item)
        ends.add(now, "end")

    deadlines = timers.queue(act_on_deadline, TimerOrder.DEADLINE)
    drains = timers.queue(lambda _, item: done.append(item), TimerOrder.DRAIN)
    ends = timers.queue(lambda _, item: done.append(item), TimerOrder.LEASE_END)
    deadlines.add(SECS, "deadline")
    drains.add(SECS, "drain")
    while timers.act_on_one(SECS + TICK):
        pass
    assert done == ["deadline", "drain"], "the end is due a tick later"
    assert timers.next_due() == SECS + 2 * TICK


# Ties in one tick, of everything that can be due


def work(yard, task=None, secs=SECS):
    """A started task whose lease ends then."""
    yard.register()
    task = task or yard.submit(deadline=yard.now + 1_000)
    return yard.start_one(lease_secs=secs)


@pytest.fixture
def yard():
    return Yard(heartbeat_timeout_secs=1_000, default_deadline_secs=1_000)


def test_a_deadline_goes_before_the_end_of_the_lease(yard):
    lease = work(yard, yard.submit(deadline=yard.now + SECS))
    yard.pass_time(SECS + TICK)
    assert (lease.task.state, lease.task.error) == ("failed", "deadline exceeded")
    assert stats_of(yard.scheduler).counters.leases_expired == 0


def test_a_deadline_goes_before_the_death_of_the_host(yard):
    lease = work(yard, yard.submit(deadline=yard.now + SECS), 1_000)
    yard.reconfigure(heartbeat_timeout_secs=SECS / 2)
    yard.pass_time(SECS + TICK)
    assert lease.task.error == "deadline exceeded"


def test_a_deadline_goes_before_the_end_of_a_drain(yard):
    lease = work(yard, yard.submit(deadline=yard.now + SECS), 1_000)
    yard.scheduler.drain_host("host", yard.now + SECS)
    yard.pass_time(SECS + TICK)
    assert lease.task.error == "deadline exceeded"


def test_a_deadline_goes_before_the_time_at_which_a_task_is_due(yard):
    task = yard.submit(deadline=yard.now + SECS, not_before=yard.now + SECS)
    yard.pass_time(SECS + TICK)
    assert (task.state, task.error) == ("failed", "deadline exceeded while queued")
    assert yard.transitions() == [(task.id, "pending"), (task.id, "failed")]


def test_the_end_of_a_lease_goes_before_the_death_of_its_host(yard):
    lease = work(yard)
    yard.reconfigure(heartbeat_timeout_secs=SECS / 2)
    yard.pass_time(SECS + TICK)
    assert [attempt.error for attempt in lease.task.history.attempts] == ["lease expired"]


def test_the_end_of_a_lease_goes_before_the_end_of_a_drain(yard):
    lease = work(yard)
    yard.scheduler.drain_host("host", yard.now + SECS)
    yard.pass_time(SECS + TICK)
    assert lease.task.state == "queued"


def test_the_death_of_a_host_goes_before_the_end_of_its_drain(yard):
    lease = work(yard, secs=1_000)
    yard.reconfigure(heartbeat_timeout_secs=SECS / 2)
    yard.scheduler.drain_host("host", yard.now + SECS)
    yard.pass_time(SECS + TICK)
    assert (lease.task.state, stats_of(yard.scheduler).counters.leases_expired) == ("queued", 1)


def test_the_end_of_a_drain_goes_before_the_time_at_which_a_task_is_due(yard):
    lease = work(yard, secs=1_000)
    later = yard.submit(not_before=yard.now + SECS)
    yard.scheduler.drain_host("host", yard.now + SECS)
    yard.transitions()
    yard.pass_time(SECS + TICK)
    assert yard.transitions() == [(lease.task.id, "paused"), (later.id, "queued")]


def test_a_task_whose_lease_ends_blocks_its_target_before_another_one_comes_due(yard):
    lease = work(yard, yard.submit(target="t", deadline=yard.now + 1_000))
    later = yard.submit(target="t", not_before=yard.now + SECS)
    yard.pass_time(SECS + TICK)
    assert lease.task.state == "failed"
    assert later.state == "queued"
    assert yard.scheduler.targets.after("")[0].standing[1] is lease.task, "it blocks"


def test_a_task_that_is_due_when_a_stopped_lease_frees_its_target_takes_its_place_by_age(yard):
    lease = work(yard, yard.submit(target="t", deadline=yard.now + 1_000))
    older = yard.submit(target="t", not_before=lease.expires_at)
    younger = yard.submit(target="t")
    yard.cancel(lease.task)
    yard.transitions()
    yard.pass_time(SECS + TICK)
    assert yard.transitions() == [(older.id, "queued")]
    assert [each.task for each in yard.claim(count=5)] == [older]
    assert younger.state == "queued"


def test_a_lease_that_ends_in_the_tick_of_its_stop_frees_its_target(yard):
    lease = work(yard, yard.submit(target="t", deadline=yard.now + SECS))
    behind = yard.submit(target="t")
    yard.pass_time(SECS + TICK)
    yard.cancel(lease.task)
    assert [each.task for each in yard.claim(count=5)] == [behind]


def test_a_deadline_makes_room_in_the_queue_before_a_deferred_trigger_tries_again():
    clockwork = Clockwork(Yard(max_queue_size=1))
    in_the_way = clockwork.yard.submit(deadline=clockwork.at(1))
    trigger = clockwork.trigger(clockwork.create(Steady(1_000_000)))
    assert trigger.fire_at == clockwork.at(1)
    clockwork.skip_to(1 + TICK)
    assert in_the_way.state == "failed"
    assert trigger.state == "executing"


def test_a_host_whose_last_lease_ends_in_the_tick_of_its_forgetting_is_forgotten():
    yard = Yard(forget_hosts_secs=SECS, heartbeat_timeout_secs=1_000, default_deadline_secs=1_000)
    yard.register()
    task = yard.submit()
    yard.claim_one(lease_secs=SECS)
    yard.pass_time(SECS + TICK)
    assert list(yard.scheduler.hosts) == []
    assert task.state == "queued"


def test_a_host_that_dies_in_the_tick_of_its_forgetting_loses_its_leases_by_its_death():
    yard = Yard(forget_hosts_secs=SECS, heartbeat_timeout_secs=SECS / 2, default_deadline_secs=1_000)
    yard.register()
    task = yard.submit()
    yard.start_one(lease_secs=1_000)
    yard.pass_time(SECS + TICK)
    assert list(yard.scheduler.hosts) == []
    assert [attempt.error for attempt in task.history.attempts] == [
        "lease expired: runtime host host missed 2 heartbeats"
    ]


def test_after_a_stall_everything_happens_as_if_each_tick_had_been_acted_on_in_time():
    def history(step):
        yard = Yard(heartbeat_timeout_secs=4, default_deadline_secs=1_000, result_ttl_secs=1_000, max_deliveries=2)
        for name in ("one", "two"):
            yard.register(name)
            for number in range(4):
                yard.submit(deadline=yard.now + 5 + number, not_before=None if number % 2 else yard.now + 8)
            for lease in yard.claim(name, 2, lease_secs=8):
                yard.start(lease)
            yard.scheduler.drain_host(name, yard.now + 7)
        yard.transitions()
        end = yard.now + 20
        while yard.now < end:
            yard.pass_time(min(step, end - yard.now))
        return yard.transitions(), [(task.seq, task.state, task.error) for task in yard.tasks()]

    assert history(TICK) == history(20.0)
