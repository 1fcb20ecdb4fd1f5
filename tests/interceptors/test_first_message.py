"""A call whose message does not come is refused: at once where the stream ends, else after a while."""

import asyncio
from typing import Any

import grpc
import pytest

from taskyard_server.core.errors import BadRequest
from taskyard_server.interceptors.first_message import NO_MESSAGE, FirstMessages


class Caller:
    """The context of a call, whose caller sends `message` when it is told to."""

    def __init__(self, message: Any) -> None:
        self._message = message
        self.sends = asyncio.Event()

    async def read(self) -> Any:
        await self.sends.wait()
        return self._message


async def test_a_stream_that_ends_without_a_message_is_refused_at_once() -> None:
    caller: Any = Caller(grpc.aio.EOF)
    caller.sends.set()
    with pytest.raises(BadRequest, match=NO_MESSAGE):
        await FirstMessages().read(caller)


async def test_a_message_that_does_not_come_is_waited_for_so_long_and_each_has_its_own_time() -> None:
    messages = FirstMessages(0.01)
    silent: list[Any] = [Caller(b"late") for _ in range(3)]
    reads = []
    for each in silent:
        reads.append(asyncio.create_task(messages.read(each)))
        await asyncio.wait(reads[:1] if len(reads) == 1 else [asyncio.create_task(asyncio.sleep(0))])
    told = await asyncio.gather(*reads, return_exceptions=True)
    assert [str(each) for each in told] == ["request: its message did not come within 0.01 s"] * 3
    # The time of those that were late is over: the next one has its own.
    caller: Any = Caller(b"soon")
    caller.sends.set()
    assert await messages.read(caller) == b"soon"


async def test_a_caller_that_hangs_up_is_not_taken_for_a_late_one() -> None:
    caller: Any = Caller(b"never")
    read = asyncio.create_task(FirstMessages(3600).read(caller))
    await asyncio.sleep(0)
    read.cancel()
    with pytest.raises(asyncio.CancelledError):
        await read
