"""Typed calls and their handles, against a real server."""

import asyncio
import pickle
from contextlib import aclosing
from datetime import timedelta

import pytest

from taskyard import (
    BadValue,
    NotFound,
    Submitted,
    TaskCancelled,
    TaskFailed,
    TaskLost,
    TaskState,
    as_completed,
)
from tests.waiting import LIMIT_SECS

from .crawling import Links, Page, count, crawl, ping


def answer(action, params):
    match action:
        case "crawl" if params["url"] == "broken":
            raise ValueError("no such host")
        case "crawl":
            return {"found": [params["url"] + "/1"], "total": params["size"]}
        case "wrong":
            return {"found": "no list"}
        case _:
            return params


# Running


async def test_a_typed_run_takes_and_returns_its_types(server, client, working):
    async with working(server, answer):
        assert await client.run(crawl, Page("a", 3)) == Links(["a/1"], 3)
        assert await client.run("crawl", params={"url": "b", "size": 1}) == {"found": ["b/1"], "total": 1}


async def test_a_run_that_fails_raises_the_whole_story(server, client, working):
    async with working(server, answer):
        with pytest.raises(TaskFailed) as raised:
            await client.run(crawl, Page("broken"))
    error = raised.value
    assert (error.message, error.attempts, error.task.state) == ("no such host", 1, TaskState.FAILED)
    assert str(error) == f"{error.task.id} (crawl) is failed: no such host"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.task, again.message, str(again)) == (TaskFailed, error.task, error.message, str(error))


async def test_an_output_that_does_not_fit_is_refused_with_its_place(server, client, working):
    async with working(server, answer):
        handle = await client.submit("wrong")
        typed = client.handle(handle.id, crawl)
        with pytest.raises(BadValue, match="found: expected `array`, got `str`"):
            await typed.result()


async def test_an_input_is_checked_before_anything_is_sent(server, client):
    with pytest.raises(BadValue, match="input: expected Page"):
        await client.run(crawl, {"url": "a"})
    with pytest.raises(TypeError, match="'crawl' takes an input, the second argument"):
        await client.run(crawl)
    with pytest.raises(TypeError, match="takes params="):
        await client.run("crawl", Page("a"))
    assert await server.made() == 0


# Handles


async def test_a_handle_is_what_submit_answered_and_more(server, client, working):
    handle = await client.submit(crawl, Page("a"))
    assert isinstance(handle, Submitted)
    assert (handle.state, handle.position, handle.action) == (TaskState.QUEUED, 1, crawl)
    assert (await handle.task()).created_at == handle.created_at
    with pytest.raises(TimeoutError):
        await handle.result(timeout=0.01)
    async with working(server, answer):
        assert await handle.result() == Links(["a/1"])
    # A task that is done stays so: nobody is asked again.
    await server.stop()
    assert await handle.result() == Links(["a/1"])


async def test_a_handle_is_picked_up_by_its_id(server, client, open_client, working):
    submitted = await client.submit(crawl, Page("a", 7))
    handle = open_client(server).handle(submitted.id, crawl)
    assert handle == submitted
    with pytest.raises(AttributeError, match=r"state: tsk_\w+ was picked up by its id: `await handle.task\(\)`"):
        _ = handle.state
    async with working(server, answer):
        assert await handle.result() == Links(["a/1"], 7)
    plain = client.handle(submitted.id)
    assert await plain.result() == {"found": ["a/1"], "total": 7}
    with pytest.raises(NotFound, match="not found"):
        await client.handle("tsk_0").result()


async def test_a_handle_cancels_its_task_and_shows_its_events(client):
    handle = await client.submit(crawl, Page("a"))
    async with aclosing(handle.events()) as events:
        seen = [(await anext(events)).task.state]
        assert await handle.cancel(reason="wrong site") is TaskState.CANCELLED
        seen += [event.task.state async for event in events]
    assert seen == ["queued", "cancelled"]
    assert (await handle.task()).reason == "wrong site"
    with pytest.raises(TaskCancelled, match="is cancelled: wrong site"):
        await handle.result()


async def test_a_task_that_the_server_has_lost_is_no_mere_not_found(open_server, client, wire, open_client):
    client = open_client(wire)
    handle = await client.submit(crawl, Page("a"))
    running = asyncio.create_task((await client.submit("click")).result())
    await client.stats()
    wire.lead_to(await open_server())
    for waiting in (handle.result(), handle.task(), running):
        with pytest.raises(TaskLost, match="it was started anew and keeps no tasks") as raised:
            await waiting
    error = raised.value
    assert (error.code, error.attempts, error.traceback, error.message) == ("not_found", 0, None, error.reason)
    again = pickle.loads(pickle.dumps(error))
    assert (again.task_id, str(again)) == (error.task_id, str(error))


# Many at once


async def test_handles_come_in_the_order_in_which_they_end(server, client):
    handles = [await client.submit("click", params={"n": number}) for number in range(4)]
    leases = {lease.task.id: lease for lease in await server.claim(4)}
    order = [handles[2], handles[0], handles[3], handles[1]]
    await server.complete(leases[order[0].id])
    seen = []
    async with asyncio.timeout(LIMIT_SECS):
        async for handle in as_completed([*handles, handles[0]]):
            seen.append(handle)
            if len(seen) < 4:
                await server.complete(leases[order[len(seen)].id])
    assert seen == order


async def test_each_call_of_a_handle_says_that_its_task_is_unknown(client):
    handle = client.handle("tsk_0", crawl)
    calls = handle.task, handle.cancel, handle.result, lambda: anext(handle.events())
    for call in calls:
        with pytest.raises(NotFound):
            await call()


async def test_the_results_of_completed_handles_cost_no_call(server, client, working, monkeypatch):
    handles = [await client.submit(crawl, Page("broken" if number == 5 else "a", number)) for number in range(50)]
    lost = client.handle("tsk_0")
    waits = []
    monkeypatch.setattr(server.service, "WaitTask", lambda *_: waits.append(1))
    async with working(server, answer), asyncio.timeout(LIMIT_SECS):
        results = {}
        async for handle in client.as_completed([*handles, lost]):
            try:
                results[handle.id] = (await handle.result()) if handle is not lost else None
            except TaskFailed as error:
                results[handle.id] = error.message
    assert [results[handle.id] for handle in handles[4:7]] == [Links(["a/1"], 4), "no such host", Links(["a/1"], 6)]
    assert (len(results), waits) == (51, [])
    # How all of them ended was learnt by one watch, or by two if it began before the last was asked for.
    assert len(server.service.watched) <= 2


async def test_an_unknown_task_among_completed_handles_raises_by_its_result(client):
    async for handle in as_completed([client.handle("tsk_0")]):
        with pytest.raises(NotFound):
            await handle.result()


# Fields


async def test_calls_name_the_default_deadline_that_ended_a_task(open_server, open_client):
    server = await open_server(default_deadline_secs=0.05)
    client = open_client(server)
    with pytest.raises(TaskFailed, match=r"while queued \(the default deadline of 0.05 s, see deadline=\)"):
        await client.run("click")
    with pytest.raises(TaskFailed, match=r"queued$"):
        await client.run("click", deadline=timedelta(seconds=1))


async def test_other_forms_of_input_travel_too(client):
    assert (await (await client.submit(ping, None)).task()).params == {}
    with pytest.raises(BadValue, match="got `str`"):
        await client.submit(count, ["a"])
