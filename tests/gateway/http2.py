"""HTTP/2 by hand, as far as it takes to see which frames answer a request."""

import asyncio
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY = 0, 1, 3, 4, 7
END_STREAM, ACK, END_HEADERS = 0x1, 0x1, 0x4


class Http2:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._stream = -1
        writer.write(PREFACE + _frame(SETTINGS, 0, 0, b""))

    async def request(self, verb: str, path: str) -> tuple[bytes, bytes]:
        """Send a request without a body; the header block and the body of the response."""
        self._stream += 2
        fields = {":method": verb, ":scheme": "http", ":authority": "x", ":path": path}
        # Literals that neither side is to remember.
        block = b"".join(b"\0" + _text(name) + _text(value) for name, value in fields.items())
        self._writer.write(_frame(HEADERS, END_STREAM | END_HEADERS, self._stream, block))
        headers = body = b""
        while True:
            kind, flags, stream, payload = await self._read()
            assert kind not in (RST_STREAM, GOAWAY), "the server gave up"
            if kind == SETTINGS and not flags & ACK:
                self._writer.write(_frame(SETTINGS, ACK, 0, b""))
            if stream == self._stream and kind in (HEADERS, DATA):
                headers += payload if kind == HEADERS else b""
                body += payload if kind == DATA else b""
                if flags & END_STREAM:
                    return headers, body

    async def _read(self) -> tuple[int, int, int, bytes]:
        high, low, kind, flags, stream = struct.unpack(">BHBBI", await self._reader.readexactly(9))
        return kind, flags, stream, await self._reader.readexactly(high << 16 | low)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">BHBBI", len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream) + payload


def _text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()
