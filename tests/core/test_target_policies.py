"""What a failure does to its target, and how many targets may be blocked (docs/rules.md, Blockers)."""

import pytest

from taskyard_server.core.errors import QueueFull
from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.limits import Limits
from taskyard_server.core.patterns import PatternTable
from taskyard_server.core.targets import TargetStatus
from taskyard_server.core.task_options import OnTargetFailure
from tests.cases import every_case
from tests.core.target_yard import TargetYard

BLOCK, CONTINUE = OnTargetFailure.BLOCK, OnTargetFailure.CONTINUE


@pytest.fixture
def yard():
    return TargetYard()


def configured(**policies):
    """Policies by pattern; `_` stands for the `*`."""
    return PatternTable({pattern.replace("_", "*"): policy for pattern, policy in policies.items()})


def fail_one(yard, **fields):
    """A task of the target "t" fails after its start, and another one waits behind it."""
    task, behind = yard.serial(**fields), yard.serial()
    yard.fail(yard.start_one())
    return task, behind


def test_with_continue_the_next_task_of_the_target_runs_after_a_failure(yard):
    task, behind = fail_one(yard, on_target_failure=CONTINUE)
    assert task.retained
    assert yard.claimed() == [behind]


def test_a_failure_that_does_not_block_is_no_reason_to_cancel(yard):
    task, _ = fail_one(yard, on_target_failure=CONTINUE)
    assert not yard.scheduler.targets.blocks(task)


@every_case(
    ("policies", "own", "goes_on"),
    [
        ({}, None, False),
        ({"t": CONTINUE}, None, True),
        ({"_": CONTINUE}, None, True),
        ({"_": CONTINUE, "t_": BLOCK}, None, False),
        ({"_": BLOCK, "t": CONTINUE}, None, True),
        ({"other": CONTINUE}, None, False),
        ({"t": CONTINUE}, BLOCK, False),
        ({"t": BLOCK}, CONTINUE, True),
    ],
)
def test_the_policy_of_the_task_decides_then_that_of_the_longest_pattern_then_it_blocks(policies, own, goes_on):
    yard = TargetYard(on_target_failure=configured(**policies))
    _, behind = fail_one(yard, on_target_failure=own)
    assert yard.claimed() == ([behind] if goes_on else [])


def test_new_settings_hold_for_failures_that_follow(yard):
    blocker, _ = fail_one(yard)
    yard.scheduler.reconfigure(Limits(on_target_failure=configured(t=CONTINUE)))
    assert yard.standing() == (TargetStatus.BLOCKED, blocker)
    yard.cancel(blocker)
    yard.fail(yard.start_one())
    assert yard.standing() is None


def test_a_retry_keeps_the_place_and_the_last_attempt_decides(yard):
    task, behind = yard.serial(on_target_failure=CONTINUE, retry=RetryPolicy(2, 1.0)), yard.serial()
    yard.fail(yard.start_one())
    assert yard.claimed() == []
    yard.pass_time(2)
    lease = yard.start_one()
    assert lease.task is task
    yard.fail(lease)
    assert yard.claimed() == [behind]


def test_with_continue_the_target_waits_for_a_host_that_may_still_work(yard):
    yard.serial(on_target_failure=CONTINUE, deadline=yard.now + 20)
    behind = yard.serial()
    lease = yard.start_one()
    yard.pass_time(21)
    assert (lease.task.state, yard.claimed()) == ("failed", [])
    yard.report_stopped(lease)
    assert yard.claimed() == [behind]


def test_a_paused_task_blocks_whatever_its_policy(yard):
    yard.serial(on_target_failure=CONTINUE)
    lease = yard.start_one()
    yard.pause(lease.task)
    yard.report_stopped(lease)
    yard.serial()
    assert yard.claimed() == []


# How many may be blocked


def block(yard, *targets):
    """The tasks that block these targets."""
    blockers = []
    for target in targets:
        blockers.append(yard.submit(target=target))
        yard.fail(yard.start_one())
    return blockers


def test_beyond_the_bound_a_new_target_is_refused_and_the_refusal_says_why():
    yard = TargetYard(max_blocked_targets=2)
    block(yard, "a", "b")
    with pytest.raises(QueueFull) as refused:
        yard.submit(target="c")
    assert str(refused.value) == (
        "rejected: too many targets are blocked, and new ones are taken once tasks that block some are resumed, "
        "resolved or cancelled"
    )
    assert refused.value.details == {"agentId": "ann", "blockedTargets": 2, "maxBlockedTargets": 2}
    assert (refused.value.task.state, refused.value.task.error) == ("rejected", str(refused.value))


def test_an_agent_is_not_told_how_many_targets_of_others_are_blocked():
    yard = TargetYard(max_blocked_targets=1)
    block(yard, "a")
    with pytest.raises(QueueFull) as refused:
        yard.submit(target="c")
    assert refused.value.of_agent().details == {"agentId": "ann", "maxBlockedTargets": 1}


def test_targets_that_are_there_and_tasks_without_one_go_on():
    yard = TargetYard(max_blocked_targets=1)
    waits = yard.submit(target="waits", hold=True)
    block(yard, "a")
    assert yard.submit(target="a").state == "queued"
    assert yard.submit(target=waits.options.target).state == "queued"
    assert yard.submit().state == "queued"


@pytest.mark.parametrize("unblock", ["cancel", "resume", "resolve"])
def test_a_target_that_is_unblocked_makes_room(unblock):
    yard = TargetYard(max_blocked_targets=1)
    (blocker,) = block(yard, "a")
    getattr(yard, unblock)(blocker)
    assert yard.submit(target="c").state == "queued"


def test_a_target_with_two_blockers_counts_once():
    yard = TargetYard(max_blocked_targets=2)
    (first,) = block(yard, "a")
    yard.submit(target="a")
    yard.resume(first)
    lease = yard.start_one()
    yard.pause(lease.task)
    yard.report_stopped(lease)
    assert yard.scheduler.targets.blocked == 1
    yard.submit(target="c")


def test_the_bound_changes_while_it_runs():
    yard = TargetYard()
    block(yard, "a")
    yard.scheduler.reconfigure(Limits(max_blocked_targets=1))
    with pytest.raises(QueueFull, match="too many targets are blocked"):
        yard.submit(target="c")
    yard.scheduler.reconfigure(Limits(max_blocked_targets=2))
    yard.submit(target="c")


def test_a_full_queue_is_said_first():
    yard = TargetYard(max_blocked_targets=1, max_queue_size=1)
    block(yard, "a")
    yard.submit()
    with pytest.raises(QueueFull, match="global queue full"):
        yard.submit(target="c")
