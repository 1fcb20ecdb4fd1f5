"""Floods a port with frames that no HTTP/2 client sends, as a process of its own: `flooder.py KIND HOST PORT SECS`.

It opens a new connection whenever it loses one. It says when it has the first, and after its time, or at SIGTERM, how
many connections it had and how many frames it sent.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeAlias

from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
METHOD: Final = "/taskyard.v1.TaskService/GetTask"
BURST: Final = 200
FLOODERS: Final = 4
SLOW: Final = 200
DRIP_SECS: Final = 0.2

Flood: TypeAlias = "Callable[[], Iterator[bytes]]"


def block() -> bytes:
    """The header block of a call; nothing in it is to be remembered."""
    fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", METHOD),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]
    return bytes(Encoder().encode([(name, value, True) for name, value in fields]))


BLOCK: Final = block()


def streams() -> Iterator[int]:
    """The numbers of streams."""
    yield from range(1, 2**31 - 1, 2)


def headers(stream: int, *flags: str) -> bytes:
    """A HEADERS frame of a call."""
    return HeadersFrame(stream, BLOCK, flags=list(flags)).serialize()


def opened(*frames: Frame) -> bytes:
    """What begins a connection, and these frames."""
    return PREFACE + SettingsFrame(0).serialize() + b"".join(frame.serialize() for frame in frames)


def rapid_reset() -> Iterator[bytes]:
    """Calls that are cancelled at once."""
    yield opened()
    for stream in streams():
        yield headers(stream, "END_HEADERS") + RstStreamFrame(stream, error_code=8).serialize()


def made_reset() -> Iterator[bytes]:
    """Calls that the other side resets, since they break a rule."""
    yield opened()
    for stream in streams():
        yield headers(stream, "END_HEADERS") + WindowUpdateFrame(stream, window_increment=2**31 - 1).serialize()


def continuation() -> Iterator[bytes]:
    """A header block that never ends."""
    yield opened() + headers(1)
    while True:
        yield ContinuationFrame(1, bytes(Encoder().encode([("x-more", "x" * 1000, True)]))).serialize()


def settings() -> Iterator[bytes]:
    """Settings, each of which is to be acknowledged."""
    yield opened()
    while True:
        yield SettingsFrame(0, {SettingsFrame.HEADER_TABLE_SIZE: 4096}).serialize()


def pings() -> Iterator[bytes]:
    """Pings, each of which is to be answered."""
    yield opened()
    while True:
        yield PingFrame(0, b"x" * 8).serialize()


def empty_data() -> Iterator[bytes]:
    """A body of nothing, which never ends."""
    yield opened() + headers(1, "END_HEADERS")
    while True:
        yield DataFrame(1, b"").serialize()


def priorities() -> Iterator[bytes]:
    """Priorities of streams that do not exist."""
    yield opened()
    for stream in streams():
        yield PriorityFrame(stream + 2, depends_on=0, stream_weight=1).serialize()


def windows() -> Iterator[bytes]:
    """Windows that grow by a byte."""
    yield opened() + headers(1, "END_HEADERS")
    while True:
        yield WindowUpdateFrame(0, window_increment=1).serialize()


def garbage() -> Iterator[bytes]:
    """No HTTP at all."""
    while True:
        yield b"\x16\x03\x01\xff\0" * 200


def slow_headers() -> Iterator[bytes]:
    """A header block that arrives byte by byte."""
    yield opened() + headers(1)[:9]
    for byte in BLOCK:
        yield bytes([byte])


def slow_lines() -> Iterator[bytes]:
    """Headers of HTTP/1.1 that arrive byte by byte."""
    for byte in b"GET /tasks HTTP/1.1\r\nhost: localhost\r\nx-more: " + b"x" * 10_000:
        yield bytes([byte])


def slow_body() -> Iterator[bytes]:
    """Some calls whose messages arrive byte by byte."""
    calls = range(1, 10, 2)
    yield opened() + b"".join(headers(stream, "END_HEADERS") for stream in calls)
    while True:
        for stream in calls:
            yield DataFrame(stream, b"\0").serialize()


def idle() -> Iterator[bytes]:
    """Connections that say nothing."""
    yield b""


FAST: Final[dict[str, Flood]] = {
    "rapid_reset": rapid_reset,
    "made_reset": made_reset,
    "continuation": continuation,
    "settings": settings,
    "pings": pings,
    "empty_data": empty_data,
    "priorities": priorities,
    "windows": windows,
    "garbage": garbage,
}
SLOWLY: Final[dict[str, Flood]] = {
    "slow_headers": slow_headers,
    "slow_lines": slow_lines,
    "slow_body": slow_body,
    "idle": idle,
}
KINDS: Final = (*FAST, *SLOWLY)


class Flooder:
    """Keeps some connections flooded."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self.connections = self.frames = 0

    async def flood(self, frames: Flood, pause_secs: float, burst: int) -> None:
        """Flood one connection after the other until cancelled."""
        while True:
            with contextlib.suppress(OSError):
                await self._one(frames, pause_secs, burst)
            await asyncio.sleep(0.01)

    async def _one(self, frames: Flood, pause_secs: float, burst: int) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        self.connections += 1
        if self.connections == 1:
            print("connected", flush=True)
        reading = asyncio.create_task(self._drain(reader))
        try:
            waiting: list[bytes] = []
            for frame in frames():
                waiting.append(frame)
                if len(waiting) < burst:
                    continue
                writer.write(b"".join(waiting))
                self.frames += len(waiting)
                waiting.clear()
                await writer.drain()
                await asyncio.sleep(pause_secs)
                if reading.done():
                    return
            await reading
        finally:
            reading.cancel()
            writer.close()

    async def _drain(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while await reader.read(65_536):
                pass


async def main(kind: str, host: str, port: int, secs: float) -> None:
    """Flood for some seconds, or until SIGTERM."""
    flooder = Flooder(host, port)
    how: list[Awaitable[None]] = (
        [flooder.flood(FAST[kind], 0, BURST) for _ in range(FLOODERS)]
        if kind in FAST
        else [flooder.flood(SLOWLY[kind], DRIP_SECS, 1) for _ in range(SLOW)]
    )
    flooding = asyncio.gather(*how)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, flooding.cancel)
    with contextlib.suppress(TimeoutError, asyncio.CancelledError):
        async with asyncio.timeout(secs):
            await flooding
    print(f"{flooder.connections} connections, {flooder.frames} frames")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
