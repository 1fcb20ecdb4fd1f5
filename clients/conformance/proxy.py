"""A TCP proxy in front of a server. An HTTP GET cuts all connections, and may refuse new ones for a while."""

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
"""Linger for no time: closing sends a reset, as a crashed peer would."""


@dataclass(slots=True)
class Proxy:
    """A running proxy. `address` is its `HOST:PORT`; a GET of `cut_url` cuts all connections.

    With `?ms=3000` the GET also refuses new connections for that many milliseconds.
    """

    upstream: str
    address: str = ""
    cut_url: str = ""
    _refuses_until: float = 0.0
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    def cut(self, outage_secs: float = 0.0) -> None:
        """Cut all connections, and refuse new ones for a while."""
        self._refuses_until = time.monotonic() + outage_secs
        for writer in tuple(self._open):
            connection: socket.socket | None = writer.get_extra_info("socket")
            # One that has just ended by itself is closed, and not yet taken out.
            if connection is not None and connection.fileno() >= 0:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
            writer.transport.abort()

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection until either side ends it."""
        if time.monotonic() < self._refuses_until:
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
        """Answer one HTTP request, whatever its path."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            target = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode("ascii")
            milliseconds = parse_qs(urlsplit(target).query).get("ms", ["0"])[0]
            self.cut(int(milliseconds) / 1000)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ncut\n")
            await writer.drain()
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    # A cut connection fails in several ways.
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


@contextlib.asynccontextmanager
async def proxy_to(upstream: str) -> AsyncIterator[Proxy]:
    """Run a proxy to a server at `HOST:PORT`, on free ports."""
    proxy = Proxy(upstream)
    forwarding = await asyncio.start_server(proxy.forward, "127.0.0.1", 0)
    cutting = await asyncio.start_server(proxy.answer_cut, "127.0.0.1", 0)
    proxy.address = f"127.0.0.1:{forwarding.sockets[0].getsockname()[1]}"
    proxy.cut_url = f"http://127.0.0.1:{cutting.sockets[0].getsockname()[1]}/"
    try:
        yield proxy
    finally:
        forwarding.close()
        cutting.close()
        proxy.cut()
