"""Calls between a parent and a process."""

import asyncio
import socket

import pytest

from taskyard_server.process_channel import Channel, ChannelClosed


class Expected(Exception):
    pass


@pytest.fixture
async def ends():
    """Both ends, and what the second one was told."""
    heard = []

    async def serve(method, arguments):
        heard.append((method, arguments))
        if method == "refuse":
            raise Expected("not now")
        if method == "wait":
            await asyncio.Event().wait()
        return list(arguments)

    channels = [Channel(serve, {"Expected": Expected}) for _ in range(2)]
    for channel, end in zip(channels, socket.socketpair(), strict=True):
        await channel.open(end)
    running = [asyncio.create_task(channel.run()) for channel in channels]
    yield channels[0], channels[1], heard
    for channel in channels:
        channel.close()
    await asyncio.gather(*running)


async def test_calls_go_both_ways_and_are_begun_in_their_order(ends):
    one, other, heard = ends
    assert await asyncio.gather(*(one.call("echo", number, b"x" * 100_000) for number in range(9))) == [
        [number, b"x" * 100_000] for number in range(9)
    ]
    assert [arguments[0] for _, arguments in heard] == list(range(9))
    assert await other.call("echo", None) == [None]


async def test_what_was_raised_there_is_raised_here(ends):
    one, _, _ = ends
    with pytest.raises(Expected, match="not now"):
        await one.call("refuse")


async def test_who_waits_learns_that_the_other_end_has_gone(ends):
    one, other, _ = ends
    waiting = asyncio.create_task(one.call("wait"))
    await one.call("echo")
    other.close()
    with pytest.raises(ChannelClosed):
        await waiting
    with pytest.raises(ChannelClosed):
        await one.call("echo")
    one.tell("echo")
