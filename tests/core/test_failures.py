"""What a failed attempt tells: its code, its traceback, and when to try again (docs/rules.md, Retries)."""

import pytest

from taskyard_server.core.errors import Unavailable
from taskyard_server.core.history import RetryPolicy
from tests.core.yard import TICK

TOLD = {"code": "busy", "traceback": "in crawl"}


@pytest.fixture
def yard(yard):
    """The yard with a host, and deadlines that are far off."""
    yard.reconfigure(default_deadline_secs=1e9, heartbeat_timeout_secs=1e9, lease_secs=100.0, max_deliveries=3)
    yard.register()
    return yard


def told(task):
    return task.history.code, task.history.traceback


# Code and traceback


def test_they_are_those_of_the_failure(yard):
    task = yard.submit()
    yard.fail(yard.start_one(), **TOLD)
    assert told(task) == ("busy", "in crawl")


def test_they_stand_while_the_task_waits_runs_again_and_has_ended(yard):
    task = yard.submit(retry=RetryPolicy(3, 1.0))
    yard.fail(yard.start_one(), **TOLD)
    assert (task.state, told(task)) == ("pending", ("busy", "in crawl"))
    yard.pass_time(2)
    lease = yard.start_one()
    assert told(task) == ("busy", "in crawl")
    yard.complete(lease)
    assert told(task) == ("busy", "in crawl")


def test_a_later_failure_replaces_them(yard):
    task = yard.submit(retry=RetryPolicy(3, 1.0))
    yard.fail(yard.start_one(), **TOLD)
    yard.pass_time(2)
    yard.fail(yard.start_one(), code="gone")
    assert told(task) == ("gone", None)


def test_a_lost_lease_has_neither(yard):
    task = yard.submit()
    yard.fail(yard.start_one(), retry_after_secs=0.0, **TOLD)
    yard.pass_time(TICK)
    yard.start_one()
    yard.pass_time(100 + TICK)
    assert (task.state, told(task)) == ("queued", (None, None))


def test_a_deadline_has_neither(yard):
    task = yard.submit(deadline=yard.now + 10)
    yard.fail(yard.start_one(), retry_after_secs=0.0, **TOLD)
    yard.pass_time(TICK)
    yard.start_one()
    yard.pass_time(10)
    assert (task.error, told(task)) == ("deadline exceeded", (None, None))


def test_a_new_run_begins_without(yard):
    task = yard.submit()
    yard.fail(yard.start_one(), **TOLD)
    yard.resume(task)
    assert told(task) == (None, None)


def test_a_cancel_and_a_pause_leave_them(yard):
    task = yard.submit()
    yard.fail(yard.start_one(), retry_after_secs=0.0, **TOLD)
    yard.pass_time(TICK)
    yard.start_one()
    yard.pause(task)
    assert told(task) == ("busy", "in crawl")
    yard.cancel(task)
    assert told(task) == ("busy", "in crawl")


def test_a_task_that_ends_well_has_no_history_for_it(yard):
    task = yard.submit()
    before = task.history
    yard.complete(yard.start_one())
    assert task.history is before


def test_an_output_is_kept_with_the_task(yard):
    task = yard.submit()
    yard.complete(yard.start_one(), b"1", output=b"payload")
    assert (task.result, task.history.output) == (b"1", b"payload")


def test_a_task_that_is_over_its_budget_has_no_output(yard):
    task = yard.submit(token_limit=1)
    yard.complete(yard.start_one(), tokens=2, output=b"payload")
    assert (task.state, task.history.output) == ("failed", None)


# When to try again


def test_the_next_attempt_comes_after_exactly_the_time_that_the_host_asks_for(yard):
    task = yard.submit(retry=RetryPolicy(3, 1.0, 2.0, 5.0))
    yard.fail(yard.start_one(), retry_after_secs=700.0)
    assert task.history.not_before == yard.now + 700
    yard.pass_time(700 + TICK)
    assert task.state == "queued"


def test_it_counts_among_the_attempts_of_the_policy(yard):
    task = yard.submit(retry=RetryPolicy(2, 1.0))
    yard.fail(yard.start_one(), retry_after_secs=0.0)
    yard.pass_time(TICK)
    yard.fail(yard.start_one(), retry_after_secs=0.0)
    assert task.state == "failed"


def test_without_a_policy_a_task_has_the_attempts_of_lost_leases(yard):
    task = yard.submit()
    for _ in range(2):
        yard.fail(yard.start_one(), retry_after_secs=5.0)
        assert task.state == "pending"
        yard.pass_time(5 + TICK)
    yard.fail(yard.start_one(), "the last", retry_after_secs=5.0)
    assert (task.state, task.error) == ("failed", "the last")
    assert [attempt.number for attempt in task.history.attempts] == [1, 2, 3]


def test_lost_leases_count_among_these(yard):
    task = yard.submit()
    for _ in range(2):
        yard.start_one()
        yard.pass_time(100 + TICK)
    yard.fail(yard.start_one(), retry_after_secs=5.0)
    assert task.state == "failed"


@pytest.mark.parametrize("final", [{"retryable": False}, {"code": "auth"}])
def test_a_final_failure_is_final(yard, final):
    task = yard.submit(retry=RetryPolicy(3, non_retryable_codes=frozenset({"auth"})))
    yard.fail(yard.start_one(), retry_after_secs=0.0, **final)
    assert task.state == "failed"


def test_where_the_deadline_comes_first_the_task_fails_at_once(yard):
    task = yard.submit(deadline=yard.now + 10)
    yard.fail(yard.start_one(), retry_after_secs=10.0)
    assert (task.state, task.error) == ("failed", "broken")


def test_it_keeps_its_place_in_its_target(yard):
    task = yard.submit(target="door")
    yard.fail(yard.start_one(), retry_after_secs=5.0)
    yard.submit(target="door")
    assert yard.claim() == []
    yard.pass_time(5 + TICK)
    assert yard.claim_one().task is task


# While a replica of an earlier version may come to serve the namespace


@pytest.mark.parametrize(
    ("fields", "allows_added_fields"),
    [
        ({"run_timeout_secs": 1.0}, False),
        ({"parent_id": "tsk_1"}, False),
        ({"input": b"payload"}, False),
        ({"concurrency_keys": ("site:shop",)}, False),
        ({"concurrency_keys": ("site:shop",)}, True),
    ],
)
def test_fields_that_it_could_not_read_are_refused(yard, watch, fields, allows_added_fields):
    yard.scheduler.life.readers.allows_added_fields = allows_added_fields
    yard.scheduler.life.readers.allows_extras = False
    changes = watch(yard.scheduler)
    with pytest.raises(Unavailable, match="not before all replicas of this store are of this version"):
        yard.submit(**fields)
    assert changes() == []
    yard.submit()


def test_what_it_could_not_read_of_a_failure_is_not_kept(yard):
    yard.scheduler.life.readers.allows_added_fields = False
    task = yard.submit(retry=RetryPolicy(3, 1.0))
    yard.fail(yard.start_one(), **TOLD)
    assert told(task) == (None, None)
    assert task.history.attempts[-1].code == "busy"


def test_an_output_that_it_could_not_read_is_refused_and_the_task_goes_on(yard):
    yard.scheduler.life.readers.allows_added_fields = False
    task = yard.submit()
    lease = yard.start_one()
    with pytest.raises(Unavailable, match="output: "):
        yard.complete(lease, output=b"payload")
    assert task.state == "running"
    yard.complete(lease, b"1")
    assert task.state == "done"
