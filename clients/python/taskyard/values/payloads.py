"""Typed values on the wire: how an input or output becomes JSON and comes back (docs/rules.md, Payloads).

A value travels as plain JSON in `params` and `result` wherever these hold it exactly, so that REST and other languages
see it; else as a payload, whose bytes are JSON or what a codec made of it. Types are read as FastAPI does: times,
UUIDs, bytes and the like are texts in JSON. `msgspec` reads dataclasses, TypedDicts, its Structs and JSON types; models
of pydantic, also within others, are read by themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

import msgspec

from taskyard.v1 import task_pb2

from .convert import MAX_EXACT
from .shapes import BadValue as BadValue
from .shapes import shape_of

MAX_DEPTH: Final = 30
"""The most levels of objects and lists that `params` and `result` may have."""
LONG_NUMBER: Final = re.compile(rb"[0-9]{16}")
"""A sign that JSON contains if a whole number in it is beyond 2^53."""


class Missing(Enum):
    """The type of `MISSING`."""

    MISSING = "MISSING"

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing.MISSING
"""There is no plain value, for it is in the payload."""


class Codec(Protocol):
    """Turns the JSON of inputs and outputs into other bytes and back, at both ends: encryption, compression.

    Attributes:
        name: The name that stands on the wire, at most 64 characters. Who reads a payload needs the codec of its name.
    """

    @property
    def name(self) -> str:
        """The name that stands on the wire."""

    def encode(self, data: bytes, /) -> bytes:
        """Encode the JSON of a value.

        Args:
            data: The JSON, in UTF-8.

        Returns:
            What is sent.
        """

    def decode(self, data: bytes, /) -> bytes:
        """Decode what was encoded.

        Args:
            data: What was sent.

        Returns:
            The JSON.

        Raises:
            Exception: It was not encoded by this codec, or with another key.
        """


class RawPayload(Protocol):
    """The parts of a payload: the message of the API has it, and `Payload` too."""

    @property
    def data(self) -> bytes:
        """The bytes."""

    @property
    def encoding(self) -> str | None:
        """The name of the codec; none or empty if they are JSON."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A value as the server keeps it, where `params` or `result` could not hold it exactly.

    Attributes:
        data: The bytes.
        encoding: The name of the codec that made them. None: they are JSON in UTF-8.
    """

    data: bytes
    encoding: str | None = None

    @classmethod
    def from_message(cls, message: task_pb2.Payload) -> Payload:
        """Convert a message.

        Args:
            message: The payload as the server sends it.

        Returns:
            The payload.
        """
        return cls(message.data, message.encoding or None)

    def to_message(self) -> task_pb2.Payload:
        """Convert to a message.

        Returns:
            The payload.
        """
        return task_pb2.Payload(data=self.data, encoding=self.encoding)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A value for the wire. Exactly one of the two is set.

    Attributes:
        plain: The value as plain JSON; None is no value at all. `MISSING` if it is in the payload.
        payload: The payload.
    """

    plain: Any = MISSING
    payload: task_pb2.Payload | None = None


def encode_value(value: Any, kind: Any, codec: Codec | None, *, is_object: bool) -> Encoded:
    """Encode an input or output.

    Args:
        value: The value.
        kind: Its type, `Any` for any JSON.
        codec: The codec, None for none. With one the value is always in the payload.
        is_object: Whether the plain form must be a JSON object, as `params` must.

    Returns:
        The value for the wire.

    Raises:
        BadValue: The value does not fit the type.
        TypeError: The type is none that can be sent.
    """
    shape = shape_of(kind)
    data = shape.write(value)
    if codec is not None:
        return Encoded(payload=task_pb2.Payload(data=codec.encode(data), encoding=codec.name))
    if data == b"null" and (not is_object or kind is None or kind is type(None)):
        return Encoded(plain=None)
    plain = msgspec.json.decode(data)
    is_deep = data.count(b"{") + data.count(b"[") > MAX_DEPTH and _depth(plain) > MAX_DEPTH
    if is_deep or (is_object and not isinstance(plain, dict)) or (LONG_NUMBER.search(data) and not is_exact(plain)):
        return Encoded(payload=task_pb2.Payload(data=data))
    return Encoded(plain=plain)


def decode_value(kind: Any, plain: Any, payload: RawPayload | None, codec: Codec | None) -> Any:
    """Decode an input or output.

    Args:
        kind: Its type, `Any` for any JSON.
        plain: The plain value, None or `MISSING` if there is none. Not read if there is a payload.
        payload: The payload, None if there is none.
        codec: The codec, None for none.

    Returns:
        The value.

    Raises:
        BadValue: The value does not fit the type; it was encoded by a codec that is not at hand, or cannot be read.
        TypeError: The type is none that can be sent.
    """
    shape = shape_of(kind)
    if payload is not None:
        return shape.read(json_of(payload, codec))
    if plain is MISSING or (shape.is_none and plain == {}):
        # Without an input there is an empty object where `params` stand.
        plain = None
    return shape.convert(plain)


def json_of(payload: RawPayload, codec: Codec | None) -> bytes:
    """Read the JSON of a payload.

    Args:
        payload: The payload.
        codec: The codec at hand, None for none.

    Returns:
        The JSON.

    Raises:
        BadValue: It was encoded by another codec, or the codec cannot read it.
    """
    if not payload.encoding:
        return payload.data
    if codec is None or codec.name != payload.encoding:
        at_hand = "no codec" if codec is None else f"the codec {codec.name!r}"
        raise BadValue(f"is encoded by {payload.encoding!r}, here is {at_hand}: give codec= to clients and hosts alike")
    try:
        return codec.decode(payload.data)
    except Exception as error:
        why = str(error) or type(error).__name__
        raise BadValue(f"the codec {codec.name!r} cannot read it, perhaps for another key: {why}") from error


def is_exact(plain: Any) -> bool:
    """Say whether all whole numbers of a JSON value are exact as a double, as `params` and `result` hold numbers.

    Args:
        plain: The value.

    Returns:
        Whether none is beyond 2^53.
    """
    if isinstance(plain, dict):
        return all(map(is_exact, plain.values()))
    if isinstance(plain, list):
        return all(map(is_exact, plain))
    return not isinstance(plain, int) or -MAX_EXACT <= plain <= MAX_EXACT


def _depth(plain: Any) -> int:
    """How many levels of objects and lists a JSON value has."""
    depth, level = 0, [plain]
    while level := [each for each in level if isinstance(each, (dict, list))]:
        depth += 1
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
    return depth
