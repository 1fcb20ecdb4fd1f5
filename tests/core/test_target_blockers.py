"""Tasks that block their target until they are resumed, resolved or cancelled (docs/rules.md, Blockers)."""

import pytest

from taskyard_server.core.errors import Conflict, NotFound
from taskyard_server.core.figures.figures import stats_of
from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.targets import TargetStatus
from tests.core.target_yard import TargetYard


@pytest.fixture
def yard():
    return TargetYard()


def paused(yard):
    lease = yard.start_one()
    yard.pause(lease.task)
    yard.report_stopped(lease)


def failed(yard):
    yard.fail(yard.start_one())


def overdue(yard):
    lease = yard.start_one()
    yard.pass_time(lease.task.deadline - yard.now + 1)
    yard.report_stopped(lease)


def overdue_in_a_second_delivery(yard):
    """The task started, was requeued when its host was deregistered, and met its deadline in the queue."""
    lease = yard.start_one()
    yard.deregister()
    yard.report_stopped(lease)
    yard.pass_time(lease.task.deadline - yard.now + 1)


def lost(yard):
    yard.start_one()
    yard.pass_time(101)


def over_budget(yard):
    lease = yard.start_one()
    yard.scheduler.reports.progress(yard.now, "host", lease.task.id, lease.token, None, 11)
    yard.report_stopped(lease)


BLOCKING = [paused, failed, overdue, overdue_in_a_second_delivery, lost, over_budget]


def blocked(yard, how):
    """A task that blocks its target, and another one behind it."""
    blocker = yard.serial(deadline=yard.now + 500, token_limit=10)
    behind = yard.serial()
    how(yard)
    assert yard.claimed() == []
    assert yard.standing() == (TargetStatus.BLOCKED, blocker)
    return blocker, behind


@pytest.mark.parametrize("how", BLOCKING)
def test_a_paused_task_and_one_that_failed_after_it_had_started_block_until_they_are_resumed(yard, how):
    blocker, behind = blocked(yard, how)
    yard.register()
    yard.resume(blocker, token_limit=1_000)
    assert yard.claimed() == [blocker]
    assert behind.state == "queued"


@pytest.mark.parametrize("how", BLOCKING)
@pytest.mark.parametrize("act", ["resolve", "cancel"])
def test_a_blocked_target_goes_on_when_the_blocker_is_resolved_or_cancelled(yard, how, act):
    blocker, behind = blocked(yard, how)
    getattr(yard, act)(blocker)
    assert yard.claimed() == [behind]


@pytest.mark.parametrize("how", BLOCKING)
def test_a_blocked_target_names_the_task_that_it_waits_for(yard, how):
    blocker, _ = blocked(yard, how)
    (target,) = yard.scheduler.targets.after("")
    assert target.waits_for == f"{blocker.id} to be resumed, resolved or cancelled"
    assert target.held_back == 1
    assert target.since <= yard.now


def expired_in_the_queue(yard):
    yard.pass_time(501)


def failed_without_a_start(yard):
    yard.fail(yard.claim_one())


def lease_lost_before_the_start(yard):
    yard.claim_one()
    yard.pass_time(101)


def cancelled_while_it_ran(yard):
    lease = yard.start_one()
    yard.cancel(lease.task)
    yard.report_stopped(lease)


NOT_BLOCKING = [expired_in_the_queue, failed_without_a_start, lease_lost_before_the_start, cancelled_while_it_ran]


@pytest.mark.parametrize("how", NOT_BLOCKING)
def test_one_that_failed_without_a_start_and_a_cancelled_one_block_nothing(yard, how):
    task = yard.serial(deadline=yard.now + 500)
    behind = yard.serial()
    how(yard)
    assert task.state in ("failed", "cancelled")
    assert yard.claimed() == [behind]


def test_a_failure_without_a_start_blocks_where_an_earlier_attempt_had_started(yard):
    task, behind = yard.serial(), yard.serial()
    yard.release(yard.start_one())
    yard.fail(yard.claim_one())
    assert (task.state, yard.standing()) == ("failed", (TargetStatus.BLOCKED, task))
    assert yard.claimed() == []
    yard.resolve(task)
    assert yard.claimed() == [behind]


