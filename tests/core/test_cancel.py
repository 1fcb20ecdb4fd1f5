"""Cancel: a task that has not ended ends at once, and its host loses the lease (docs/rules.md, Cancel)."""

import pytest

from taskyard_server.core.errors import Conflict, LeaseLost, NotFound, QueueFull


def test_a_queued_task_is_cancelled_at_once_and_never_handed_out(yard):
    yard.register()
    task = yard.submit()
    assert yard.cancel(task) is task
    assert (task.state, task.error, task.result) == ("cancelled", None, None)
    assert (task.completed_at, task.started_at, task.latency_ms) == (yard.now, None, None)
    assert yard.claim() == []


@pytest.mark.parametrize("started", [False, True])
def test_a_task_in_flight_is_cancelled_at_once_and_its_lease_ends(yard, started):
    host = yard.register()
    yard.submit()
    lease = yard.claim_one()
    if started:
        yard.start(lease)
    task = yard.cancel(lease.task)
    assert (task.state, task.completed_at, task.lease) == ("cancelled", yard.now, None)
    assert host.leases == {}
    with pytest.raises(LeaseLost, match="task is cancelled"):
        yard.complete(lease)


def test_a_cancelled_task_in_flight_frees_its_place_under_the_limits(make_yard):
    yard = make_yard(max_inflight=1)
    yard.register()
    first = yard.submit()
    second = yard.submit()
    yard.claim_one()
    yard.cancel(first)
    assert yard.claim_one().task is second


def test_a_cancelled_task_leaves_the_others_of_its_agent_in_their_order(yard):
    yard.register()
    tasks = [yard.submit(priority=priority) for priority in (0, 1, 0, 2, 0)]
    yard.cancel(tasks[2])
    yard.cancel(tasks[1])
    assert [lease.task for lease in yard.claim(count=5)] == [tasks[0], tasks[4], tasks[3]]


def test_a_requeued_task_can_be_cancelled(yard):
    yard.register()
    task = yard.submit()
    yard.release(yard.claim_one())
    assert yard.cancel(task).state == "cancelled"
    assert yard.claim() == []


def finish(yard):
    return yard.complete(yard.claim_one())


def fail(yard):
    return yard.fail(yard.claim_one())


def cancel(yard):
    return yard.cancel(yard.tasks()[0])


@pytest.mark.parametrize(("end", "state"), [(finish, "done"), (fail, "failed"), (cancel, "cancelled")])
def test_a_task_that_has_ended_cannot_be_cancelled(yard, watch, end, state):
    yard.register()
    yard.submit()
    task = end(yard)
    changes = watch(yard.scheduler)
    with pytest.raises(Conflict, match=f"task is already {state}"):
        yard.cancel(task)
    assert changes() == []


def test_a_rejected_task_cannot_be_cancelled(make_yard):
    yard = make_yard(max_queue_size=1)
    yard.submit()
    with pytest.raises(QueueFull) as full:
        yard.submit()
    with pytest.raises(Conflict, match="task is already rejected"):
        yard.cancel(full.value.task)


def test_a_task_that_is_not_known_cannot_be_cancelled(yard):
    with pytest.raises(NotFound, match="task not found"):
        yard.scheduler.cancel(yard.now, "tsk_00000000000000000000000000000000")


def test_cancelling_a_batch_that_is_not_known_is_not_found(yard):
    with pytest.raises(NotFound, match="batch not found"):
        yard.scheduler.cancel_batch(yard.now, "bat_00000000000000000000000000000000")
