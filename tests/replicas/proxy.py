"""A proxy of TCP that a test can break: it drops silently, resets, refuses, or is slow; one for each path to be broken.

Between a replica and its database, or between two gateways. Bytes go through as they come otherwise.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from contextlib import suppress
from typing import Final

from tests.ports import free_port

CHUNK: Final = 65_536
MOST_WAITING: Final = 4 << 20
"""Bytes of a direction that a slow or silent path holds, as a network would."""
RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER with which a close sends a reset."""


class Proxy:
    """Passes connections to `target`, (host, port), on `port` of the loopback interface.

    `target` may change: new connections go to the new one. Start it, and stop it in the end.
    """

    def __init__(self, target: tuple[str, int], port: int | None = None) -> None:
        self.target = target
        self.port = port or free_port()
        self.delay_secs = 0.0
        """How long bytes are on their way, each way; for connections that are open, too."""
        self.connections = 0
        """How many have been made so far."""
        self._passing = asyncio.Event()
        self._passing.set()
        self._refusing = False
        self._server: asyncio.Server | None = None
        self._pairs: set[_Pair] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def stop(self) -> None:
        """Reset all connections and listen no more."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.reset()
        await asyncio.gather(*(pair.closed.wait() for pair in set(self._pairs)))

    def silence(self) -> None:
        """Pass nothing on from now on, and tell nobody: new connections are accepted, and hear nothing."""
        self._passing.clear()

    def reset(self) -> None:
        """Break all connections that are open."""
        for pair in set(self._pairs):
            pair.reset()

    def refuse(self) -> None:
        """Break all connections that are open, and each new one."""
        self._refusing = True
        self.reset()

    def heal(self, *, lossless: bool = False) -> None:
        """Be a good path again.

        What was held back by a silence is lost with its connections, which are reset, as after a time-out; unless
        `lossless`: then it arrives late, as it does by TCP after a short cut.
        """
        self.delay_secs = 0.0
        self._refusing = False
        if not self._passing.is_set() and not lossless:
            self.reset()
        self._passing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        pair = _Pair(writer)
        self._pairs.add(pair)
        try:
            if not self._refusing:
                await self._passing.wait()
                await self._join(pair, reader, writer)
        except (OSError, asyncio.CancelledError, ExceptionGroup):
            pass
        finally:
            pair.close()
            self._pairs.discard(pair)

    async def _join(self, pair: _Pair, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect to the target, and pass bytes both ways until both sides have ended or one breaks."""
        other_reader, other_writer = await asyncio.open_connection(*self.target)
        pair.writers.append(other_writer)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._carry(reader, other_writer))
            tasks.create_task(self._carry(other_reader, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass bytes one way until the end; each chunk waits its time from when it came, so that none overtakes."""
        loop = asyncio.get_running_loop()
        waiting: deque[tuple[float, bytes]] = deque()
        came, room = asyncio.Event(), asyncio.Event()
        room.set()

        async def deliver() -> None:
            while True:
                while not waiting:
                    came.clear()
                    await came.wait()
                at, data = waiting[0]
                await asyncio.sleep(max(0.0, at - loop.time()))
                await self._passing.wait()
                waiting.popleft()
                room.set()
                if not data:
                    with suppress(OSError):
                        writer.write_eof()
                    return
                writer.write(data)
                await writer.drain()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(deliver())
            while True:
                data = await reader.read(CHUNK)
                waiting.append((loop.time() + self.delay_secs, data))
                came.set()
                if not data:
                    return
                while sum(len(each) for _, each in waiting) > MOST_WAITING:
                    room.clear()
                    await room.wait()


class _Pair:
    """The two sides of one connection, and the task that passes its bytes."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.closed = asyncio.Event()
        self.writers = [writer]
        self._task = asyncio.current_task()

    def reset(self) -> None:
        """Break it."""
        if self._task is not None:
            self._task.cancel()

    def close(self) -> None:
        """Close both sides in such a way that they see a reset, unless they have ended in order before."""
        for writer in self.writers:
            with suppress(OSError):
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.transport.abort()
        self.closed.set()
