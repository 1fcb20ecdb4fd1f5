"""Tasks that are submitted as `pending`: held, or not yet due (docs/rules.md, Held and future tasks)."""

import pytest

from taskyard_server.core.errors import Conflict, QueueFull
from taskyard_server.core.figures.figures import stats_of


@pytest.fixture
def yard(yard):
    yard.reconfigure(default_deadline_secs=60.0)
    yard.register()
    return yard


def test_a_held_task_waits_until_it_is_resumed(yard):
    task = yard.submit(hold=True)
    assert (task.state, task.history.held) == ("pending", True)
    yard.pass_time(10_000)
    yard.register()
    assert yard.claim() == []
    yard.resume(task)
    assert (task.state, task.history.held, task.history.run) == ("queued", False, 1)
    assert yard.claim_one().task is task


def test_a_task_is_due_at_its_time_and_not_before(yard):
    task = yard.submit(not_before=yard.now + 100)
    assert (task.state, task.history.not_before) == ("pending", yard.now + 100)
    yard.pass_time(99.9)
    assert yard.claim() == []
    yard.pass_time(0.3)
    assert (task.state, task.history.not_before) == ("queued", None)
    assert yard.claim_one().task is task


@pytest.mark.parametrize("secs", [0, -1, -1e12])
def test_a_time_that_has_come_is_no_time(yard, secs):
    assert yard.submit(not_before=yard.now + secs).state == "queued"
    held = yard.submit(hold=True, not_before=yard.now + secs)
    assert held.history.not_before is None
    yard.resume(held)
    assert held.state == "queued"


def test_a_held_task_is_not_released_by_its_time(yard):
    task = yard.submit(hold=True, not_before=yard.now + 10)
    yard.pass_time(20)
    assert task.state == "pending"
    yard.resume(task)
    assert task.state == "queued"


def test_a_task_that_is_released_before_its_time_still_waits_for_it(yard):
    task = yard.submit(hold=True, not_before=yard.now + 10)
    yard.resume(task)
    assert (task.state, task.history.held) == ("pending", False)
    with pytest.raises(Conflict, match=r"^task is pending, only a paused, failed or held one can be resumed$"):
        yard.resume(task)
    yard.pass_time(10.2)
    assert task.state == "queued"


def test_a_default_deadline_counts_from_when_the_task_is_due_or_released(yard):
    held, later = yard.submit(hold=True), yard.submit(not_before=yard.now + 1_000)
    assert (held.deadline, later.deadline) == (None, None)
    yard.pass_time(500)
    yard.resume(held)
    assert held.deadline == yard.now + 60
    yard.pass_time(500.2)
    assert (held.state, later.deadline) == ("failed", yard.now + 60)


@pytest.mark.parametrize("fields", [{"hold": True}, {"not_before": 2e9}])
def test_a_deadline_that_the_submitter_set_counts_while_it_waits(yard, fields):
    task = yard.submit(deadline=yard.now + 5, **fields)
    yard.pass_time(5.2)
    assert (task.state, task.error) == ("failed", "deadline exceeded while queued")
    assert (task.history.held, task.history.not_before) == (False, None)
    yard.resume(task)
    assert task.state == "queued"


@pytest.mark.parametrize("fields", [{"hold": True}, {"not_before": 2e9}])
def test_a_pending_task_counts_as_queued(yard, fields):
    yard.reconfigure(max_queue_size=1)
    task = yard.submit(**fields)
    assert (task.position, stats_of(yard.scheduler).queued) == (1, 1)
    with pytest.raises(QueueFull):
        yard.submit()
    yard.cancel(task)
    assert stats_of(yard.scheduler).queued == 0
    yard.submit()


def test_a_released_task_takes_the_place_of_its_submission(yard):
    first, second = yard.submit(hold=True), yard.submit()
    yard.resume(first)
    assert [lease.task for lease in yard.claim(count=2)] == [first, second]


def test_waiting_to_be_due_is_no_waiting_to_be_handed_out(yard):
    yard.submit(not_before=yard.now + 100)
    yard.pass_time(101)
    yard.pass_time(2)
    yard.claim_one()
    assert stats_of(yard.scheduler).avg_dispatch_latency_ms == 2_000
