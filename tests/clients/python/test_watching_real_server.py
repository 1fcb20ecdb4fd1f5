"""Watches of a real server: the events of a task, and what follows a break."""

import asyncio
from contextlib import aclosing

from taskyard import EventKind, TaskState
from taskyard.values.convert import value_from
from tests.waiting import LIMIT_SECS, until


async def next_events(events, count):
    """The next events, as kind, action and state."""
    async with asyncio.timeout(LIMIT_SECS):
        return [(each.kind, each.task.action, each.task.state) for each in [await anext(events) for _ in range(count)]]


async def watches(server, count):
    """Wait until this many watches have reached the server, broken ones included."""
    await until(lambda: len(server.service.watched) >= count)


async def begun(server, events):
    """Begin a watch that has no event yet. Returns the future of its first event."""
    first = asyncio.ensure_future(anext(events))
    await watches(server, len(server.service.watched) + 1)
    return first


async def test_a_watch_shows_every_change_of_a_task_and_ends_with_it(server, client):
    task_id = (await client.submit("click", params={"x": 1})).id
    events = client.watch(task_ids=[task_id], include_current=True, until_ended=True)
    assert await next_events(events, 1) == [(EventKind.CURRENT, "click", TaskState.QUEUED)]
    (lease,) = await server.claim()
    await server.complete(lease, value_from({"ok": True}).SerializeToString())
    async with asyncio.timeout(LIMIT_SECS):
        rest = [each async for each in events]
    assert [(each.previous_state, each.task.state) for each in rest] == [
        ("queued", "assigned"),
        ("assigned", "running"),
        ("running", "done"),
    ]
    assert rest[-1].task.result == {"ok": True}
    # The events leave out the params, which never change.
    assert rest[-1].task.params == {}


async def test_a_watch_shows_only_events_that_match_its_filters(server, client):
    async with aclosing(client.watch(agent_id="bob", states=[TaskState.CANCELLED])) as events:
        first = await begun(server, events)
        for agent in ("ann", "bob"):
            await client.cancel((await client.submit("click", agent_id=agent)).id)
        assert ((event := await first).task.agent_id, event.previous_state) == ("bob", TaskState.QUEUED)


async def test_repeated_connection_breaks_neither_lose_nor_repeat_events(server, wire, client, open_client):
    cuts, between = 5, 40

    async def submit_and_cut():
        for cut in range(cuts):
            for number in range(between):
                await client.submit(f"{cut}-{number}")
                if number == between // 2:
                    wire.cut()
            await watches(server, cut + 2)

    async with aclosing(open_client(wire).watch()) as events:
        first = await begun(server, events)
        await client.submit("first")
        assert (await first).task.action == "first"
        submitting = asyncio.create_task(submit_and_cut())
        shown = await next_events(events, cuts * between)
        await submitting
    assert shown == [("submitted", f"{cut}-{number}", "queued") for cut in range(cuts) for number in range(between)]
    assert len(server.service.watched) == cuts + 1
    assert all(request.cursor for request in server.service.watched[1:])


async def test_a_server_that_lost_its_log_shows_the_current_tasks_again(client, open_server, open_client, wire):
    await client.submit("old")
    watcher = open_client(wire)
    async with aclosing(watcher.watch(include_current=True)) as events:
        assert await next_events(events, 1) == [("current", "old", "queued")]
        await client.submit("known")
        assert await next_events(events, 1) == [("submitted", "known", "queued")]
        other = await open_server()
        await open_client(other).submit("new")
        wire.lead_to(other)
        assert await next_events(events, 1) == [("current", "new", "queued")]
        await open_client(other).submit("newer")
        assert await next_events(events, 1) == [("submitted", "newer", "queued")]
    assert [bool(request.cursor) for request in other.service.watched] == [True, False]


async def test_another_watch_may_begin_after_the_cursor_of_an_event(server, client):
    async with aclosing(client.watch()) as events:
        first = await begun(server, events)
        await client.submit("first")
        cursor = (await first).cursor
    await client.submit("second")
    async with aclosing(client.watch(cursor=cursor)) as events:
        assert await next_events(events, 1) == [("submitted", "second", "queued")]
