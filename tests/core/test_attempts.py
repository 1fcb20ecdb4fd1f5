"""Attempts: which failed ones are repeated and when, and what is recorded of them (docs/rules.md, Retries)."""

import pytest

from taskyard_server.core.errors import Conflict
from taskyard_server.core.figures.figures import stats_of
from taskyard_server.core.history import MAX_ATTEMPT_ERROR_CHARS, MAX_RECORDED_ATTEMPTS, RetryPolicy
from taskyard_server.core.task_options import IdempotencyKey


@pytest.fixture
def yard(yard):
    """The yard with a host, and a deadline that is far off."""
    yard.reconfigure(default_deadline_secs=1e9, heartbeat_timeout_secs=1e9, lease_secs=100.0)
    yard.register()
    return yard


def policy(attempts=3, first=10.0, multiplier=2.0, most=1e6, *codes):
    return RetryPolicy(attempts, first, multiplier, most, frozenset(codes))


def fail(yard, lease, error="broken", retryable=True, code=None):
    yard.scheduler.reports.fail(yard.now, lease.host.id, lease.task.id, lease.token, error, retryable, code)


def delay_of(yard, task):
    return task.history.not_before - yard.now


# Whether there is a next attempt


def test_without_a_policy_there_is_one_attempt(yard):
    task = yard.submit()
    fail(yard, yard.start_one())
    assert (task.state, task.error) == ("failed", "broken")


@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_a_task_has_at_most_the_attempts_of_its_policy(yard, attempts):
    task = yard.submit(retry=policy(attempts))
    for _ in range(attempts - 1):
        fail(yard, yard.start_one())
        assert (task.state, task.error, task.lease) == ("pending", None, None)
        assert task.history.attempts[-1].error == "broken"
        yard.pass_time(1_000)
    fail(yard, yard.start_one(), "the last one")
    assert (task.state, task.error) == ("failed", "the last one")
    assert stats_of(yard.scheduler).counters.retried == attempts - 1


def test_a_later_attempt_may_end_well(yard):
    task = yard.submit(retry=policy())
    fail(yard, yard.start_one())
    yard.pass_time(11)
    assert (task.state, task.error) == ("queued", None)
    yard.complete(yard.start_one())
    assert (task.state, task.error) == ("done", None)


@pytest.mark.parametrize(("code", "state"), [("auth", "failed"), ("busy", "pending"), (None, "pending")])
def test_a_non_retryable_code_makes_the_failure_final(yard, code, state):
    task = yard.submit(retry=policy(3, 10.0, 2.0, 60.0, "auth", "gone"))
    fail(yard, yard.start_one(), code=code)
    assert task.state == state


def test_a_failure_that_its_host_calls_final_is_final(yard):
    task = yard.submit(retry=policy())
    fail(yard, yard.start_one(), retryable=False)
    assert task.state == "failed"


def test_a_lost_lease_counts_as_an_attempt_where_there_is_a_policy(yard):
    task = yard.submit(retry=policy(2, 10.0))
    for state, error in (("pending", None), ("failed", "lease expired")):
        yard.start_one()
        yard.pass_time(100.2)
        assert (task.state, task.error) == (state, error)
        assert task.history.attempts[-1].error == "lease expired"
        yard.pass_time(10)


def test_a_policy_may_allow_more_lost_leases_than_max_deliveries_and_fewer(yard):
    yard.reconfigure(max_deliveries=3)
    many, plain, few = yard.submit(retry=policy(5, 0.0)), yard.submit(), yard.submit(retry=policy(1))
    for _ in range(3):
        yard.claim(count=3)
        yard.pass_time(100.2)
        yard.pass_time(0.2)
    assert [task.state for task in (many, plain, few)] == ["queued", "failed", "failed"]


def test_a_task_with_a_target_is_repeated_after_a_lost_lease_only_under_a_policy(yard):
    retried, failed = yard.submit(target="a", retry=policy(2)), yard.submit(target="b")
    for lease in yard.claim(count=2):
        yard.start(lease)
    yard.pass_time(100.2)
    assert (retried.state, failed.state) == ("pending", "failed")


