"""The proxy with which tests break paths passes bytes as they are, and breaks them in each way that it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from .proxy import Proxy

DELAY_SECS = 0.2
SILENCE_SECS = 0.3


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """One before a server that answers each line by the same line."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    proxy = Proxy(server.sockets[0].getsockname())
    await proxy.start()
    yield proxy
    await proxy.stop()
    server.close()


class Caller:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def say(self, text: str) -> str:
        self.writer.write(f"{text}\n".encode())
        return (await self.reader.readline()).decode().strip()


async def caller(proxy: Proxy) -> Caller:
    return Caller(*await asyncio.open_connection("127.0.0.1", proxy.port))


async def is_broken(caller: Caller) -> bool:
    try:
        return not await caller.say("are you there?")
    except ConnectionError:
        return True


async def test_bytes_pass_and_an_end_is_passed_on(proxy: Proxy) -> None:
    one = await caller(proxy)
    assert await one.say("x" * 30_000) == "x" * 30_000
    one.writer.write_eof()
    assert await one.reader.read() == b""


async def test_a_reset_breaks_what_is_open_and_nothing_later(proxy: Proxy) -> None:
    one = await caller(proxy)
    assert await one.say("a") == "a"
    proxy.reset()
    assert await is_broken(one)
    assert await (await caller(proxy)).say("b") == "b"


async def test_nobody_gets_through_where_all_are_refused_until_it_is_healed(proxy: Proxy) -> None:
    one = await caller(proxy)
    await one.say("a")
    proxy.refuse()
    assert await is_broken(one)
    assert await is_broken(await caller(proxy))
    proxy.heal()
    assert await (await caller(proxy)).say("b") == "b"


@pytest.mark.parametrize("lossless", [True, False])
async def test_a_silence_is_not_told_and_ends_with_a_reset_or_without_loss(proxy: Proxy, lossless: bool) -> None:
    one = await caller(proxy)
    await one.say("a")
    proxy.silence()
    answer = asyncio.create_task(one.say("b"))
    other = asyncio.create_task((await caller(proxy)).say("c"))
    done, _ = await asyncio.wait({answer, other}, timeout=SILENCE_SECS)
    assert not done
    proxy.heal(lossless=lossless)
    if lossless:
        assert (await answer, await other) == ("b", "c")
    else:
        results = await asyncio.gather(answer, other, return_exceptions=True)
        assert not any(isinstance(result, str) and result for result in results)


async def test_a_slow_path_takes_its_time_each_way_and_keeps_the_order(proxy: Proxy) -> None:
    one = await caller(proxy)
    proxy.delay_secs = DELAY_SECS
    clock = asyncio.get_running_loop().time
    began = clock()
    for number in range(5):
        one.writer.write(f"{number}\n".encode())
        await asyncio.sleep(0)
    assert [(await one.reader.readline()).strip() for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
    assert clock() - began >= 2 * DELAY_SECS


async def test_a_silent_proxy_can_be_stopped(proxy: Proxy) -> None:
    one = await caller(proxy)
    await one.say("a")
    proxy.silence()
    one.writer.write(b"b\n")
    await asyncio.sleep(0)
    await proxy.stop()
    assert await is_broken(one)
