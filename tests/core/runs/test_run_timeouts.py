"""Attempts that may run for a limited time only (docs/rules.md, Run timeouts)."""

import pytest

from taskyard_server.core.history import RetryPolicy
from tests.core.yard import TICK

SECS = 10.0
ERROR = "run timeout of 10000 ms exceeded"


@pytest.fixture
def yard(yard):
    """The yard with a host, and leases and deadlines that are far off."""
    yard.reconfigure(default_deadline_secs=1e9, heartbeat_timeout_secs=1e9, lease_secs=3_600.0)
    yard.register()
    return yard


def limited(yard, **fields):
    return yard.submit(run_timeout_secs=SECS, **fields)


def test_an_attempt_that_runs_for_longer_fails(yard):
    task = limited(yard)
    lease = yard.start_one()
    yard.pass_time(SECS - TICK)
    assert task.state == "running"
    yard.pass_time(2 * TICK)
    assert (task.state, task.error, task.history.code) == ("failed", ERROR, "timed_out")
    assert yard.now - lease.started_at <= SECS + TICK


def test_the_time_counts_from_the_start_and_not_from_the_hand_out(yard):
    task = limited(yard)
    lease = yard.claim_one()
    yard.pass_time(SECS)
    yard.start(lease)
    yard.pass_time(SECS - TICK)
    assert task.state == "running"


@pytest.mark.parametrize("begin", ["progress", "renew"])
def test_a_first_sign_of_work_counts_as_the_start(yard, begin):
    task = limited(yard)
    getattr(yard, begin)(yard.claim_one(), tokens=1)
    yard.pass_time(SECS + TICK)
    assert (task.state, task.error) == ("failed", ERROR)


def test_an_attempt_that_was_never_started_has_no_limit(yard):
    task = limited(yard)
    lease = yard.claim_one()
    yard.pass_time(1_000)
    assert task.lease is lease
    yard.complete(lease)
    assert (task.state, yard.scheduler.next_due() is None or yard.scheduler.next_due() > yard.now) == ("done", True)


def test_renewals_do_not_extend_it(yard):
    task = limited(yard)
    lease = yard.start_one(lease_secs=SECS / 2)
    for _ in range(4):
        yard.pass_time(SECS / 4 - TICK / 4)
        yard.renew(lease)
    yard.pass_time(2 * TICK)
    assert task.error == ERROR


def test_each_attempt_has_its_own(yard):
    task = limited(yard, retry=RetryPolicy(3, 5.0, 1.0, 5.0))
    for number in (1, 2):
        yard.start_one()
        yard.pass_time(SECS + TICK)
        assert (task.state, task.error) == ("pending", None)
        attempt = task.history.attempts[-1]
        assert (attempt.number, attempt.error, attempt.code) == (number, ERROR, "timed_out")
        yard.pass_time(5 + TICK)
    yard.start_one()
    yard.pass_time(SECS + TICK)
    assert (task.state, task.error) == ("failed", ERROR)


def test_the_policy_may_call_it_final(yard):
    task = limited(yard, retry=RetryPolicy(3, non_retryable_codes=frozenset({"timed_out"})))
    yard.start_one()
    yard.pass_time(SECS + TICK)
    assert task.state == "failed"


def test_a_resumed_task_has_it_again(yard):
    task = limited(yard)
    yard.start_one()
    yard.pass_time(SECS + TICK)
    yard.resume(task)
    assert (task.history.code, task.error) == (None, None)
    yard.start_one()
    yard.pass_time(SECS + TICK)
    assert task.error == ERROR


@pytest.mark.parametrize("end", ["complete", "fail", "release"])
def test_an_attempt_that_has_ended_times_out_no_more(yard, end):
    task = limited(yard)
    getattr(yard, end)(yard.start_one())
    state = task.state
    yard.pass_time(2 * SECS)
    assert task.state == state


def test_a_deadline_at_the_same_time_goes_first(yard):
    task = limited(yard, deadline=yard.now + SECS)
    yard.start_one()
    yard.pass_time(SECS + TICK)
    assert (task.error, task.history.code) == ("deadline exceeded", None)


def test_it_goes_before_the_end_of_the_lease(yard):
    task = limited(yard)
    yard.start_one(lease_secs=SECS)
    yard.pass_time(SECS + TICK)
    assert task.error == ERROR


def test_a_host_without_a_stream_learns_of_it_by_its_next_report(yard):
    limited(yard)
    lease = yard.start_one()
    yard.pass_time(SECS + TICK)
    assert yard.stops() == []
    assert yard.scheduler.leases_after(0) == []
    assert lease.task.lease is None


def test_a_host_with_a_stream_is_told_to_stop(yard):
    stream = yard.stream("remote", actions=frozenset({"crawl"}))
    limited(yard, action="crawl")
    lease = yard.dispatch_one()
    yard.start(lease)
    while yard.now < lease.started_at + SECS:
        yard.pass_time(1)
        yard.beat(stream, lease)
    yard.pass_time(TICK)
    assert yard.stops() == [(lease, "timed_out", ERROR)]


def test_its_target_waits_until_the_host_has_stopped(yard):
    limited(yard, target="door")
    lease = yard.start_one()
    yard.pass_time(SECS + TICK)
    yard.resolve(lease.task)
    behind = yard.submit(target="door")
    assert yard.claim() == []
    yard.report_stopped(lease)
    assert yard.claim_one().task is behind


def test_nothing_is_left_of_attempts_that_have_ended(yard):
    for fields in ({}, {"run_timeout_secs": SECS}):
        yard.submit(**fields)
        yard.complete(yard.start_one())
        assert yard.scheduler.life.attempts.timeouts._ends == {}
