"""Calls of a client that has no server, loses it, or is closed."""

import asyncio
from datetime import timedelta

import pytest

from taskyard import (
    Client,
    ClientClosed,
    NewTask,
    TaskState,
    TaskyardError,
    Unavailable,
)
from taskyard_server.core import errors as refusals
from tests.ports import free_port


async def test_calls_without_a_server_raise_unavailable():
    async with Client(f"127.0.0.1:{free_port()}", agent_id="ann", patience=0.2) as client:
        for call in (client.submit("click"), client.cancel("tsk_0"), client.submit_batch([NewTask("click")])):
            with pytest.raises(Unavailable) as raised:
                await call
            assert raised.value.retryable


async def test_safe_calls_sit_out_a_restart_of_the_server(server, client):
    task_id = (await client.submit("click")).id
    await server.stop()
    getting = asyncio.create_task(client.get(task_id))
    cancelling = asyncio.create_task(client.cancel(task_id))
    await asyncio.sleep(0)
    await server.start()
    assert (await getting).id == task_id
    assert await cancelling is TaskState.CANCELLED


async def test_a_cancel_whose_answer_was_lost_is_no_conflict_when_it_is_repeated(server, client, monkeypatch):
    task_id = (await client.submit("click")).id
    real, calls = server.service.CancelTask, []

    async def loses_its_first_answer(request, context):
        answer = await real(request, context)
        calls.append(1)
        if len(calls) == 1:
            raise refusals.Unavailable("gone")
        return answer

    monkeypatch.setattr(server.service, "CancelTask", loses_its_first_answer)
    await server.stop()
    await server.start()
    assert await client.cancel(task_id) is TaskState.CANCELLED


async def test_calls_of_a_closed_client_raise_client_closed(client):
    task_id = (await client.submit("click")).id
    await client.close()
    for call in (client.submit("click"), client.get(task_id), client.wait(task_id)):
        with pytest.raises(ClientClosed, match="closed"):
            await call
    with pytest.raises(ClientClosed, match="closed"):
        client.watch()
    await client.close()


async def test_a_pending_call_raises_client_closed_when_the_client_closes(client):
    task_id = (await client.submit("click")).id
    waiting = asyncio.create_task(client.wait(task_id))
    await client.get(task_id)
    await client.close()
    with pytest.raises(ClientClosed, match="closed"):
        await waiting


async def test_a_late_answer_raises_deadline_exceeded(server, open_client, monkeypatch):
    async def never(*_, **__):
        await asyncio.Event().wait()

    monkeypatch.setattr(server.engine.tasks, "get", never)
    client = open_client(server, timeout=timedelta(milliseconds=50))
    with pytest.raises(TaskyardError) as raised:
        await client.get("tsk_0")
    assert raised.value.code == "deadline_exceeded"
