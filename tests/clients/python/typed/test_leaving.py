"""Who leaves a call leaves no work behind, unless he wants to (`cancel_on_exit`)."""

import asyncio

import pytest

from taskyard import TaskState
from tests.waiting import until

from .crawling import Page, crawl


async def states(client):
    return [task.state async for task in client.list()]


async def settled(server, count):
    """Wait until so many tasks were accepted."""
    await until(server.made, lambda made: made >= count)


async def test_a_run_that_is_left_cancels_its_task(server, client):
    running = asyncio.create_task(client.run(crawl, Page("a")))
    await settled(server, 1)
    await client.stats()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await states(client) == [TaskState.CANCELLED]


async def test_a_time_out_around_a_run_cancels_its_task(server, client):
    limit = asyncio.timeout(None)

    async def run():
        async with limit:
            await client.run("click")

    running = asyncio.create_task(run())
    await settled(server, 1)
    await client.stats()
    limit.reschedule(asyncio.get_running_loop().time())
    with pytest.raises(TimeoutError):
        await running
    assert await states(client) == [TaskState.CANCELLED]


async def test_a_run_leaves_its_task_if_asked_to(server, client):
    running = asyncio.create_task(client.run("click", cancel_on_exit=False))
    await settled(server, 1)
    await client.stats()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await client.stats()
    assert await states(client) == [TaskState.QUEUED]


async def test_a_task_whose_answer_was_on_its_way_is_cancelled_when_it_comes(server, open_client, client):
    leaving = open_client(server)
    server.service.mute = True
    running = asyncio.create_task(leaving.run("click"))
    await settled(server, 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    # The answer comes over another stream, since this one stays mute.
    await server.stop()
    server.service.mute = False
    await server.start()
    await leaving.close()
    assert await states(client) == [TaskState.CANCELLED]


@pytest.mark.parametrize(("cancel_on_exit", "state"), [(False, TaskState.QUEUED), (True, TaskState.CANCELLED)])
async def test_a_submitted_task_outlives_its_client_unless_told_otherwise(
    server, open_client, client, cancel_on_exit, state
):
    leaving = open_client(server)
    await leaving.submit("click", cancel_on_exit=cancel_on_exit)
    await leaving.close()
    assert await states(client) == [state]
