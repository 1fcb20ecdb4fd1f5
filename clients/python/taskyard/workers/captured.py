"""File descriptors 1 and 2 of a worker process and of all that it starts, as its host reads them.

The host has the other ends of the pipes, so that nothing is lost that was written before a crash.
"""

import asyncio
import codecs
import fcntl
import os
import struct
import termios
from collections.abc import Awaitable, Callable
from typing import Final

from .redirected import Ends

CHANNELS: Final = ("stdout", "stderr")
READ_BYTES: Final = 65_536
INT: Final = struct.Struct("i")


class CapturedOutput:
    """The pipes of one worker. Create it in the event loop.

    Args:
        say: Takes what is written, text or bytes that are none, with its channel; nothing is read before it returns.
    """

    def __init__(self, say: Callable[[str, str | bytes], Awaitable[None]]) -> None:
        self._say = say
        self._loop = asyncio.get_running_loop()
        self._pipes: list[_Pipe] = []
        self._reading = asyncio.Lock()
        self._pumps: list[asyncio.Task[None]] = []

    def open(self) -> Ends:
        """Open the pipes.

        Returns:
            The ends to write to, which the caller closes.
        """
        ends = []
        for channel in CHANNELS:
            pipe, end = os.pipe()
            os.set_blocking(pipe, False)
            self._pipes.append(_Pipe(pipe, channel))
            ends.append(end)
        self._pumps = [self._loop.create_task(self._pump(pipe)) for pipe in self._pipes]
        return ends[0], ends[1]

    async def drain(self) -> None:
        """Read all that was written before now. What a process writes that was left behind is not waited for."""
        async with self._reading:
            for pipe in self._pipes:
                left = pipe.bytes_left()
                while left > 0 and (count := await self._read(pipe)):
                    left -= count
                for part in pipe.decode(b"", is_last=True):
                    await self._say(pipe.channel, part)

    def close(self) -> None:
        """Read no more."""
        for pump in self._pumps:
            pump.cancel()
        for pipe in self._pipes:
            self._loop.remove_reader(pipe.number)
            os.close(pipe.number)
        self._pipes.clear()

    async def _pump(self, pipe: "_Pipe") -> None:
        while True:
            await self._until_readable(pipe)
            async with self._reading:
                if await self._read(pipe) == 0:
                    return

    async def _until_readable(self, pipe: "_Pipe") -> None:
        readable = asyncio.Event()
        self._loop.add_reader(pipe.number, readable.set)
        try:
            await readable.wait()
        finally:
            # Its number may be another file's by now.
            if pipe in self._pipes:
                self._loop.remove_reader(pipe.number)

    async def _read(self, pipe: "_Pipe") -> int | None:
        """Read once. How many bytes there were, 0 at the end of the pipe; None if there is nothing now."""
        try:
            data = os.read(pipe.number, READ_BYTES)
        except BlockingIOError:
            return None
        for part in pipe.decode(data):
            await self._say(pipe.channel, part)
        return len(data)


class _Pipe:
    """One of the pipes, and the beginning of a character whose end has not come."""

    def __init__(self, number: int, channel: str) -> None:
        self.number = number
        self.channel = channel
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def bytes_left(self) -> int:
        """How many bytes there are to read now."""
        count: tuple[int] = INT.unpack(fcntl.ioctl(self.number, termios.FIONREAD, bytes(INT.size)))
        return count[0]

    def decode(self, data: bytes, is_last: bool = False) -> list[str | bytes]:
        """Written bytes as text; as bytes if they are none."""
        begun, _ = self._decoder.getstate()
        try:
            text = self._decoder.decode(data, is_last)
        except UnicodeDecodeError:
            self._decoder.reset()
            return [begun + data]
        return [text] if text else []
