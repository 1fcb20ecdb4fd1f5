"""HTTP/2 by hand, as far as it takes to see which frames answer a request."""

import asyncio
import struct
from collections.abc import Sequence
from typing import TypeAlias

Fields: TypeAlias = Sequence[tuple[str, str]]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY = 0, 1, 3, 4, 7
END_STREAM, ACK, END_HEADERS = 0x1, 0x1, 0x4


class Http2:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._stream = -1
        writer.write(PREFACE + _frame(SETTINGS, 0, 0, b""))

    async def request(
        self,
        verb: str,
        path: str,
        headers: Fields = (),
        body: bytes = b"",
        trailers: Fields = (),
        authority: str = "localhost",
    ) -> tuple[bytes, bytes]:
        """Send a request; the header blocks and the body of the response."""
        self._stream += 2
        fields = [(":method", verb), (":scheme", "http"), (":authority", authority), (":path", path), *headers]
        parts = [(HEADERS, END_HEADERS, _block(fields))]
        if body or trailers:
            parts.append((DATA, 0, body))
        if trailers:
            parts.append((HEADERS, END_HEADERS, _block(trailers)))
        for kind, flags, payload in parts[:-1]:
            self.send(kind, flags, self._stream, payload)
        kind, flags, payload = parts[-1]
        self.send(kind, flags | END_STREAM, self._stream, payload)
        return await self.answer_of(self._stream)

    def send(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        """Send a frame."""
        self._writer.write(_frame(kind, flags, stream, payload))

    async def answer_of(self, number: int) -> tuple[bytes, bytes]:
        """The header blocks and the body of the response to this stream."""
        blocks = content = b""
        while True:
            kind, flags, stream, payload = await self.read()
            # A request that was answered before its end may be reset when its answer is complete.
            is_reset = kind == RST_STREAM and stream == number
            assert not is_reset, "the server reset the request"
            assert kind != GOAWAY, "the server closed the connection"
            if kind == SETTINGS and not flags & ACK:
                self._writer.write(_frame(SETTINGS, ACK, 0, b""))
            if stream == number and kind in (HEADERS, DATA):
                blocks += payload if kind == HEADERS else b""
                content += payload if kind == DATA else b""
                if flags & END_STREAM:
                    return blocks, content

    async def read(self) -> tuple[int, int, int, bytes]:
        """The next frame: kind, flags, stream, payload."""
        high, low, kind, flags, stream = struct.unpack(">BHBBI", await self._reader.readexactly(9))
        return kind, flags, stream, await self._reader.readexactly(high << 16 | low)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">BHBBI", len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream) + payload


def _block(fields: Fields) -> bytes:
    # Literals that neither side is to remember.
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in fields)


def _text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()
