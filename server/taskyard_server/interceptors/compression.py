"""Opens compressed messages, up to a limit. grpc itself opens them whole before it looks how long they are.

That would let anybody fill the memory, without a credential: 16 MB of gzip may be 16 GB. So grpc is told to leave
messages as they came, and to take gzip alone, whose first byte begins no message: protobuf has no such wire type.
"""

import zlib
from typing import Any, Final

LEFT_AS_THEY_COME: Final[tuple[tuple[str, Any], ...]] = (
    ("grpc.per_message_decompression", 0),
    # A bit for each of grpc's algorithms: none is 0, deflate 1, gzip 2.
    ("grpc.compression_enabled_algorithms_bitset", 0b101),
)
"""The options of a server whose messages are read with `uncompressed`."""
GZIP: Final = b"\x1f\x8b"
GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS


class BadCompression(Exception):
    """Bytes that begin as gzip does and are no whole gzip."""


def uncompressed(data: bytes, most: int) -> bytes | None:
    """A message as it was before it was compressed, if it was; None if that is longer than `most` bytes.

    What came without compression is returned as it is, however long. Raises `BadCompression`.
    """
    if not data.startswith(GZIP):
        return data
    reader = zlib.decompressobj(GZIP_WINDOW)
    try:
        message = reader.decompress(data, most + 1)
    except zlib.error:
        raise BadCompression from None
    if len(message) > most:
        return None
    if not reader.eof or reader.unused_data:
        raise BadCompression
    return message
