"""Waiting for tasks to end, against a real server."""

import asyncio
from datetime import timedelta

import pytest

from taskyard import (
    NotFound,
    TaskFailed,
    TaskState,
)
from taskyard.values.convert import value_from


async def test_wait_returns_the_task_once_it_has_ended(server, client):
    submitted = await client.submit("click")
    waiting = asyncio.create_task(client.wait(submitted.id))
    (lease,) = await server.claim()
    assert not waiting.done()
    await server.complete(lease, value_from({"clicked": 3}).SerializeToString())
    task = await waiting
    assert (task.state, task.state.ended, task.result) == (TaskState.DONE, True, {"clicked": 3})
    assert task.completed_at is not None
    assert task.host_id == "host"


@pytest.mark.parametrize("time", [0, 0.05, timedelta(milliseconds=50)])
async def test_wait_raises_timeout_error_when_the_time_is_up(client, time):
    submitted = await client.submit("click")
    with pytest.raises(TimeoutError, match=submitted.id):
        await client.wait(submitted.id, time)


async def test_a_long_wait_takes_several_calls(server, client, monkeypatch):
    monkeypatch.setattr("taskyard.calls.tasks.WAIT_PIECE_SECS", 0.01)
    submitted = await client.submit("click")
    waiting = asyncio.create_task(client.wait(submitted.id, timeout=60))
    await asyncio.sleep(0.1)
    (lease,) = await server.claim()
    await server.complete(lease)
    assert (await waiting).state is TaskState.DONE


async def test_wait_survives_a_restart_of_the_server(server, client):
    submitted = await client.submit("click")
    waiting = asyncio.create_task(client.wait(submitted.id, timeout=60))
    await client.get(submitted.id)
    await server.stop()
    await server.start()
    (lease,) = await server.claim()
    await server.complete(lease)
    assert (await waiting).state is TaskState.DONE


async def test_wait_for_an_unknown_task_is_not_found(client):
    with pytest.raises(NotFound):
        await client.wait("tsk_0", timeout=60)


async def test_run_returns_the_result(server, client):
    running = asyncio.create_task(client.run("click", params={"x": 1}))
    await server.complete(await server.claim_soon(), value_from([1, 2]).SerializeToString())
    assert await running == [1, 2]


async def test_run_raises_the_error_of_a_failed_task(server, client):
    running = asyncio.create_task(client.run("click"))
    await server.fail(await server.claim_soon(), "no such element")
    with pytest.raises(TaskFailed, match="failed: no such element") as raised:
        await running
    assert raised.value.task.state is TaskState.FAILED
