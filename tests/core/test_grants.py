"""How leases begin and end: what a claim grants, and what becomes of a lease that ends (docs/rules.md, Leases)."""

import pytest

from taskyard_server.core.errors import NotFound
from taskyard_server.core.history import RetryPolicy
from tests.core.yard import TICK

# What a claim grants


def test_a_claim_grants_the_task_to_the_host_for_a_minute(yard):
    host = yard.register()
    task = yard.submit()
    lease = yard.claim_one()
    assert lease.task is task
    assert lease.host is host
    assert (lease.claimed_at, lease.expires_at, lease.token) == (yard.now, yard.now + 60, 1)
    assert task.state == "assigned"
    assert task.lease is lease
    assert host.leases == {task.id: lease}


def test_a_claim_of_a_host_that_is_not_registered_is_not_found(yard):
    yard.submit()
    with pytest.raises(NotFound, match="runtime host not found"):
        yard.claim("stranger")


def test_a_claim_finds_nothing_where_nothing_waits(yard):
    yard.register()
    assert yard.claim() == []


def test_a_claim_grants_no_more_tasks_than_its_count(yard):
    yard.register()
    for _ in range(5):
        yard.submit()
    assert len(yard.claim(count=3)) == 3
    assert yard.claim(count=0) == []
    assert len(yard.claim(count=3)) == 2


def test_a_lease_blocks_claims_of_all_hosts_while_it_lives(yard):
    yard.register("one")
    yard.register("two")
    yard.submit(deadline=yard.now + 1_000)
    yard.claim_one("one", lease_secs=60)
    yard.pass_time(60)
    assert yard.claim("two") == yard.claim("one") == []


# The end of a lease


def test_a_lease_lives_to_its_last_moment_and_ends_at_most_an_eighth_of_a_second_later(yard):
    lease = yard.leased(10)
    yard.pass_time(10)
    assert lease.task.lease is lease
    yard.pass_time(TICK)
    assert (lease.task.state, lease.task.lease, lease.host.leases) == ("queued", None, {})


@pytest.mark.parametrize("started", [False, True])
def test_an_expired_lease_can_be_claimed_by_another_host(yard, started):
    lease = yard.leased(10)
    if started:
        yard.start(lease)
    yard.pass_time(10 + TICK)
    yard.register("another")
    again = yard.claim_one("another")
    assert again.task is lease.task
    assert again.host.id == "another"


def test_a_task_whose_leases_expire_is_handed_out_max_deliveries_times_and_then_fails(make_yard):
    yard = make_yard(max_deliveries=3)
    task = yard.leased(10).task
    for _ in range(2):
        yard.pass_time(10 + TICK)
        assert task.state == "queued"
        yard.claim_one(lease_secs=10)
    yard.pass_time(10 + TICK)
    assert (task.state, task.error, task.completed_at) == ("failed", "lease expired", yard.now)
    assert task.lease is None
    assert yard.claim() == []


def test_by_default_a_task_is_handed_out_five_times(yard):
    task = yard.leased(1).task
    hand_outs = 1
    while task.state != "failed":
        yard.pass_time(1 + TICK)
        hand_outs += len(yard.claim(lease_secs=1))
    assert hand_outs == 5


def test_a_release_puts_the_task_back_at_once_and_does_not_count_as_a_delivery(make_yard):
    yard = make_yard(max_deliveries=1)
    lease = yard.leased()
    for _ in range(10):
        task = yard.release(lease)
        assert (task.state, task.lease) == ("queued", None)
        lease = yard.claim_one(lease_secs=5)
    yard.pass_time(5 + TICK)
    assert (task.state, task.error) == ("failed", "lease expired")


def test_a_running_task_may_be_released_too(yard):
    lease = yard.leased()
    yard.start(lease)
    assert yard.release(lease).state == "queued"


def test_tasks_of_a_deregistered_host_can_be_claimed_at_once(yard):
    yard.register()
    yard.register("another")
    assigned, running, kept = [yard.submit() for _ in range(3)]
    leases = yard.claim(count=2)
    yard.start(leases[1])
    other = yard.claim_one("another")
    yard.deregister()
    assert (assigned.state, running.state, kept.state) == ("queued", "queued", "assigned")
    assert other.host.leases == {kept.id: other}
    assert [lease.task for lease in yard.claim("another", 5)] == [assigned, running]


# Why a task went back: it stands with the attempt and in the stop, not on the task


def expired(yard, lease):
    yard.pass_time(lease.expires_at - yard.now + TICK)


def not_started_in_time(yard, _):
    yard.pass_time(yard.scheduler.limits.start_timeout_secs + TICK)


def broken_stream(yard, lease):
    yard.disconnect(lease.stream)
    yard.pass_time(yard.scheduler.limits.reconnect_grace_secs + TICK)


def forgotten_by_its_host(yard, _):
    yard.connect()


def deregistered(yard, _):
    yard.deregister()


def dead(yard, _):
    yard.reconfigure(heartbeat_timeout_secs=2.0)
    yard.pass_time(4 + TICK)


