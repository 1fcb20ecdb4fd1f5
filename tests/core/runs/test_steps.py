"""Steps in the core: recorded once under a lease, known to the next one, bounded (docs/rules.md, Steps)."""

import pytest

from taskyard_server.core.errors import LeaseLost, NotFound, TooLarge, Unavailable
from taskyard_server.core.history import Step
from taskyard_server.core.runs.steps import MAX_STEPS, MAX_STEPS_BYTES, NewStep
from taskyard_server.core.task import RUNNING


@pytest.fixture
def lease(yard):
    """The lease of a task at `host`; there is another host, too."""
    yard.register("host")
    yard.register("other")
    yard.submit()
    return yard.claim_one()


def record(yard, lease, name, size=1, host="host", **only):
    """Record a step of this many bytes with its name: its number, and whether it was there."""
    step = NewStep(lease.task.id, lease.token, name, bytes(size - len(name)))
    return yard.scheduler.reports.record_step(yard.now, host, step, **only)


def kept(yard):
    """The steps that were taken."""
    return [taken.step for taken in yard.scheduler.steps.take()]


def test_steps_are_counted_over_all_leases_of_a_task(yard, lease):
    assert record(yard, lease, "a") == (1, False)
    assert record(yard, lease, "b") == (2, False)
    yard.release(lease)
    again = yard.claim_one()
    assert again.task is lease.task
    assert record(yard, again, "c") == (3, False)
    assert again.task.history.steps == 3


def test_a_name_is_taken_once(yard, lease):
    record(yard, lease, "a")
    record(yard, lease, "b")
    assert record(yard, lease, "a", MAX_STEPS_BYTES) == (1, True)
    assert lease.task.history.steps == 2


def test_a_step_counts_as_the_start_and_is_told(yard, lease):
    yard.scheduler.take_events()
    record(yard, lease, "a")
    assert lease.task.state is RUNNING
    assert [event.kind for event in yard.scheduler.take_events()] == ["changed", "progressed"]
    record(yard, lease, "a")
    assert yard.scheduler.take_events() == []


def test_a_step_under_a_lease_that_has_ended_is_refused_and_changes_nothing(yard, lease):
    yard.release(lease)
    with pytest.raises(LeaseLost):
        record(yard, lease, "a")
    yard.claim_one()
    with pytest.raises(LeaseLost):
        record(yard, lease, "a")
    assert lease.task.history.steps == 0


def test_a_host_is_told_of_its_own_tasks_alone(yard, lease):
    with pytest.raises(LeaseLost):
        record(yard, lease, "a", host="other")
    with pytest.raises(NotFound, match="task not found"):
        record(yard, lease, "a", host="other", own_only=True)
    assert record(yard, lease, "a", own_only=True) == (1, False)


def test_a_task_has_so_many_steps(yard, lease):
    for number in range(MAX_STEPS):
        record(yard, lease, f"{number}", 9)
    with pytest.raises(TooLarge, match="name: a task has at most 1000 steps"):
        record(yard, lease, "one more", 9)
    assert record(yard, lease, "7") == (8, True)
    assert lease.task.history.steps == MAX_STEPS


def test_the_steps_of_a_task_have_so_many_bytes_together(yard, lease):
    record(yard, lease, "a", MAX_STEPS_BYTES - 10)
    with pytest.raises(TooLarge, match="result: the steps of a task may have 1048576 bytes in all"):
        record(yard, lease, "b", 11)
    assert record(yard, lease, "c", 9) == (2, False)
    assert record(yard, lease, "d", 1) == (3, False)


def test_what_was_let_go_is_known_again_once_it_is_adopted_whole(yard, lease):
    steps, task = yard.scheduler.steps, lease.task
    record(yard, lease, "a")
    record(yard, lease, "b")
    taken = kept(yard)
    steps.let_go(task)
    assert not steps.is_known(task)
    assert not steps.adopt(task, taken[:1])
    assert not steps.is_known(task)
    assert steps.adopt(task, taken)
    assert record(yard, lease, "b") == (2, True)
    record(yard, lease, "c")
    # What is known already is newer.
    assert steps.adopt(task, [])
    assert record(yard, lease, "c") == (3, True)


def test_the_bound_holds_over_all_runs(yard, lease):
    record(yard, lease, "a", MAX_STEPS_BYTES - 10)
    taken = kept(yard)
    yard.release(lease)
    yard.scheduler.steps.let_go(lease.task)
    again = yard.claim_one()
    yard.scheduler.steps.adopt(again.task, taken)
    with pytest.raises(TooLarge):
        record(yard, again, "c", 11)
    record(yard, again, "c", 10)


def test_a_step_says_what_was_recorded_and_when(yard, lease):
    step = NewStep(lease.task.id, lease.token, "a", b"result", b"output", 12)
    yard.scheduler.reports.record_step(yard.now, "host", step)
    (taken,) = yard.scheduler.steps.take()
    assert (taken.task, taken.number) == (lease.task, 1)
    assert taken.step == Step("work", "a", b"result", b"output", 1, 1, 12, yard.now)
    assert lease.task.history.step_bytes == len("aresultoutput")
    assert kept(yard) == []


def test_a_task_without_steps_is_known(yard, lease):
    assert yard.scheduler.steps.is_known(lease.task)
    assert not yard.scheduler.steps.has_any


def test_a_resumed_task_has_its_steps(yard, lease):
    record(yard, lease, "a")
    yard.fail(lease)
    yard.resume(lease.task)
    again = yard.claim_one()
    assert record(yard, again, "a") == (1, True)


def test_while_an_earlier_version_may_serve_none_is_taken(yard, lease):
    yard.scheduler.readers.allow_fields(added=True, extras=True, output=True, artifacts=False)
    with pytest.raises(Unavailable, match="steps"):
        record(yard, lease, "a")
    assert lease.task.history.steps == 0
    assert lease.task.state == "assigned"
