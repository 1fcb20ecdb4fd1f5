"""Batches, against a real server."""

import pytest

from taskyard import (
    BadRequest,
    BatchTooLarge,
    NewTask,
    NotFound,
    QueueFull,
    TaskState,
)
from taskyard.v1.batch_pb2 import SubmitBatchResponse
from taskyard_server.core import errors as refusals


async def test_a_batch_has_an_outcome_for_each_task(open_server, open_client):
    client = open_client(await open_server(max_queue_size=2))
    batch = await client.submit_batch([NewTask("click"), NewTask("type", params={"x": 1}), NewTask("scroll")])
    assert [outcome.state for outcome in batch.outcomes] == ["queued", "queued", "rejected"]
    assert [outcome.position for outcome in batch.outcomes] == [1, 2, None]
    assert batch.task_ids == tuple(outcome.task_id for outcome in batch.outcomes[:2])
    refusal = batch.outcomes[2].error
    assert isinstance(refusal, QueueFull)
    assert refusal.task_id == batch.outcomes[2].task_id
    assert (await client.get(batch.task_ids[1])).params == {"x": 1}


async def test_a_batch_can_be_got_and_cancelled(client):
    batch = await client.submit_batch(
        [NewTask("click"), NewTask("type")], agent_id="bob", callback_url="https://example.com/cb"
    )
    await client.cancel(batch.task_ids[0])
    got = await client.get_batch(batch.id)
    assert (got.id, got.agent_id, got.ended) == (batch.id, "bob", False)
    assert got.states == {TaskState.CANCELLED: 1, TaskState.QUEUED: 1}
    assert [task.id for task in got.tasks] == list(batch.task_ids)
    assert {task.callback_url for task in got.tasks} == {"https://example.com/cb"}
    assert await client.cancel_batch(batch.id) == 1
    assert (await client.get_batch(batch.id)).ended


async def test_a_batch_that_is_refused_as_a_whole_submits_nothing(server, client):
    with pytest.raises(BadRequest):
        await client.submit_batch([])
    with pytest.raises(BadRequest, match=r"tasks\[1\]"):
        await client.submit_batch([NewTask("click"), NewTask("")])
    with pytest.raises(BatchTooLarge):
        await client.submit_batch([NewTask("click")] * 51)
    with pytest.raises(ValueError, match="agent_id"):
        await client.submit_batch([NewTask("click", agent_id="bob")])
    with pytest.raises(NotFound):
        await client.get_batch("bat_0")
    assert await server.made() == 0


async def test_a_batch_whose_answer_was_lost_has_the_id_of_the_first_try(server, client):
    task_ids = []
    real = server.engine.tasks.submit_batch

    async def loses_its_first_answer(namespace, submissions, **given):
        answer = await real(namespace, submissions, **given)
        task_ids.append([task.task_id for task in SubmitBatchResponse.FromString(answer).tasks])
        if len(task_ids) == 1:
            raise refusals.Unavailable("gone")
        return answer

    server.engine.tasks.submit_batch = loses_its_first_answer
    batch = await client.submit_batch([NewTask("click"), NewTask("type")])
    assert task_ids[0] == task_ids[1] == list(batch.task_ids)
    assert [task.id for task in (await client.get_batch(batch.id)).tasks] == task_ids[0]
    assert await server.made() == 2
