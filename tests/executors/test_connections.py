"""A connection is kept for the next task, or closed with its request; it is never lost (docs/rules.md, Tab executor).

While httpx closes a connection, a second cancellation would interrupt it: the connection would stay open, and count as
one in use for ever. So these tests cancel at every turn of the event loop that the closing can take.
"""

import asyncio

import pytest

from tests.live import live

TURNS = range(8)


@pytest.fixture
def deadlines(monkeypatch):
    """The time-outs that are made, so that a test can let them pass."""
    made = []
    make = asyncio.timeout

    def record(secs):
        made.append(make(secs))
        return made[-1]

    monkeypatch.setattr(asyncio, "timeout", record)
    return made


async def pass_turns(count):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_connections_are_kept_for_the_next_task(start_server, instance):
    server = await start_server(instance, workers=1)
    for _ in range(5):
        await server.run()
    assert instance.connections == 1


@pytest.mark.parametrize("turns", TURNS)
async def test_a_cancellation_just_after_the_deadline_closes_the_connection(server, instance, soon, deadlines, turns):
    instance.hold()
    task = await server.submit()
    request = await soon(instance.arrived.get())
    deadlines[-1].reschedule(asyncio.get_running_loop().time())
    await pass_turns(turns)
    if task.state == "running":
        await server.engine.tasks.cancel("default", task.id, show=live)
    await soon(request.gone.wait())


async def test_a_cancellation_ends_the_deadline(server, instance, soon, deadlines):
    instance.hold()
    task = await server.submit(deadline_in=60)
    await soon(instance.arrived.get())
    assert deadlines[-1].when() is not None
    await server.engine.tasks.cancel("default", task.id, show=live)
    await pass_turns(1)
    assert deadlines[-1].when() is None


@pytest.mark.parametrize("turns", TURNS)
async def test_the_only_slot_is_free_after_two_cancellations(start_server, instance, soon, deadlines, turns):
    server = await start_server(instance, workers=1)
    instance.hold()
    task = await server.submit()
    await soon(instance.arrived.get())
    deadlines[-1].reschedule(asyncio.get_running_loop().time())
    await pass_turns(turns)
    if task.state == "running":
        await server.engine.tasks.cancel("default", task.id, show=live)
    instance.release()
    assert (await soon(server.run())).state == "done"
