"""A watch of the real server: what it tells of a task's life, and how it comes through breaks."""

import asyncio
from contextlib import aclosing

from taskyard import EventKind, TaskState
from taskyard.values import value_from


async def told(events, count):
    """The next events, as kind, action and state."""
    async with asyncio.timeout(20):
        return [(each.kind, each.task.action, each.task.state) for each in [await anext(events) for _ in range(count)]]


async def watches(server, count):
    """Wait until so many watches have reached the server, broken ones included."""
    async with asyncio.timeout(20):
        while len(server.service.watched) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def begun(server, events):
    """Begin a watch that has nothing to tell yet; its next event."""
    first = asyncio.ensure_future(anext(events))
    await watches(server, len(server.service.watched) + 1)
    return first


async def test_a_watch_tells_the_life_of_a_task_and_ends_with_it(server, client):
    task_id = (await client.submit("click", params={"x": 1})).task_id
    events = client.watch(task_ids=[task_id], include_current=True, until_ended=True)
    assert await told(events, 1) == [(EventKind.CURRENT, "click", TaskState.QUEUED)]
    (lease,) = await server.claim()
    await server.complete(lease, value_from({"ok": True}).SerializeToString())
    async with asyncio.timeout(20):
        rest = [each async for each in events]
    assert [(each.previous_state, each.task.state) for each in rest] == [
        ("queued", "assigned"),
        ("assigned", "running"),
        ("running", "done"),
    ]
    assert rest[-1].task.result == {"ok": True}
    # The events leave out what never changes.
    assert rest[-1].task.params == {}


async def test_a_watch_tells_only_what_its_filters_let_through(server, client):
    async with aclosing(client.watch(agent="bob", states=[TaskState.CANCELLED])) as events:
        first = await begun(server, events)
        for agent in ("ann", "bob"):
            await client.cancel((await client.submit("click", agent_id=agent)).task_id)
        assert ((event := await first).task.agent_id, event.previous_state) == ("bob", TaskState.QUEUED)


async def test_a_wire_that_is_cut_again_and_again_neither_loses_nor_repeats_an_event(server, wire, client, open_client):
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
        seen = await told(events, cuts * between)
        await submitting
    assert seen == [("submitted", f"{cut}-{number}", "queued") for cut in range(cuts) for number in range(between)]
    assert len(server.service.watched) == cuts + 1
    assert all(asked.cursor for asked in server.service.watched[1:])


async def test_a_server_that_forgot_its_log_tells_the_tasks_anew(client, open_server, open_client, wire):
    await client.submit("old")
    watcher = open_client(wire)
    async with aclosing(watcher.watch(include_current=True)) as events:
        assert await told(events, 1) == [("current", "old", "queued")]
        await client.submit("seen")
        assert await told(events, 1) == [("submitted", "seen", "queued")]
        other = await open_server()
        await open_client(other).submit("new")
        wire.lead_to(other)
        assert await told(events, 1) == [("current", "new", "queued")]
        await open_client(other).submit("newer")
        assert await told(events, 1) == [("submitted", "newer", "queued")]
    assert [bool(asked.cursor) for asked in other.service.watched] == [True, False]


async def test_an_events_cursor_is_the_place_for_another_watch_to_begin(server, client):
    async with aclosing(client.watch()) as events:
        first = await begun(server, events)
        await client.submit("first")
        cursor = (await first).cursor
    await client.submit("second")
    async with aclosing(client.watch(cursor=cursor)) as events:
        assert await told(events, 1) == [("submitted", "second", "queued")]
