"""Retention: how long tasks that have ended are kept (docs/rules.md, Retention)."""

import pytest

from taskyard_server.core.errors import NotFound
from taskyard_server.core.figures.figures import stats_of


def ended(yard, state, agent="ann"):
    """A task that has ended in this state."""
    task = yard.submit(agent)
    if state == "cancelled":
        return yard.cancel(task)
    lease = yard.claim_one()
    return yard.complete(lease) if state == "done" else yard.fail(lease)


def is_known(yard, task):
    try:
        return yard.scheduler.get(task.id) is task
    except NotFound:
        return False


@pytest.mark.parametrize("state", ["done", "failed", "cancelled"])
def test_an_ended_task_is_found_until_its_ttl_is_over(make_yard, state):
    yard = make_yard(result_ttl_secs=300)
    yard.register()
    task = ended(yard, state)
    yard.pass_time(299.875)
    assert is_known(yard, task)
    assert yard.tasks() == [task]
    yard.pass_time(0.125)
    assert not is_known(yard, task)
    assert yard.tasks() == []


def test_the_ttl_counts_from_the_end_not_from_the_submission(make_yard):
    yard = make_yard(result_ttl_secs=10)
    yard.register()
    task = yard.submit()
    lease = yard.claim_one()
    yard.pass_time(50)
    yard.complete(lease)
    yard.pass_time(9)
    assert is_known(yard, task)


def test_a_task_that_has_not_ended_is_kept_at_any_age(make_yard):
    yard = make_yard(result_ttl_secs=1, default_deadline_secs=1e6)
    yard.register()
    running, queued = yard.submit(), yard.submit()
    yard.start(yard.claim_one(lease_secs=3600))
    yard.pass_time(3_000)
    assert yard.tasks() == [running, queued]


def test_a_task_cannot_be_cancelled_once_it_is_forgotten(make_yard):
    yard = make_yard(result_ttl_secs=10)
    task = ended(yard, "cancelled")
    yard.pass_time(10)
    with pytest.raises(NotFound, match="task not found"):
        yard.cancel(task)


def test_a_shorter_ttl_holds_for_what_is_retained_already(yard):
    task = ended(yard, "cancelled")
    yard.pass_time(20)
    yard.reconfigure(result_ttl_secs=10)
    yard.pass_time(0)
    assert not is_known(yard, task)


def test_a_longer_ttl_holds_for_what_is_retained_already(make_yard):
    yard = make_yard(result_ttl_secs=10)
    task = ended(yard, "cancelled")
    yard.pass_time(5)
    yard.reconfigure(result_ttl_secs=100)
    yard.pass_time(94)
    assert is_known(yard, task)
    yard.pass_time(1)
    assert not is_known(yard, task)


def test_no_more_than_max_retained_tasks_are_kept_the_oldest_go_first_and_are_counted(make_yard):
    yard = make_yard(max_retained_tasks=3)
    yard.register()
    tasks = [ended(yard, state) for state in ("done", "failed", "cancelled", "done", "failed")]
    assert yard.tasks() == tasks[2:]
    assert stats_of(yard.scheduler).counters.evicted == 2


def test_no_more_than_max_retained_tasks_are_kept_also_after_that_was_lowered(make_yard):
    yard = make_yard(max_retained_tasks=10)
    tasks = [ended(yard, "cancelled") for _ in range(10)]
    yard.reconfigure(max_retained_tasks=3)
    tasks.append(ended(yard, "cancelled"))
    assert yard.tasks() == tasks[-3:]
    assert stats_of(yard.scheduler).counters.evicted == 8


def test_the_oldest_task_is_the_one_that_ended_first(make_yard):
    yard = make_yard(max_retained_tasks=2)
    first, second, third = [yard.submit() for _ in range(3)]
    for task in (third, first, second):
        yard.cancel(task)
    assert yard.tasks() == [first, second]


def test_live_tasks_are_no_retained_ones(make_yard):
    yard = make_yard(max_retained_tasks=1)
    live = [yard.submit() for _ in range(10)]
    task = ended(yard, "cancelled")
    assert yard.tasks() == [*live, task]


def test_what_goes_with_its_ttl_is_not_counted_as_evicted(make_yard):
    yard = make_yard(result_ttl_secs=10)
    ended(yard, "cancelled")
    yard.pass_time(10)
    assert stats_of(yard.scheduler).counters.evicted == 0


def test_after_everything_is_forgotten_nothing_is_left(make_yard, object_count):
    yard = make_yard(result_ttl_secs=10, max_agent_figures=10)
    yard.register()
    for state in ("done", "failed", "cancelled"):
        ended(yard, state)
    yard.pass_time(10)
    yard.transitions()
    before = object_count(yard.scheduler)
    for number in range(300):
        ended(yard, ("done", "failed", "cancelled")[number % 3], agent=f"agent-{number}")
    yard.pass_time(10)
    yard.transitions()
    assert object_count(yard.scheduler) < before + 1_000
    yard.deregister()
    yard.pass_time(120)
    assert yard.scheduler.next_due() is None
