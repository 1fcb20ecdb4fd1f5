"""A TCP proxy between a host and the server: it cuts connections, refuses new ones, and swallows what hosts write."""

import asyncio
import contextlib


class Cutter:
    """Listens on a port of its own and forwards to `port`.

    Cut connections end with a reset on both sides. `swallowing` is set once the proxy withholds what hosts write.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._server: asyncio.Server
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._marker: bytes | None = None
        self._refuses = False
        self.swallowing = asyncio.Event()

    async def open(self) -> str:
        """Listen. Returns the address to connect to."""
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """Cut all connections and stop listening."""
        self._server.close()
        self.cut()

    def cut(self, *, refuse: bool = False) -> int:
        """Cut all connections. With `refuse`, new ones are cut too until `restore`. Returns how many were cut."""
        self._refuses = refuse
        pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            for writer in pair:
                writer.transport.abort()
        return len(pairs)

    def swallow_from(self, text: str) -> None:
        """Swallow what hosts write from the first chunk that contains this text, until `restore`."""
        self._marker = text.encode()
        self.swallowing.clear()

    def restore(self) -> None:
        """Forward new connections again, and everything that is written on them."""
        self._marker = None
        self._refuses = False
        self.swallowing.clear()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.transport.abort()
            return
        pair = (writer, far_writer)
        self._pairs.add(pair)
        await asyncio.gather(
            self._pump(reader, far_writer, from_host=True), self._pump(far_reader, writer, from_host=False)
        )
        self._pairs.discard(pair)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, from_host: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if from_host and self._swallows(data):
                    continue
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()

    def _swallows(self, data: bytes) -> bool:
        if self._marker is not None and self._marker in data:
            self.swallowing.set()
        return self.swallowing.is_set()
