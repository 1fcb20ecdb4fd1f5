"""Reading output from a real server: what follows a break, a restart and chunks that were dropped."""

import asyncio
from contextlib import aclosing

import pytest

from taskyard import NotFound, SyncClient, Unavailable
from taskyard.failures import TaskLost
from tests.waiting import LIMIT_SECS


@pytest.fixture
async def running(server, client):
    """A task that runs: its handle and its lease."""
    handle = await client.submit("work")
    return handle, await server.run()


async def data_of(chunks, count):
    """What the next chunks say."""
    async with asyncio.timeout(LIMIT_SECS):
        return [(await anext(chunks)).data for _ in range(count)]


async def rest_of(chunks):
    """What all further chunks say."""
    async with asyncio.timeout(LIMIT_SECS):
        return [chunk.data async for chunk in chunks]


async def test_without_following_it_ends_with_what_is_kept_now(server, client, running):
    _, lease = running
    await server.say(lease, 1, "a", "b")
    assert await rest_of(client.output(lease.task.id)) == ["a", "b"]
    assert await rest_of(client.output(lease.task.id, after=1)) == ["b"]
    assert await rest_of(client.output(lease.task.id, after=2)) == []


async def test_repeated_breaks_of_the_connection_neither_lose_nor_repeat_chunks(server, running, open_client, wire):
    _, lease = running
    breaks, between = 5, 20

    async def say_and_cut():
        for number in range(1, breaks * between + 1):
            await server.say(lease, number, f"{number}")
            if number % between == between // 2:
                wire.cut()
                await asyncio.sleep(0)
        await server.complete(lease)

    async with aclosing(open_client(wire).output(lease.task.id, follow=True)) as chunks:
        saying = asyncio.create_task(say_and_cut())
        assert await rest_of(chunks) == [f"{number}" for number in range(1, breaks * between + 1)]
        await saying


async def test_it_goes_on_when_the_server_serves_again(server, running):
    handle, lease = running
    await server.say(lease, 1, "a")
    async with aclosing(handle.output()) as chunks:
        assert await data_of(chunks, 1) == ["a"]
        await server.stop()
        await server.say(lease, 2, "b")
        await server.start()
        assert await data_of(chunks, 1) == ["b"]
        await server.say(lease, 3, "c")
        await server.complete(lease)
        assert await rest_of(chunks) == ["c"]


async def test_an_outage_that_is_longer_than_the_patience_is_an_error(server, running, open_client):
    _, lease = running
    await server.say(lease, 1, "a")
    async with aclosing(open_client(server, patience=0.05).output(lease.task.id, follow=True)) as chunks:
        assert await data_of(chunks, 1) == ["a"]
        await server.stop()
        with pytest.raises(Unavailable):
            await data_of(chunks, 1)


async def test_a_server_that_has_lost_the_task_says_so(server, open_server, open_client, wire):
    client = open_client(wire)
    handle = await client.submit("work")
    lease = await server.run()
    await server.say(lease, 1, "a")
    async with aclosing(handle.output()) as chunks:
        assert await data_of(chunks, 1) == ["a"]
        wire.lead_to(await open_server())
        with pytest.raises(TaskLost):
            await data_of(chunks, 1)
    with pytest.raises(NotFound):
        await rest_of(client.output(handle.id))


async def test_only_the_channels_that_are_asked_for_come(server, client, running):
    _, lease = running
    await server.say(lease, 1, "a", channel="log")
    await server.say(lease, 2, "b")
    await server.say(lease, 3, "c", channel="stderr")
    assert await rest_of(client.output(lease.task.id, channels=["log", "stderr"])) == ["a", "c"]
    with pytest.raises(TypeError, match="not one channel"):
        client.output(lease.task.id, channels="log")


async def test_chunks_that_were_dropped_to_make_room_are_counted(open_server, open_client, caplog):
    server = await open_server(max_output_bytes=1_600)
    client = open_client(server)
    handle = await client.submit("work")
    lease = await server.run()
    for number in range(1, 41):
        await server.say(lease, number, "x" * 90)
        # What comes in one turn is kept together.
        await client.get(handle.id)
    await server.complete(lease)
    dropped = []
    async with asyncio.timeout(LIMIT_SECS):
        numbers = [chunk.sequence async for chunk in handle.output(on_dropped=dropped.append)]
    assert dropped == [numbers[0] - 1]
    assert numbers[0] > 20
    assert numbers == list(range(numbers[0], 41))
    await rest_of(handle.output())
    assert f"{numbers[0] - 1} chunks of its output were dropped to make room" in caplog.text


async def test_the_blocking_client_reads_too(server, running):
    _, lease = running
    await server.say(lease, 1, "a", "b")
    await server.complete(lease)

    def read():
        with SyncClient(server.address) as client:
            handle = client.handle(lease.task.id)
            return [chunk.data for chunk in client.output(lease.task.id)], [chunk.data for chunk in handle.output()]

    assert await asyncio.to_thread(read) == (["a", "b"], ["a", "b"])
