"""Commands on tasks and batches: submit, get, cancel."""

import re

import pytest

from taskyard_server.core.errors import BadRequest, Conflict, NotFound, QueueFull, Refusal
from tests import reporting
from tests.engine.lease_commands import NS, lease_of
from tests.live import live


async def test_a_submitted_task_is_queued_and_can_be_read(engine, clock, submission):
    task = await engine.tasks.submit(NS, submission(params=b"{}", priority=3), show=live)
    assert (task.state, task.agent_id, task.action, task.params, task.priority) == ("queued", "ann", "click", b"{}", 3)
    assert (task.created_at, task.deadline, task.position) == (clock.now, clock.now + 60, 1)
    got = await engine.tasks.get(NS, task.id, show=live)
    assert (got.id, got.state) == (task.id, "queued")


async def test_a_past_deadline_is_a_bad_request_and_creates_no_task(engine, clock, submission):
    with pytest.raises(BadRequest, match="deadline"):
        await engine.tasks.submit(NS, submission(deadline=clock.now), show=live)
    assert (await engine.admin.stats(NS)).counters.submitted == 0


async def test_a_full_queue_refuses_and_keeps_the_task_as_rejected(make_engine, submission):
    engine = make_engine(max_queue_size=1)
    await engine.tasks.submit(NS, submission(), show=live)
    with pytest.raises(QueueFull, match="rejected: global queue full") as full:
        await engine.tasks.submit(NS, submission(), show=live)
    assert full.value.details == {"agentId": "ann", "queued": 1, "maxQueue": 1, "maxPerAgent": 100}
    assert (await engine.tasks.get(NS, full.value.task.id, show=live)).state == "rejected"


async def test_an_unknown_task_is_not_found(engine, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    for task_id in ("", "tsk_1", "tsk_" + "0" * 32):
        with pytest.raises(NotFound, match="task not found"):
            await engine.tasks.get(NS, task_id, show=live)
        with pytest.raises(NotFound, match="task not found"):
            await engine.tasks.cancel(NS, task_id, show=live)


async def test_a_task_can_be_cancelled_only_once(engine, submission):
    task = await engine.tasks.submit(NS, submission(), show=live)
    assert (await engine.tasks.cancel(NS, task.id, show=live)).state == "cancelled"
    with pytest.raises(Conflict, match="task is already cancelled"):
        await engine.tasks.cancel(NS, task.id, show=live)


async def test_tasks_submitted_together_are_admitted_separately(engine, submission, clock):
    late = submission(deadline=clock.now - 1)
    outcomes = await engine.tasks.submit_each(NS, [submission("ann"), late, submission("bob")], show=live)
    assert [isinstance(outcome, Refusal) or outcome.agent_id for outcome in outcomes] == ["ann", True, "bob"]
    assert (await engine.admin.stats(NS)).queued == 2


# Batches


async def test_a_batch_admits_its_tasks_one_by_one(make_engine, submission):
    engine = make_engine(max_per_agent=2)
    admitted = await engine.tasks.submit_batch(
        NS, [submission(action=action) for action in ("one", "two", "three")], show=live
    )
    first, second, third = admitted.outcomes
    assert [(task.action, task.state, task.position) for task in (first, second)] == [
        ("one", "queued", 1),
        ("two", "queued", 2),
    ]
    assert isinstance(third, QueueFull)
    assert third.task.state == "rejected"
    assert {task.options.batch_id for task in (first, second, third.task)} == {admitted.batch.id}
    assert list((await engine.tasks.get_batch(NS, admitted.batch.id, show=live)).tasks) == [
        first.id,
        second.id,
        third.task.id,
    ]


async def test_a_bad_task_anywhere_in_a_batch_admits_none(engine, clock, submission):
    with pytest.raises(BadRequest):
        await engine.tasks.submit_batch(NS, [submission(), submission(deadline=clock.now - 1)], show=live)
    assert (await engine.admin.stats(NS)).counters.submitted == 0


async def test_batch_and_task_ids_have_the_documented_shape(engine, submission):
    admitted = await engine.tasks.submit_batch(NS, [submission()], show=live)
    assert re.fullmatch(r"bat_[0-9a-f]{32}", admitted.batch.id)
    assert re.fullmatch(r"tsk_[0-9a-f]{32}", admitted.outcomes[0].id)


async def test_cancelling_a_batch_cancels_the_tasks_that_have_not_ended(engine, host, submission):
    admitted = await engine.tasks.submit_batch(NS, [submission() for _ in range(3)], show=live)
    lease = await lease_of(engine, host)
    await reporting.complete(engine, NS, host, lease.task.id, lease.token, None)
    assert await engine.tasks.cancel_batch(NS, admitted.batch.id) == 2
    assert [task.state.value for task in admitted.outcomes] == ["done", "cancelled", "cancelled"]


async def test_an_unknown_batch_is_not_found(engine, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    with pytest.raises(NotFound, match="batch not found"):
        await engine.tasks.get_batch(NS, "bat_1", show=live)
    with pytest.raises(NotFound, match="batch not found"):
        await engine.tasks.cancel_batch(NS, "bat_1")
