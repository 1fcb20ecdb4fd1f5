"""Retention of what others wait for, cascades, and tasks of a batch that come after each other.

See docs/rules.md, Predecessors.
"""

import pytest

from taskyard_server.core.errors import BadRequest
from taskyard_server.core.figures.figures import stats_of
from taskyard_server.core.task import Submission
from taskyard_server.core.task_options import IdempotencyKey, OnConflict, TaskExtras, TaskOptions


@pytest.fixture
def yard(yard):
    """The yard with a host, and deadlines that are far off."""
    yard.reconfigure(default_deadline_secs=1e9, heartbeat_timeout_secs=1e9, lease_secs=1e3, result_ttl_secs=1e9)
    yard.register()
    return yard


def after(*tasks):
    return {"after": tuple(task.id for task in tasks)}


def run(yard, task):
    """Let the host run a task, which is the next one."""
    lease = yard.start_one()
    assert lease.task is task
    return lease


def finish(yard, task):
    yard.complete(run(yard, task))
    yard.pass_time(0)


def fail(yard, task):
    yard.fail(run(yard, task))
    yard.pass_time(0)


def waits(yard):
    return stats_of(yard.scheduler).after_others


def is_empty(yard):
    predecessors, retention = yard.scheduler.life.predecessors, yard.scheduler.life.retention
    return predecessors.followers == predecessors._waiting == predecessors._clear == retention.aside == {}


# Retention, and many at once


def test_a_task_is_retained_while_others_wait_for_it(yard):
    yard.reconfigure(result_ttl_secs=10)
    first, other, second = yard.submit(), yard.submit(), yard.submit()
    third = yard.submit(**after(first, second))
    finish(yard, first)
    finish(yard, other)
    yard.pass_time(11)
    assert yard.tasks() == [first, second, third]
    assert len(yard.scheduler.life.retention) == 1
    finish(yard, second)
    yard.pass_time(0)
    assert yard.tasks() == [second, third]
    assert is_empty(yard)


def test_what_is_waited_for_does_not_count_once_its_turn_to_leave_has_come(yard):
    yard.reconfigure(max_retained_tasks=1)
    first, second = yard.submit(), yard.submit()
    third = yard.submit(**after(first, second))
    finish(yard, first)
    others = [yard.submit(priority=-1) for _ in range(3)]
    for other in others:
        finish(yard, other)
    assert yard.tasks() == [first, second, third, others[2]]
    yard.cancel(third)
    assert yard.scheduler.life.retention.aside == {}
    finish(yard, yard.submit(priority=-1))
    assert first not in yard.tasks()


def test_a_task_that_nobody_waits_for_any_more_leaves_in_the_order_of_the_ends(yard):
    yard.reconfigure(result_ttl_secs=100)
    tasks = [yard.submit() for _ in range(3)]
    gate = yard.submit(hold=True)
    waiting = [yard.submit(**after(task, gate)) for task in tasks]
    for task in tasks:
        finish(yard, task)
        yard.pass_time(1)
    yard.pass_time(101)
    for task in (waiting[1], waiting[2], waiting[0]):
        yard.cancel(task)
    assert [task.id for task in yard.scheduler.life.retention.ended._entries][:3] == [task.id for task in tasks]


def test_a_cascade_runs_in_slices_and_loses_nothing(yard):
    first = yard.submit()
    line = [first]
    for _ in range(500):
        line.append(yard.submit(**after(line[-1])))
    fan = [yard.submit(**after(line[-1])) for _ in range(500)]
    yard.cancel(first)
    assert yard.scheduler.next_due() == yard.now
    assert yard.scheduler.advance(yard.now, 100)
    cancelled = [task for task in [*line, *fan] if task.state == "cancelled"]
    assert 1 < len(cancelled) <= 101
    while yard.scheduler.advance(yard.now, 100):
        pass
    assert {task.state for task in [*line, *fan]} == {"cancelled"}
    assert is_empty(yard)


