"""The drain of a scheduler, and its shutdown (docs/rules.md, Drain and shutdown)."""

import pytest

from taskyard_server.core.errors import Conflict, Unavailable
from taskyard_server.core.figures.figures import stats_of
from taskyard_server.core.process_end import end_all
from taskyard_server.core.task import Submission
from tests.core.task_cases import STATES, TRY_AGAIN, Case


def test_a_draining_scheduler_accepts_nothing_and_hands_out_nothing(yard):
    yard.register()
    yard.submit()
    yard.scheduler.drain()
    with pytest.raises(Unavailable) as refusal:
        yard.submit()
    assert refusal.value.retryable
    with pytest.raises(Unavailable):
        yard.scheduler.submit_batch(yard.now, [Submission("ann", "click")])
    assert yard.claim() == []
    assert stats_of(yard.scheduler).limited_by is None


def test_what_is_in_flight_may_finish_while_it_drains(yard):
    yard.register()
    yard.submit()
    lease = yard.claim_one()
    yard.scheduler.drain()
    yard.start(lease)
    yard.renew(lease, 100)
    assert yard.complete(lease).state == "done"


def test_shut_down_cancels_what_waits_and_pauses_what_runs(yard):
    yard.register()
    running, assigned, waiting = [yard.submit() for _ in range(3)]
    lease, _ = yard.claim(count=2)
    yard.start(lease)
    yard.scheduler.drain()
    end_all(yard.scheduler, yard.now)
    assert (waiting.state, waiting.error) == ("cancelled", "scheduler shutdown")
    for task in (running, assigned):
        assert (task.state, task.error, task.lease) == ("paused", "Job was interrupted by user", None)
    assert lease.host.leases == {}
    assert (stats_of(yard.scheduler).queued, yard.scheduler.view.inflight) == (0, 0)
    with pytest.raises(Conflict):
        yard.cancel(waiting)
    assert yard.cancel(running).state == "cancelled"


def test_a_second_shut_down_changes_nothing(yard, watch):
    yard.register()
    for _ in range(2):
        yard.submit()
    yard.claim_one()
    end_all(yard.scheduler, yard.now)
    changes = watch(yard.scheduler)
    end_all(yard.scheduler, yard.now + 1)
    assert changes() == []


def test_a_paused_task_outlives_its_deadline_and_can_be_cancelled(yard):
    yard.register()
    task = yard.submit(deadline=yard.now + 10)
    yard.claim_one()
    end_all(yard.scheduler, yard.now)
    yard.pass_time(1_000)
    assert task.state == "paused"
    assert (yard.cancel(task).state, task.error) == ("cancelled", None)


def test_a_shutdown_pauses_what_is_in_flight_and_cancels_what_waits(yard):
    live = {state: STATES[state](yard) for state in ("running", "paused", "queued", "pending, held")}
    live["pending, next attempt"] = Case(yard, retry=TRY_AGAIN)
    end_all(yard.scheduler, yard.now)
    assert {state: case.task.state for state, case in live.items()} == {
        "running": "paused",
        "paused": "paused",
        "queued": "cancelled",
        "pending, held": "cancelled",
        "pending, next attempt": "cancelled",
    }
    assert live["running"].task.error == "Job was interrupted by user"