def test_a_hand_out_that_was_given_back_or_taken_back_is_no_attempt(yard):
    task = yard.submit(retry=policy(2))
    for _ in range(5):
        yard.release(yard.start_one())
        yard.start_one()
        yard.deregister()
        yard.register()
    fail(yard, yard.start_one())
    assert task.state == "pending"


# When it begins


@pytest.mark.parametrize(
    ("multiplier", "delays"),
    [(2.0, [10, 20, 40, 50, 50]), (1.0, [10] * 5), (1.5, [10, 15, 22.5, 33.75, 50]), (1e300, [10, 50, 50, 50, 50])],
)
def test_delays_grow_up_to_a_bound_and_each_lies_between_half_and_all_of_it(yard, multiplier, delays):
    task = yard.submit(retry=policy(99, 10.0, multiplier, 50.0))
    for delay in delays:
        fail(yard, yard.start_one())
        assert delay / 2 <= delay_of(yard, task) <= delay
        yard.pass_time(delay + 0.2)


def test_the_delay_is_spread_over_its_whole_range(yard):
    tasks = [yard.submit(retry=policy(2, 10.0)) for _ in range(200)]
    for _ in tasks:
        fail(yard, yard.start_one())
    delays = [delay_of(yard, task) for task in tasks]
    assert 5 <= min(delays) < 5.5
    assert 9.5 < max(delays) <= 10


def test_the_spread_comes_from_the_seeded_source(make_yard):
    def delays():
        yard = make_yard()
        yard.register()
        tasks = [yard.submit(retry=policy(2)) for _ in range(5)]
        for _ in tasks:
            fail(yard, yard.start_one())
        return [task.history.not_before for task in tasks]

    assert delays() == delays()


@pytest.mark.parametrize("first", [0.0, 1e-3, 4e6])
def test_no_number_of_attempts_and_no_multiplier_is_too_much(first):
    for multiplier in (1.0, 3.0, 1e308):
        for failed in (1, 2, 1_000, 2**32):
            assert 0 <= RetryPolicy(2**32, first, multiplier, 4e6).delay_secs(failed, 1.0) <= 4e6


def test_a_task_that_waits_for_its_next_attempt_is_claimed_when_that_is_due_and_not_before(yard):
    task = yard.submit(retry=policy())
    fail(yard, yard.start_one())
    secs = delay_of(yard, task)
    yard.pass_time(secs - 0.01)
    assert yard.claim() == []
    yard.pass_time(0.2)
    assert yard.claim_one().task is task
    assert task.history.not_before is None


def test_one_deadline_covers_all_attempts(yard):
    task = yard.submit(retry=policy(9, 1.0, 1.0), deadline=yard.now + 30)
    fail(yard, yard.start_one())
    yard.pass_time(2)
    lease = yard.start_one()
    assert task.deadline == task.created_at + 30
    yard.pass_time(29)
    assert (task.state, task.error) == ("failed", "deadline exceeded")
    assert lease.task is task


def test_a_retry_past_the_deadline_fails_at_once_with_the_real_error(yard):
    task = yard.submit(retry=policy(3, 100.0), deadline=yard.now + 40)
    fail(yard, yard.start_one(), "no route", code="net")
    assert (task.state, task.error, task.completed_at) == ("failed", "no route", yard.now)
    assert [attempt.code for attempt in task.history.attempts] == ["net"]
    assert stats_of(yard.scheduler).counters.retried == 0


def test_a_deadline_that_passes_before_the_next_attempt_is_claimed_fails_the_task(yard):
    task = yard.submit(retry=policy(3, 1.0), deadline=yard.now + 40)
    fail(yard, yard.start_one())
    yard.pass_time(41)
    assert (task.state, task.error) == ("failed", "deadline exceeded while queued")


# What is recorded


