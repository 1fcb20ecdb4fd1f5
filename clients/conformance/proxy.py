"""A TCP proxy before a server, whose connections are all cut by an HTTP GET, and stay away for as long as that says."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

CHUNK_BYTES = 64 * 1024
ABORT = struct.pack("ii", 1, 0)
"""Linger for no time: closing sends a reset, as a peer that is gone would."""


@dataclass(slots=True)
class Proxy:
    """One that runs: `address` is `HOST:PORT`, a GET of `cut_url` breaks what goes through it.

    With `?ms=3000` it also refuses what comes within so many milliseconds.
    """

    upstream: str
    address: str = ""
    cut_url: str = ""
    _closed_until: float = 0.0
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    def cut(self, away_secs: float = 0.0) -> None:
        """Break all connections. New ones work after so many seconds."""
        self._closed_until = time.monotonic() + away_secs
        for writer in tuple(self._open):
            connection: socket.socket | None = writer.get_extra_info("socket")
            if connection is not None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
            writer.transport.abort()

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until either side ends it."""
        if time.monotonic() < self._closed_until:
            writer.transport.abort()
            return
        host, port = self.upstream.rsplit(":", 1)
        try:
            up_reader, up_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return
        ends = (writer, up_writer)
        self._open.update(ends)
        try:
            await asyncio.gather(_pump(reader, up_writer), _pump(up_reader, writer))
        finally:
            self._open.difference_update(ends)
            for end in ends:
                end.transport.abort()

    async def answer_cut(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One HTTP request, whatever its path."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            target = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode("ascii")
            milliseconds = parse_qs(urlsplit(target).query).get("ms", ["0"])[0]
            self.cut(int(milliseconds) / 1000)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ncut\n")
            await writer.drain()
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    # A connection that is cut fails in more ways than one.
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


@contextlib.asynccontextmanager
async def proxy_to(upstream: str) -> AsyncIterator[Proxy]:
    """A proxy to a server at `HOST:PORT`, on ports that are free."""
    proxy = Proxy(upstream)
    carrying = await asyncio.start_server(proxy.forward, "127.0.0.1", 0)
    cutting = await asyncio.start_server(proxy.answer_cut, "127.0.0.1", 0)
    proxy.address = f"127.0.0.1:{carrying.sockets[0].getsockname()[1]}"
    proxy.cut_url = f"http://127.0.0.1:{cutting.sockets[0].getsockname()[1]}/"
    try:
        yield proxy
    finally:
        carrying.close()
        cutting.close()
        proxy.cut()
