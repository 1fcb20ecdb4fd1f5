"""A TCP proxy between a host and the server, whose connections can be cut at any moment."""

import asyncio
import contextlib


class Cutter:
    """Listens on a port of its own and forwards to `port`. Cut connections end without a word to either side."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._server: asyncio.Server
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()

    async def open(self) -> str:
        """Listen; the address to connect to."""
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """Cut everything, and listen no more."""
        self._server.close()
        self.cut()

    def cut(self) -> int:
        """Cut what is connected; how many connections that were."""
        pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            for writer in pair:
                writer.transport.abort()
        return len(pairs)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.transport.abort()
            return
        pair = (writer, far_writer)
        self._pairs.add(pair)
        await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        self._pairs.discard(pair)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()
