"""Time: `advance` does what is due in order and in steps, and `next_due` announces it (docs/rules.md, Time)."""

from random import Random

import pytest

from taskyard_server.core.errors import LeaseLost
from taskyard_server.core.figures.figures import stats_of


def test_nothing_is_due_where_nothing_is(yard):
    assert yard.scheduler.next_due() is None
    assert yard.scheduler.advance(yard.now) is False


@pytest.mark.parametrize("secs", [0.01, 1, 10.3, 3600])
def test_the_next_due_is_never_before_the_deadline_and_at_most_an_eighth_of_a_second_after(yard, secs):
    yard.submit(deadline=yard.now + secs)
    assert yard.now + secs <= yard.scheduler.next_due() <= yard.now + secs + 0.125


def test_the_next_due_is_that_of_the_first_thing_of_any_kind(make_yard):
    yard = make_yard(max_queue_size=2, result_ttl_secs=20)
    yard.register()

    def due_in():
        return yard.scheduler.next_due() - yard.now

    yard.submit(deadline=yard.now + 1000)
    assert due_in() == 1000.125
    lease = yard.claim_one(lease_secs=110)
    assert due_in() == 110.125
    yard.submit(deadline=yard.now + 100)
    assert due_in() == 100.125
    yard.complete(lease)
    assert due_in() == 20
    yard.now += 5
    yard.submit(deadline=yard.now + 200)
    with pytest.raises(Exception, match="global queue full"):
        yard.submit()
    assert due_in() == 15
    yard.pass_time(15)
    assert due_in() == 5
    yard.pass_time(5)
    assert due_in() == 75.125


def test_the_next_due_moves_back_when_what_was_due_is_gone(yard):
    yard.register()
    soon = yard.submit(deadline=yard.now + 5)
    yard.submit(deadline=yard.now + 50)
    yard.cancel(soon)
    assert yard.scheduler.next_due() == yard.now + 50.125
    lease = yard.claim_one(lease_secs=10)
    yard.renew(lease, 30)
    assert yard.scheduler.next_due() == yard.now + 30.125
    yard.release(lease)
    assert yard.scheduler.next_due() == yard.now + 50.125


def test_a_rough_next_due_may_be_early_and_is_never_late(yard):
    yard.register()
    soon = yard.submit(deadline=yard.now + 5)
    yard.submit(deadline=yard.now + 50)
    yard.cancel(soon)
    yard.claim_one(lease_secs=30)
    assert yard.scheduler.next_due(True) == yard.now + 5.125
    yard.now += 6
    assert yard.scheduler.advance(yard.now) is False
    assert yard.scheduler.next_due(True) == yard.now + 24.125


def test_a_new_ttl_moves_the_next_due(yard):
    yard.cancel(yard.submit())
    assert yard.scheduler.next_due() == yard.now + 300
    yard.reconfigure(result_ttl_secs=10)
    assert yard.scheduler.next_due() == yard.now + 10


def test_what_is_due_is_done_in_order_of_time(yard):
    draw = Random(1)
    secs = [draw.randrange(1, 800) / 8 for _ in range(200)]
    tasks = [yard.submit(deadline=yard.now + sec) for sec in secs]
    yard.transitions()
    yard.pass_time(1_000)
    deadlines = {task.id: task.deadline for task in tasks}
    ended = [deadlines[task_id] for task_id, _ in yard.transitions()]
    assert ended == sorted(deadlines.values())


def test_leases_and_deadlines_are_done_in_one_order_of_time(yard):
    yard.register()
    early, late = yard.submit(deadline=yard.now + 10), yard.submit(deadline=yard.now + 30)
    lease = yard.submit(deadline=yard.now + 1000, priority=-1)
    yard.claim_one(lease_secs=20)
    yard.transitions()
    yard.pass_time(100)
    assert yard.transitions() == [(early.id, "failed"), (lease.id, "queued"), (late.id, "failed")]


