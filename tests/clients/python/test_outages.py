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
from tests.waiting import until


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


# What people see of an outage


async def test_the_first_failed_try_is_told_in_one_line_and_the_last_says_for_how_long(caplog):
    address = f"127.0.0.1:{free_port()}"
    async with Client(address, agent_id="ann", patience=0.6) as client:
        for call in (client.stats(), client.submit("click")):
            with pytest.raises(Unavailable, match=f"no server answers at {address}, tried for 0.6 s$") as raised:
                await call
            assert "Connection refused" in raised.value.details["raw"]
    lines = [record.getMessage() for record in caplog.records if record.name == "taskyard"]
    assert lines == [f"no server answers at {address}: trying again for 0.6 s"]


async def test_the_end_of_an_outage_is_told_too(server, client, caplog):
    await client.stats()
    await server.stop()
    submitting = asyncio.create_task(client.submit("click"))
    await until(lambda: caplog.records)
    await server.start()
    await submitting
    lines = [record.getMessage() for record in caplog.records if record.name == "taskyard"]
    assert lines == [f"no server answers at {server.address}: trying again for 30 s", "the server answers again"]


async def test_a_call_that_is_not_repeated_says_nothing_of_further_tries(caplog):
    async with Client(f"127.0.0.1:{free_port()}", agent_id="ann", patience=0) as client:
        with pytest.raises(Unavailable, match=r"no server answers at [0-9.:]+$"):
            await client.stats()
    assert caplog.records == []


async def test_a_client_without_arguments_goes_by_the_environment(server, monkeypatch):
    monkeypatch.setenv("TASKYARD_ADDRESS", server.address)
    monkeypatch.setenv("TASKYARD_NAMESPACE", "north")
    monkeypatch.setenv("TASKYARD_AGENT", "bob")
    async with Client() as client:
        task = await (await client.submit("click")).task()
    assert task.agent_id == "bob"
    assert await server.made("north") == 1