def test_there_is_no_circle_for_only_earlier_tasks_can_be_named(yard):
    first = yard.submit()
    second = yard.submit(**after(first))
    third = yard.submit(**after(first, second))
    followers = yard.scheduler.life.predecessors.followers
    assert all(each.seq > task.seq for task, below in followers.items() for each in below)
    assert yard.scheduler.life.predecessors.awaited_by(third) == [first, second]


# Batches


def batch(yard, *extras, **options):
    submissions = [Submission("ann", "click", options=TaskOptions(extras=TaskExtras(**each))) for each in extras]
    if options:
        submissions = [each._replace(options=each.options._replace(**options)) for each in submissions]
    return yard.scheduler.submit_batch(yard.now, submissions).outcomes


def test_places_in_a_batch_become_ids(yard):
    before = yard.submit()
    first, second, third = batch(yard, {}, {"after_indexes": (0,)}, {"after_indexes": (0, 1), **after(before)})
    assert second.options.extras == TaskExtras(after=(first.id,))
    assert third.options.extras.after == (before.id, first.id, second.id)
    for task in (before, first, second, third):
        finish(yard, task)
    assert third.state == "done"


@pytest.mark.parametrize("place", [1, 2])
def test_a_place_that_is_not_before_the_task_refuses_the_batch(yard, place):
    with pytest.raises(BadRequest, match=r"^tasks\[1\]\.afterIndexes: must be places of tasks that stand before this"):
        batch(yard, {}, {"after_indexes": (place,)}, {})
    assert yard.tasks() == []


def test_what_comes_after_a_refused_task_of_the_batch_is_refused(yard):
    yard.reconfigure(max_per_agent=1)
    first, second, third = batch(yard, {}, {}, {"after_indexes": (1,)})
    assert (first.state, second.code) == ("queued", "queue_full")
    assert (third.code, third.message) == (
        "conflict",
        "afterIndexes: task 1 was refused: rejected: agent queue full",
    )
    assert third.details == {"index": 1, "code": "queue_full"}


def test_in_a_chain_of_a_batch_each_refusal_names_the_first_one_alone(yard):
    chain = [{"after_indexes": (index,)} for index in range(499)]
    refused = batch(yard, {"after": ("tsk_nope",)}, *chain)[1:]
    assert {each.message for each in refused} == {"afterIndexes: task 0 was refused: after: task tsk_nope not found"}, (
        "they would be 4 MB together, more than an answer may have"
    )
    assert {(each.code, each.details["index"], each.details["code"]) for each in refused} == {
        ("conflict", 0, "not_found")
    }


def test_what_comes_after_an_unknown_task_is_refused_with_all_that_comes_after_it(yard):
    first, second = batch(yard, {"after": ("tsk_nope",)}, {"after_indexes": (0,)})
    assert (first.code, second.code) == ("not_found", "conflict")


def test_a_repeated_task_of_a_batch_stands_for_the_first_one(yard):
    key = IdempotencyKey("key", b"1")
    first = yard.submit(key=key)
    submissions = [
        Submission("ann", "click", options=TaskOptions(key=key)),
        Submission("ann", "click", options=TaskOptions(extras=TaskExtras(after_indexes=(0,)))),
    ]
    outcomes = yard.scheduler.submit_batch(yard.now, submissions).outcomes
    assert outcomes[0] is first
    assert outcomes[1].options.extras.after == (first.id,)


def test_a_task_that_stands_for_another_is_what_comes_first(yard):
    twin = yard.submit(unique_key="sync", on_conflict=OnConflict.EXISTING)
    existing, second = batch(yard, {"unique_key": "sync"}, {"after_indexes": (0,)})
    assert existing.task is twin
    assert second.options.extras.after == (twin.id,)


def test_a_batch_is_known_though_its_first_task_is_forgotten_before_the_next_one_comes(yard):
    batches, (first, second) = yard.scheduler.life.tasks.batches, [yard.submit(), yard.submit()]
    opened = batches.open("bat_1", "ann", yard.now)
    batches.add("bat_1", first)
    batches.forget("bat_1", first)
    batches.add("bat_1", second)
    batches.close(opened)
    assert list(batches.get("bat_1").tasks) == [second.id]