def test_advance_does_at_most_that_many_things_and_answers_whether_there_are_more(yard):
    for _ in range(10):
        yard.submit(deadline=yard.now + 1)
    yard.now += 2
    chunks = []
    more = True
    while more:
        before = stats_of(yard.scheduler).queued
        more = yard.scheduler.advance(yard.now, max_items=4)
        chunks.append(before - stats_of(yard.scheduler).queued)
    assert chunks == [4, 4, 2]


def test_a_chunk_is_the_same_as_many_small_ones(make_yard):
    def ends(most):
        yard = make_yard(result_ttl_secs=5, max_deliveries=2)
        yard.register()
        draw = Random(3)
        for number in range(100):
            yard.submit(f"agent-{number % 5}", deadline=yard.now + draw.randrange(1, 30))
        yard.claim(count=40, lease_secs=3)
        states = []
        for _ in range(10):
            yard.now += 4
            while yard.scheduler.advance(yard.now, most):
                pass
            states += yard.transitions()
            yard.claim(count=10, lease_secs=3)
        return states, [(task.seq, task.state) for task in yard.tasks()]

    assert ends(1) == ends(7) == ends(1000)


def test_by_default_a_chunk_is_a_thousand(yard):
    for _ in range(2_500):
        yard.submit(deadline=yard.now + 1)
    yard.now += 2
    assert yard.scheduler.advance(yard.now) is True
    assert stats_of(yard.scheduler).queued == 1_500


def test_before_the_next_due_there_is_nothing_to_do(yard, watch):
    yard.register()
    yard.submit(deadline=yard.now + 10.3)
    yard.claim_one(lease_secs=7.7)
    yard.cancel(yard.submit())
    for _ in range(3):
        yard.now = yard.scheduler.next_due() - 0.001
        changes = watch(yard.scheduler)
        assert yard.scheduler.advance(yard.now) is False
        assert changes() == []
        yard.pass_time(0.002)


@pytest.mark.parametrize("seed", range(5))
def test_a_caller_that_sleeps_until_the_next_due_does_everything_in_time(make_yard, seed):
    """Random tasks and leases, driven by `next_due` alone: nothing is overdue, and in the end nothing is left."""
    draw = Random(seed)
    yard = make_yard(result_ttl_secs=17.3, max_deliveries=2)
    yard.register()
    stop = yard.now + 200
    wakes = 0
    while (due := yard.scheduler.next_due()) is not None or yard.now < stop:
        step = yard.now + draw.random() if yard.now < stop else float("inf")
        if due is None or step < due:
            yard.now = step
            yard.submit(deadline=yard.now + draw.uniform(0.01, 40))
            for lease in yard.claim(lease_secs=draw.uniform(1, 10)):
                if draw.random() < 0.3:
                    yard.complete(lease)
            continue
        yard.now = due
        yard.pass_time(0)
        wakes += 1
        assert yard.scheduler.next_due() is None or yard.scheduler.next_due() > yard.now
        for task in yard.tasks():
            if task.completed_at is None:
                assert yard.now <= task.deadline + 0.125
                assert task.lease is None or yard.now <= task.lease.expires_at + 0.125
            else:
                assert yard.now < task.completed_at + 17.3
    assert wakes > 300
    assert yard.tasks() == []


def test_every_transition_has_the_time_at_which_it_was_made(yard):
    yard.register()
    times = []
    for act in (yard.submit, yard.claim_one):
        yard.now += 1
        times.append(yard.now)
        act()
    (lease,) = yard.register().leases.values()
    for act in (yard.start, yard.release):
        yard.now += 1
        times.append(yard.now)
        act(lease)
    yard.pass_time(100)
    times.append(yard.now)
    assert [event.at for event in yard.scheduler.take_events()] == times


def test_a_refused_command_makes_no_transition(yard):
    yard.register()
    yard.submit()
    lease = yard.claim_one()
    yard.cancel(lease.task)
    yard.transitions()
    with pytest.raises(LeaseLost):
        yard.complete(lease)
    assert yard.transitions() == []