def test_a_failure_without_a_start_by_a_stream_frees_the_target_at_once(yard):
    task, behind = yard.serial(), yard.serial()
    yard.stream("streamer")
    yard.fail(yard.dispatch_one())
    assert (task.state, task.started_at) == ("failed", None)
    assert yard.claimed() == [behind]


def test_a_failure_over_the_budget_without_a_start_blocks_nothing(yard):
    task, behind = yard.serial(token_limit=5), yard.serial()
    yard.fail(yard.claim_one(), tokens=6)
    assert (task.state, task.error) == ("failed", "token limit exceeded")
    assert yard.claimed() == [behind]


def test_a_completion_over_the_budget_without_a_start_blocks_since_it_counts_as_one(yard):
    task = yard.serial(token_limit=5)
    yard.serial()
    yard.complete(yard.claim_one(), tokens=6)
    assert (task.state, task.error) == ("failed", "token limit exceeded")
    assert yard.claimed() == []


def test_the_last_attempt_without_a_start_blocks_nothing_if_no_attempt_had_started(yard):
    task, behind = yard.serial(retry=RetryPolicy(2, 0.0)), yard.serial()
    yard.fail(yard.claim_one())
    yard.pass_time(0.2)
    yard.fail(yard.claim_one())
    assert (task.state, task.started_at) == ("failed", None)
    assert yard.claimed() == [behind]


def test_the_stale_worker_rule_a_started_task_of_a_target_fails_by_its_lease_and_can_be_resumed(yard):
    task = yard.serial()
    lost(yard)
    assert (task.state, task.error) == ("failed", "lease expired")
    yard.resume(task)
    assert yard.claimed() == [task]


def test_a_plain_task_and_one_of_another_target_are_not_blocked(yard):
    blocked(yard, failed)
    others = [yard.submit(), yard.submit(target="u")]
    assert yard.claimed() == others


def test_a_failed_task_that_blocks_nothing_can_be_resumed_and_resolved_but_not_cancelled(yard):
    first, second = (yard.serial(deadline=yard.now + 5) for _ in range(2))
    yard.pass_time(6)
    with pytest.raises(Conflict, match=r"^task is already failed$"):
        yard.cancel(first)
    yard.resolve(second)
    yard.resume(first)
    assert yard.claimed() == [first]


def test_a_task_is_resumed_by_its_target_only_if_it_is_of_that_target(yard):
    blocker, _ = blocked(yard, failed)
    for other in ("u", ""):
        with pytest.raises(NotFound, match=r"^task not found$"):
            yard.resume(blocker, other)
    yard.resume(blocker, "t")
    assert blocker.state == "queued"


def test_eviction_never_takes_a_task_that_blocks_its_target(yard):
    blocker, _ = blocked(yard, failed)
    yard.reconfigure(max_retained_tasks=1, result_ttl_secs=5.0)
    for _ in range(10):
        yard.cancel(yard.submit())
    yard.pass_time(1_000)
    assert yard.scheduler.get(blocker.id) is blocker
    yard.resolve(blocker)
    yard.pass_time(6)
    with pytest.raises(NotFound):
        yard.scheduler.get(blocker.id)


def test_a_task_that_ends_twice_within_one_moment_is_retained_once(yard):
    task = yard.submit()
    for _ in range(3):
        yard.fail(yard.start_one())
        yard.resume(task)
    yard.fail(yard.start_one())
    yard.resolve(task)
    assert stats_of(yard.scheduler).counters.failed - stats_of(yard.scheduler).counters.reopened == 0
    yard.pass_time(301)
    assert yard.tasks() == []
    assert stats_of(yard.scheduler).counters.evicted == 0


def test_a_resumed_task_is_not_evicted_by_its_earlier_end(yard):
    yard.reconfigure(result_ttl_secs=300.0)
    task = yard.submit()
    yard.fail(yard.start_one())
    yard.pass_time(299)
    yard.resume(task)
    yard.pass_time(50)
    assert yard.scheduler.get(task.id) is task