MISSED = "lease expired: runtime host host missed 2 heartbeats"
BACK = [
    (expired, True, "lease expired"),
    (not_started_in_time, False, None),
    (broken_stream, True, "lease expired"),
    (broken_stream, False, None),
    (forgotten_by_its_host, True, "lease expired"),
    (forgotten_by_its_host, False, None),
    (deregistered, True, "the host was deregistered"),
    (deregistered, False, None),
    (dead, True, MISSED),
    (dead, False, None),
]
NOT_STARTED = {deregistered: "the host was deregistered"}


@pytest.mark.parametrize(("how", "started", "reason"), BACK)
def test_a_requeued_task_has_no_error_and_its_attempt_has_the_reason(yard, how, started, reason):
    yard.stream()
    task = yard.submit(deadline=yard.now + 100_000)
    lease = yard.dispatch_one()
    if started:
        yard.start(lease)
    yard.scheduler.take_events()
    how(yard, lease)
    assert (task.state, task.error, task.lease) == ("queued", None, None)
    assert [attempt.error for attempt in task.history.attempts] == ([reason] if started else [])
    assert yard.stops() == [(lease, "lease_ended", reason or NOT_STARTED.get(how, "not started by its host"))]
    assert [event.error for event in yard.scheduler.take_events()] == [None]


@pytest.mark.parametrize(("how", "started", "reason"), BACK)
def test_it_has_none_either_while_it_waits_for_its_next_attempt(yard, how, started, reason):
    yard.stream()
    task = yard.submit(deadline=yard.now + 100_000, retry=RetryPolicy(5, 1_000.0))
    lease = yard.dispatch_one()
    if started:
        yard.start(lease)
    how(yard, lease)
    assert task.state == ("pending" if started and how is not deregistered else "queued")
    assert task.error is None
    assert [attempt.error for attempt in task.history.attempts] == ([reason] if started else [])


def test_a_task_that_its_host_gave_back_has_neither_an_error_nor_an_attempt(yard):
    yard.stream()
    task = yard.submit()
    lease = yard.dispatch_one()
    yard.start(lease)
    yard.release(lease)
    assert (task.state, task.error, task.history.attempts, yard.stops()) == ("queued", None, (), [])


def test_a_reported_failure_that_is_repeated_stands_with_its_attempt_alone(yard):
    yard.stream()
    task = yard.submit(retry=RetryPolicy(2, 1.0))
    yard.fail(yard.dispatch_one(), "no such element", code="gone")
    assert (task.state, task.error) == ("pending", None)
    assert [(attempt.error, attempt.code) for attempt in task.history.attempts] == [("no such element", "gone")]
    assert yard.stops() == []


def test_the_last_failure_is_the_error_of_the_task_too(make_yard):
    yard = make_yard(max_deliveries=2)
    lease = yard.leased(5)
    for error in (None, "lease expired"):
        yard.start(lease)
        yard.pass_time(5 + TICK)
        assert lease.task.error == error
        lease = next(iter(yard.claim(lease_secs=5)), lease)
    assert lease.task.state == "failed"
    yard.resume(lease.task)
    assert lease.task.error is None


# Fencing tokens


def test_each_lease_has_a_higher_fencing_token_than_all_before_it_whatever_its_task(yard):
    yard.register()
    for _ in range(3):
        yard.submit()
    first, second = yard.claim(count=2)
    yard.release(first)
    again, third = yard.claim(count=2)
    assert (again.task, third.task) == (first.task, yard.tasks()[2])
    assert [lease.token for lease in (first, second, again, third)] == [1, 2, 3, 4]
    assert [task.token for task in yard.tasks()] == [3, 2, 4]
    assert yard.scheduler.view.last_token == 4


def test_a_task_that_was_never_handed_out_has_no_fencing_token_and_takes_none(yard):
    yard.register()
    cancelled, leased = yard.submit(), yard.submit()
    yard.cancel(cancelled)
    assert yard.scheduler.view.last_token == 0
    assert yard.claim_one().token == 1
    assert (cancelled.token, leased.token) == (0, 1)


# The list of leases


def test_live_leases_are_listed_in_the_order_in_which_they_were_granted(yard):
    yard.register("one")
    yard.register("two")
    for _ in range(6):
        yard.submit()
    leases = [yard.claim_one(("one", "two")[number % 2]) for number in range(6)]
    listed = yard.scheduler.leases_after(0)
    assert listed == leases
    assert yard.scheduler.leases_after(0, "two") == leases[1::2]
    assert yard.scheduler.leases_after(listed[2].token) == leases[3:]
    assert yard.scheduler.leases_after(listed[2].token, "one") == leases[4:5]


def test_a_lease_that_has_ended_is_not_listed_and_a_new_one_of_its_task_is_the_last(yard):
    yard.register()
    for _ in range(3):
        yard.submit()
    first, second, third = yard.claim(count=3)
    yard.complete(second)
    yard.release(first)
    again = yard.claim_one()
    assert yard.scheduler.leases_after(0) == [third, again]


def test_the_leases_of_a_host_that_is_not_registered_are_not_found(yard):
    with pytest.raises(NotFound, match="runtime host not found"):
        yard.scheduler.leases_after(0, "stranger")
