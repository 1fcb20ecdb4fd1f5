"""The few forms of protobuf's wire format that the messages of every task are made of.

See protobuf.dev/programming-guides/encoding. A message is written as a list of parts, which are joined once. Tags come
from the generated descriptors, so that no number of a field stands here or in `encoding.py`.
"""

from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

VARINT: Final = 0
LENGTH_FIRST: Final = 2
STRING: Final = 9
MESSAGE: Final = 11
"""The types of a field descriptor whose values follow their length."""

LAST: Final[list[bytes]] = [
    bytes([number]) if number < 128 else bytes([number & 127 | 128, number >> 7]) for number in range(1 << 14)
]
"""Each number of 14 bits as a varint."""
MORE: Final[list[bytes]] = [bytes([number & 127 | 128, number >> 7 | 128]) for number in range(1 << 14)]
"""The same where more follows."""

MAX_UINT32: Final = 2**32 - 1
"""Figures that may outgrow their field stay at it."""

SEEN_TIMES: Final = 4096
_times: Final[dict[float, bytes]] = {}


def tag(message: Any, field: str) -> bytes:
    """What stands before a value of this field of a message class."""
    descriptor: FieldDescriptor = message.DESCRIPTOR.fields_by_name[field]
    wire_type = LENGTH_FIRST if descriptor.type in (STRING, MESSAGE) else VARINT
    return LAST[descriptor.number << 3 | wire_type]


def nested(field: bytes, encoded: bytes) -> bytes:
    """A field that holds a message, given in its encoding."""
    parts = [field]
    add_varint(parts, len(encoded))
    parts.append(encoded)
    return b"".join(parts)


def add_varint(parts: list[bytes], number: int) -> None:
    """A number without its tag; a negative one as its complement in 64 bits."""
    if number < 0:
        number += 1 << 64
    while number >= 1 << 14:
        parts.append(MORE[number & (1 << 14) - 1])
        number >>= 14
    parts.append(LAST[number])


def add_text(parts: list[bytes], field: bytes, value: str) -> None:
    """A field that holds a string."""
    add_nested(parts, field, value.encode())


def add_nested(parts: list[bytes], field: bytes, encoded: bytes) -> None:
    """A field that holds a message or bytes."""
    parts.append(field)
    add_varint(parts, len(encoded))
    parts.append(encoded)


def add_timestamp(parts: list[bytes], field: bytes, at: float) -> None:
    """A field that holds a Timestamp: seconds since the epoch, to the microsecond."""
    parts.append(field)
    # Every time is said more than once, and those of one turn are the same.
    encoded = _times.get(at)
    if encoded is None:
        if len(_times) >= SEEN_TIMES:
            _times.clear()
        encoded = _times[at] = _timestamp(at)
    parts.append(encoded)


def micros(at: float) -> int:
    """Seconds as whole microseconds, the nearest."""
    return int(at * 1e6 + 0.5) if at >= 0 else -int(0.5 - at * 1e6)


def _timestamp(at: float) -> bytes:
    """Its length and its two fields, of which zeros are left out."""
    seconds, rest = divmod(micros(at), 1_000_000)
    parts: list[bytes] = []
    if seconds:
        parts.append(b"\x08")
        add_varint(parts, seconds)
    if rest:
        parts.append(b"\x10")
        add_varint(parts, rest * 1000)
    encoded = b"".join(parts)
    return LAST[len(encoded)] + encoded
