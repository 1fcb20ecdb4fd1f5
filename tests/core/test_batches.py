"""Batches: their tasks are admitted one by one, and cancelled together (docs/rules.md, Batches)."""

import re
from itertools import pairwise

import pytest

from taskyard_server.core.errors import BadRequest, NotFound, QueueFull
from taskyard_server.core.task import Submission
from taskyard_server.core.task_options import TaskOptions


def batch(yard, *agents, **fields):
    submissions = [Submission(agent, "click", **fields) for agent in agents]
    return yard.scheduler.submit_batch(yard.now, submissions)


def test_the_tasks_of_a_batch_are_admitted_one_by_one_in_order(make_yard):
    yard = make_yard(max_queue_size=3)
    yard.submit()
    admitted = batch(yard, *["ann"] * 4)
    first, second, third, fourth = admitted.outcomes
    assert [(task.state, task.position) for task in (first, second)] == [("queued", 2), ("queued", 3)]
    assert [type(refusal) for refusal in (third, fourth)] == [QueueFull, QueueFull]
    tasks = [first, second, third.task, fourth.task]
    assert list(admitted.batch.tasks.values()) == tasks == yard.tasks()[1:]
    assert {task.options.batch_id for task in tasks} == {admitted.batch.id}


def test_the_tasks_of_a_batch_have_the_fields_of_their_submissions(yard):
    options = TaskOptions("https://example.com/hook", "red", frozenset({"gpu"}), (("team", "a"),), traceparent="00-1")
    admitted = batch(yard, "ann", tab_id="tab", ref="e14", params=b"{}", priority=-3, options=options)
    (task,) = admitted.outcomes
    assert (task.agent_id, task.tab_id, task.ref, task.params, task.priority) == ("ann", "tab", "e14", b"{}", -3)
    assert task.options == options._replace(batch_id=admitted.batch.id)
    assert (admitted.batch.agent_id, admitted.batch.created_at) == ("ann", yard.now)


def test_a_batch_with_one_bad_deadline_admits_nothing(yard, watch):
    changes = watch(yard.scheduler)
    good, bad = Submission("ann", "click"), Submission("ann", "click", deadline=yard.now)
    with pytest.raises(BadRequest):
        yard.scheduler.submit_batch(yard.now, [good, bad, good])
    assert changes() == []


def test_batch_ids_are_the_prefix_and_128_bits_in_hex_and_sort_by_time(yard):
    ids = []
    for _ in range(10):
        ids.append(batch(yard, "ann").batch.id)
        yard.now += 0.001
    assert all(re.fullmatch(r"bat_[0-9a-f]{32}", batch_id) for batch_id in ids)
    assert all(earlier < later for earlier, later in pairwise(ids))


def test_a_batch_is_known_for_as_long_as_one_of_its_tasks_is_retained(make_yard):
    yard = make_yard(result_ttl_secs=10)
    admitted = batch(yard, "ann", "ann")
    first, second = admitted.outcomes
    yard.cancel(first)
    yard.pass_time(5)
    yard.cancel(second)
    yard.pass_time(5)
    assert list(yard.scheduler.batch(admitted.batch.id).tasks.values()) == [second]
    yard.pass_time(5)
    with pytest.raises(NotFound, match="batch not found"):
        yard.scheduler.batch(admitted.batch.id)


def test_a_batch_of_refused_tasks_alone_outlives_the_push_of_newer_refusals(make_yard):
    """The newest rejected task is one of the batch."""
    yard = make_yard(max_queue_size=1)
    yard.submit()
    admitted = batch(yard, *["ann"] * 5)
    assert list(admitted.batch.tasks.values()) == [admitted.outcomes[-1].task]


def test_cancelling_a_batch_ends_what_has_not_ended_and_counts_it(yard):
    yard.register()
    admitted = batch(yard, *["ann"] * 4)
    done, running, *waiting = admitted.outcomes
    yard.complete(yard.claim_one())
    yard.start(yard.claim_one())
    assert not admitted.batch.ended()
    assert yard.scheduler.cancel_batch(yard.now, admitted.batch.id) == 3
    assert done.state == "done"
    assert {task.state.value for task in [running, *waiting]} == {"cancelled"}
    assert admitted.batch.ended()
    assert yard.scheduler.cancel_batch(yard.now, admitted.batch.id) == 0
