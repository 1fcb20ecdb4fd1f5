"""Deadlines: a task that has not ended by its deadline fails (docs/rules.md, Deadlines)."""

import pytest

from taskyard_server.core.errors import LeaseLost
from taskyard_server.core.figures.figures import stats_of
from tests.core.yard import TICK


def test_a_task_that_is_still_queued_at_its_deadline_fails(yard):
    task = yard.submit(deadline=yard.now + 10)
    yard.pass_time(10 + TICK)
    assert (task.state, task.error) == ("failed", "deadline exceeded while queued")
    assert (task.completed_at, task.started_at, task.latency_ms) == (yard.now, None, None)


@pytest.mark.parametrize("started", [False, True])
def test_a_task_that_is_in_flight_at_its_deadline_fails_and_loses_its_lease(yard, started):
    host = yard.register()
    task = yard.submit(deadline=yard.now + 10)
    lease = yard.claim_one(lease_secs=3600)
    if started:
        yard.start(lease)
    yard.pass_time(10 + TICK)
    assert (task.state, task.error, task.lease) == ("failed", "deadline exceeded", None)
    assert host.leases == {}
    with pytest.raises(LeaseLost):
        yard.complete(lease)


@pytest.mark.parametrize("in_flight", [False, True])
def test_a_deadline_is_never_early_and_at_most_an_eighth_of_a_second_late(yard, in_flight):
    yard.register()
    deadline = yard.now + 10.3
    task = yard.submit(deadline=deadline)
    if in_flight:
        yard.claim_one()
    yard.pass_time(10.2999)
    assert task.state in ("queued", "assigned")
    yard.pass_time(deadline + TICK - yard.now)
    assert task.state == "failed"


def test_without_a_deadline_of_its_own_a_task_has_a_minute(yard):
    task = yard.submit()
    yard.pass_time(60)
    assert task.state == "queued"
    yard.pass_time(TICK)
    assert task.error == "deadline exceeded while queued"


def test_a_task_past_its_deadline_is_not_handed_out_before_its_timer_has_acted(yard):
    """Between two ticks, and after a stall, a claim may come before the timer."""
    yard.register()
    late = yard.submit(deadline=yard.now + 10, priority=-1)
    good = yard.submit(deadline=yard.now + 20)
    yard.now += 10
    assert [lease.task for lease in yard.claim(count=5)] == [good]
    assert (late.state, late.error) == ("failed", "deadline exceeded while queued")


def test_a_claim_passes_over_any_number_of_tasks_past_their_deadlines(yard):
    yard.register()
    for number in range(500):
        yard.submit(f"agent-{number % 7}", deadline=yard.now + 1)
    good = yard.submit("ann", deadline=yard.now + 20)
    yard.now += 5
    assert yard.claim_one().task is good
    assert stats_of(yard.scheduler).counters.expired == 500


def test_an_agent_whose_task_expires_in_a_claim_counts_as_not_served(yard):
    yard.register()
    yard.submit("ann", deadline=yard.now + 1)
    yard.submit("bob")
    yard.submit("ann", deadline=yard.now + 20)
    yard.now += 5
    assert [lease.task.agent_id for lease in yard.claim(count=2)] == ["ann", "bob"]


def test_a_deadline_wins_over_a_lease_that_ends_with_it(yard):
    yard.register()
    task = yard.submit(deadline=yard.now + 10)
    yard.claim_one(lease_secs=10)
    yard.transitions()
    yard.pass_time(10 + TICK)
    assert yard.transitions() == [(task.id, "failed")]
    assert task.error == "deadline exceeded"


def test_a_deadline_wins_over_a_lease_that_ends_with_it_also_after_a_stall(yard):
    yard.register()
    task = yard.submit(deadline=yard.now + 10)
    yard.claim_one(lease_secs=10)
    yard.pass_time(1_000)
    assert task.error == "deadline exceeded"


def test_a_lease_that_ends_before_the_deadline_ends_first_also_after_a_stall(yard):
    yard.register()
    task = yard.submit(deadline=yard.now + 10)
    yard.claim_one(lease_secs=5)
    yard.transitions()
    yard.pass_time(1_000)
    assert yard.transitions() == [(task.id, "queued"), (task.id, "failed")]
    assert task.error == "deadline exceeded while queued"


def test_one_deadline_covers_all_hand_outs(yard):
    yard.register()
    task = yard.submit(deadline=yard.now + 10)
    for _ in range(3):
        lease = yard.claim_one()
        yard.pass_time(3)
        yard.release(lease)
    yard.claim_one()
    assert task.deadline == yard.now + 1
    yard.pass_time(1 + TICK)
    assert task.error == "deadline exceeded"


def test_a_renewed_lease_does_not_move_the_deadline(yard):
    yard.register()
    task = yard.submit(deadline=yard.now + 10)
    yard.renew(yard.claim_one(), 3600)
    yard.pass_time(10 + TICK)
    assert task.error == "deadline exceeded"


def test_what_has_ended_is_past_all_deadlines(yard):
    yard.register()
    done, failed, cancelled = [yard.submit(deadline=yard.now + 10) for _ in range(3)]
    yard.complete(yard.claim_one())
    yard.fail(yard.claim_one(), "broken")
    yard.cancel(cancelled)
    yard.pass_time(60)
    assert (done.state, done.error) == ("done", None)
    assert (failed.state, failed.error) == ("failed", "broken")
    assert (cancelled.state, cancelled.error) == ("cancelled", None)


def test_a_report_between_the_deadline_and_its_timer_still_counts(yard):
    """After a stall what has arrived is read before anything expires."""
    yard.register()
    yard.submit(deadline=yard.now + 10)
    lease = yard.claim_one()
    yard.now += 10.1
    assert yard.complete(lease).state == "done"


def test_a_new_default_deadline_holds_for_new_tasks_only(yard):
    early = yard.submit()
    yard.reconfigure(default_deadline_secs=5)
    late = yard.submit()
    assert (early.deadline, late.deadline) == (yard.now + 60, yard.now + 5)
