"""What becomes of tasks that were parked: in their next runs, and at other hosts."""

import pytest

from taskyard_server.core.figures.explain import explain

from .test_parks import DEADLINE, ends, parked, question, time


@pytest.fixture
def yard(yard):
    """The yard with a host, whose leases and deadlines are far off unless a test says so."""
    yard.reconfigure(default_deadline_secs=DEADLINE, heartbeat_timeout_secs=1e9, lease_secs=1e6)
    yard.register()
    return yard


def test_a_run_that_is_resumed_has_a_new_deadline(yard):
    task = yard.submit()
    lease = yard.start_one()
    yard.pass_time(DEADLINE - 10)
    yard.park(lease, question())
    yard.answer(task, "go")
    yard.fail(yard.start_one())
    yard.resume(task)
    assert task.deadline == yard.now + DEADLINE


def test_a_task_that_ended_while_it_was_parked_keeps_no_target(yard):
    task = parked(yard, question(until=yard.now + 1), target="tab")
    yard.pass_time(2)
    assert task.state == "failed"
    assert not task.keeps_target
    yard.resume(task)
    # A restart goes by this.
    assert not task.keeps_target


def test_a_run_that_failed_elsewhere_goes_to_any_host(yard):
    yard.deregister()
    yard.stream("one")
    task = yard.submit()
    lease = yard.dispatch_one()
    yard.start(lease)
    yard.park(lease, question())
    yard.answer(task, "go")
    third, second = yard.stream("three", credit=0), yard.stream("two")
    yard.fail(yard.dispatch_one())
    yard.give_credit(second)
    yard.give_credit(third)
    yard.resume(task)
    # It was parked at the first host, and was handed to the second one since, which is no better than the third.
    assert yard.dispatched_hosts() == ["three"]


def test_a_repeated_park_is_a_sign_of_life(yard):
    yard.submit()
    lease = yard.start_one()
    yard.park(lease, question())
    yard.pass_time(5)
    yard.park(lease, question())
    assert lease.host.last_heartbeat_at == yard.now


def test_a_target_that_is_released_by_one_that_goes_on_at_once_is_offered_to_no_younger_task(yard):
    task = yard.submit(target="tab", hold=True)
    younger = yard.submit(target="tab")
    lease = yard.start_one()
    yard.resume(task)
    yard.release(lease)
    deadline = younger.deadline
    assert deadline is not None
    yard.park(yard.start_one(), time(yard, 0), keeps_target=False)
    assert task.state == "queued"
    # It would have lost its default deadline with the place of the head.
    assert younger.deadline == deadline


def told(yard, task):
    """What a task is said to wait for."""
    return [
        reason.message.removeprefix("the task is parked, and waits for ")
        for reason in explain(yard.scheduler, yard.now, task).reasons
    ]


IN_TURN = "1 of 1 tasks to end, of which one waits for its end in turn"


@pytest.mark.parametrize("between", [0, 1, 3])
def test_tasks_that_wait_for_one_another_are_told_so(yard, between):
    tasks = [yard.submit() for _ in range(2 + between)]
    leases = [yard.start_one() for _ in tasks]
    for lease, other in zip(leases, [*tasks[1:], tasks[0]], strict=True):
        assert told(yard, tasks[0]) in ([], ["1 of 1 tasks to end"])
        yard.park(lease, ends(other))
    assert [told(yard, task) for task in tasks] == [[IN_TURN]] * len(tasks)
    # Who waits for them, and is waited for by none of them, is in no circle.
    assert told(yard, parked(yard, ends(tasks[0]))) == ["1 of 1 tasks to end"]


def test_a_task_that_waits_for_one_that_comes_after_it_is_told_so(yard):
    task = yard.submit()
    lease = yard.start_one()
    child = yard.submit(after=(task.id,))
    yard.park(lease, ends(child), question())
    assert told(yard, task) == [IN_TURN, "an answer to the question go"]
