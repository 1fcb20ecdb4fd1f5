"""The subset of protobuf's wire format that the messages of every task use.

See protobuf.dev/programming-guides/encoding. A message is built as a list of parts, which is joined once. Tags come
from the generated descriptors, so neither this module nor `task_encoding.py` holds a field number.
"""

from struct import Struct
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

VARINT: Final = 0
FIXED64: Final = 1
LENGTH_DELIMITED: Final = 2
"""Wire types."""
DOUBLE: Final = 1
"""The type of field descriptors that is eight bytes on the wire."""
STRING: Final = 9
MESSAGE: Final = 11
"""Types of field descriptors that are length-delimited on the wire."""
_DOUBLES: Final = Struct("<d")

_BYTES: Final[list[bytes]] = [bytes([number]) for number in range(1 << 8)]
LAST: Final[list[bytes]] = _BYTES[:128] + [low + high for high in _BYTES[1:128] for low in _BYTES[128:]]
"""Each 14-bit number as a complete varint."""
CONTINUED: Final[list[bytes]] = [low + high for high in _BYTES[128:] for low in _BYTES[128:]]
"""Each 14-bit number as the first two bytes of a longer varint."""

MAX_UINT32: Final = 2**32 - 1
"""Numbers that outgrow a uint32 field are sent as this."""

TOO_LONG: Final = 1 << 60
"""A length beyond all that is read: what has it ends behind everything."""

MAX_CACHED_TIMES: Final = 4096
_encoded_times: Final[dict[float, bytes]] = {}


def tag(message: Any, field: str) -> bytes:
    """The tag of this field of a message class."""
    descriptor: FieldDescriptor = message.DESCRIPTOR.fields_by_name[field]
    wire_type = LENGTH_DELIMITED if descriptor.type in (STRING, MESSAGE) else VARINT
    if descriptor.type == DOUBLE:
        wire_type = FIXED64
    return LAST[descriptor.number << 3 | wire_type]


def nested(field: bytes, encoded: bytes) -> bytes:
    """A field that holds a message that is encoded already."""
    parts = [field]
    add_varint(parts, len(encoded))
    parts.append(encoded)
    return b"".join(parts)


def add_varint(parts: list[bytes], number: int) -> None:
    """Append a number without its tag; a negative one as its 64-bit two's complement."""
    if number < 0:
        number += 1 << 64
    while number >= 1 << 14:
        parts.append(CONTINUED[number & (1 << 14) - 1])
        number >>= 14
    parts.append(LAST[number])


def add_double(parts: list[bytes], field: bytes, number: float) -> None:
    """Append a field that holds a double."""
    parts.append(field)
    parts.append(_DOUBLES.pack(number))


def add_text(parts: list[bytes], field: bytes, value: str) -> None:
    """Append a field that holds a string."""
    add_nested(parts, field, value.encode())


def add_nested(parts: list[bytes], field: bytes, encoded: bytes) -> None:
    """Append a field that holds an encoded message or bytes."""
    parts.append(field)
    add_varint(parts, len(encoded))
    parts.append(encoded)


def add_timestamp(parts: list[bytes], field: bytes, at: float) -> None:
    """Append a field that holds a Timestamp: seconds since the epoch, rounded to the microsecond."""
    parts.append(field)
    # Each time is encoded several times, and all times of one turn of the event loop are equal.
    encoded = _encoded_times.get(at)
    if encoded is None:
        if len(_encoded_times) >= MAX_CACHED_TIMES:
            _encoded_times.clear()
        encoded = _encoded_times[at] = _encode_timestamp(at)
    parts.append(encoded)


def read_length(data: bytes, at: int) -> tuple[int, int]:
    """The length of a field at this offset, `TOO_LONG` for one from 2^28 on, and the offset after it.

    Raises `IndexError` at the end of the data.
    """
    number = data[at]
    at += 1
    if number >= 128:
        number &= 127
        shift = 7
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
            if shift > 21:
                return TOO_LONG, at
    return number, at


def to_microseconds(secs: float) -> int:
    """Seconds as microseconds, rounded to the nearest integer."""
    return int(secs * 1e6 + 0.5) if secs >= 0 else -int(0.5 - secs * 1e6)


def _encode_timestamp(at: float) -> bytes:
    """A Timestamp with its length in front. Fields that are zero are left out."""
    seconds, microseconds = divmod(to_microseconds(at), 1_000_000)
    parts: list[bytes] = []
    if seconds:
        parts.append(b"\x08")
        add_varint(parts, seconds)
    if microseconds:
        parts.append(b"\x10")
        add_varint(parts, microseconds * 1000)
    encoded = b"".join(parts)
    return LAST[len(encoded)] + encoded