def test_the_history_names_each_attempt_with_its_host_times_error_and_code(yard):
    yard.register("other")
    task = yard.submit(retry=policy(4, 1.0, 1.0))
    began = yard.now
    fail(yard, yard.start_one(), "first", code="c1")
    yard.pass_time(2)
    yard.claim_one("other")
    yard.pass_time(100.2)
    yard.pass_time(2)
    lease = yard.start_one("other")
    started = yard.now
    yard.pass_time(3)
    yard.complete(lease)
    first, second, third = task.history.attempts
    assert first == (1, "host", began, began, "first", "c1")
    assert second[:3] == (2, "other", None)
    assert second[4:] == ("lease expired", None)
    assert third == (3, "other", started, yard.now, None, None)


def test_a_host_that_was_deregistered_while_it_ran_a_task_is_in_its_history(yard):
    task = yard.submit()
    yard.start_one()
    yard.deregister()
    assert [attempt.error for attempt in task.history.attempts] == ["the host was deregistered"]


def test_only_the_newest_attempts_are_kept_and_their_errors_are_cut(yard):
    task = yard.submit(retry=policy(1_000, 0.0))
    for _ in range(MAX_RECORDED_ATTEMPTS + 5):
        fail(yard, yard.start_one(), "x" * 5_000)
        yard.pass_time(0.2)
    attempts = task.history.attempts
    assert [attempt.number for attempt in attempts] == list(range(6, MAX_RECORDED_ATTEMPTS + 6))
    assert {len(attempt.error) for attempt in attempts} == {MAX_ATTEMPT_ERROR_CHARS}
    fail(yard, yard.start_one(), "x" * 5_000, retryable=False)
    assert len(task.error) == 5_000


def test_a_resume_begins_a_run_with_all_its_attempts(yard):
    task = yard.submit(retry=policy(2, 1.0))
    for _ in range(2):
        for state in ("pending", "failed"):
            fail(yard, yard.start_one())
            assert task.state == state
            yard.pass_time(2)
        assert [attempt.number for attempt in task.history.attempts] == [1, 2]
        yard.resume(task)
        assert task.history.attempts == ()


# While it waits


def test_a_task_that_waits_for_its_next_attempt_counts_as_queued_and_can_be_cancelled(yard):
    task = yard.submit(retry=policy())
    fail(yard, yard.start_one())
    assert stats_of(yard.scheduler).queued == 1
    yard.cancel(task)
    assert (task.state, task.history.not_before) == ("cancelled", None)
    yard.pass_time(1_000)
    assert stats_of(yard.scheduler).queued == 0


@pytest.mark.parametrize("act", ["pause", "resume", "resolve"])
def test_a_task_that_waits_for_its_next_attempt_can_be_neither_paused_nor_resumed_nor_resolved(yard, act):
    task = yard.submit(retry=policy())
    fail(yard, yard.start_one())
    with pytest.raises(Conflict, match=r"^task is pending, "):
        getattr(yard, act)(task)


def test_admission_counts_it_and_does_not_stop_it(yard):
    yard.reconfigure(max_queue_size=1)
    task = yard.submit(retry=policy())
    lease = yard.start_one()
    yard.submit()
    fail(yard, lease)
    assert stats_of(yard.scheduler).queued == 2
    yard.pass_time(11)
    assert task.state == "queued"


def test_the_key_and_the_batch_of_a_task_live_on_over_retry_and_resume(yard):
    key = IdempotencyKey("k", b"1")
    task = yard.submit(key=key, retry=policy(2, 1.0))
    for _ in range(2):
        fail(yard, yard.start_one())
        assert yard.submit(key=key, retry=policy(2, 1.0)) is task
        yard.pass_time(2)
    assert task.state == "failed"
    yard.pass_time(290)
    yard.resume(task)
    yard.pass_time(1_000)
    assert yard.submit(key=key, retry=policy(2, 1.0)) is task
    assert len(yard.tasks()) == 1
