"""Typed values on the wire: how an input or output becomes JSON and comes back (docs/rules.md, Payloads).

A value travels as plain JSON in `params` and `result` wherever these hold it exactly, so that REST and other languages
see it; else as a payload, whose bytes are JSON or what a codec made of it. Types are read as FastAPI does: times,
UUIDs, bytes and the like are texts in JSON. `msgspec` reads dataclasses, TypedDicts, its Structs and JSON types; models
of pydantic, also within others, are read by themselves.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

import msgspec
from msgspec import inspect

from taskyard.v1 import task_pb2

from .values import MAX_EXACT

MAX_DEPTH: Final = 30
"""The most levels of objects and lists that `params` and `result` may have."""
LONG_NUMBER: Final = re.compile(rb"[0-9]{16}")
"""What JSON must contain if a whole number in it is beyond 2^53."""
PLACE: Final = re.compile(r"^(.*?)(?: - at `([^`]*)`)?$", re.DOTALL)
"""The message of msgspec, and where it says that the problem is."""
KINDS: Final = "a dataclass, a TypedDict, a model of pydantic, a msgspec.Struct or types of JSON"


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
    """What a payload has: the message of the API has it, and `Payload` too."""

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


class BadValue(ValueError):
    """A value does not fit its type, or cannot be read.

    Attributes:
        path: Where in the value, such as `pages[0].url`. Empty for the value as a whole.
        reason: What is wrong there.

    Args:
        reason: What is wrong.
        path: Where in the value. Default the value as a whole.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason, path)
        self.reason = reason
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


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


class Shape:
    """How values of one type are written and read.

    Attributes:
        is_none: Whether None is the only value.

    Args:
        kind: The type.

    Raises:
        TypeError: The type is none that can be sent.
    """

    def __init__(self, kind: Any) -> None:
        self.is_none = kind is None or kind is type(None)
        self._kind = kind
        self._pydantic = _is_pydantic(kind)
        if self._pydantic:
            return
        try:
            if bad := _unknown_type(inspect.type_info(kind), set()):
                raise TypeError(f"{_name(bad)} is no type of an action")
            self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind, dec_hook=_read_nested)
        except (TypeError, NameError) as error:
            raise TypeError(f"{_name(kind)} cannot be sent, an action takes {KINDS}: {error}") from error

    def write(self, value: Any) -> bytes:
        """Write a value as JSON, checked against the type.

        Args:
            value: The value.

        Returns:
            The JSON, in UTF-8.

        Raises:
            BadValue: It does not fit.
        """
        if self._pydantic:
            if not isinstance(value, self._kind):
                raise BadValue(f"expected {_name(self._kind)}, got {type(value).__name__}")
            return _dumped(value, self._kind)
        try:
            data = msgspec.json.encode(value, enc_hook=_dumped_nested)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise BadValue(str(error)) from error
        if self._kind is Any:
            return data
        is_dataclass = isinstance(self._kind, type) and hasattr(self._kind, "__dataclass_fields__")
        if is_dataclass and not isinstance(value, self._kind):
            # Another class with the same fields is a mistake, although its JSON would fit.
            raise BadValue(f"expected {_name(self._kind)}, got {type(value).__name__}")
        self.read(data)
        return data

    def read(self, data: bytes) -> Any:
        """Read a value.

        Args:
            data: The JSON.

        Returns:
            The value.

        Raises:
            BadValue: It does not fit.
        """
        try:
            return _validated(data, self._kind) if self._pydantic else self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _bad(error) from error

    def convert(self, plain: Any) -> Any:
        """Read a value that is plain JSON already.

        Args:
            plain: None, bool, int, float, str, list or dict.

        Returns:
            The value.

        Raises:
            BadValue: It does not fit.
        """
        if self._kind is Any:
            return plain
        try:
            if self._pydantic:
                return _validated(msgspec.json.encode(plain), self._kind)
            return msgspec.convert(plain, self._kind, str_keys=True, dec_hook=_read_nested)
        except msgspec.ValidationError as error:
            raise _bad(error) from error


def shape_of(kind: Any) -> Shape:
    """Find how values of a type are written and read. It also says whether a type can be sent at all.

    Args:
        kind: The type.

    Returns:
        How its values are written and read.

    Raises:
        TypeError: The type is none that can be sent.
    """
    try:
        hash(kind)
    except TypeError:
        return Shape(kind)
    return _shape_of(kind)


_shape_of: Final[Callable[[Any], Shape]] = functools.lru_cache(maxsize=1_000, typed=True)(Shape)


def _name(kind: Any) -> str:
    return getattr(kind, "__qualname__", None) or str(kind)


def _is_pydantic(kind: Any) -> bool:
    """Whether it is a model or dataclass of pydantic, which need not be installed."""
    return isinstance(kind, type) and hasattr(kind, "__pydantic_validator__")


def _unknown_type(found: Any, seen: set[Any]) -> Any:
    """The first class within a type that nothing here can read, None if there is none."""
    if isinstance(found, inspect.CustomType):
        return None if _is_pydantic(found.cls) else found.cls
    if isinstance(found, (list, tuple)):
        return next((bad for each in found if (bad := _unknown_type(each, seen)) is not None), None)
    if not isinstance(found, (inspect.Type, inspect.Field)) or id(found) in seen:
        return None
    cls = getattr(found, "cls", None)
    if cls is not None:
        if cls in seen:
            return None
        seen.add(cls)
    names = type(found).__struct_fields__
    return _unknown_type([getattr(found, name) for name in names if name not in ("cls", "default")], seen)


def _dumped(value: Any, kind: Any) -> bytes:
    """A model of pydantic as JSON that its own validation takes."""
    try:
        data: bytes = kind.__pydantic_serializer__.to_json(value, by_alias=True, round_trip=True)
    except ValueError as error:
        raise BadValue(str(error)) from error
    return data


def _dumped_nested(value: Any) -> Any:
    if not _is_pydantic(type(value)):
        raise TypeError(f"{type(value).__name__} is not JSON: {value!r}")
    return msgspec.Raw(_dumped(value, type(value)))


def _validated(data: bytes, kind: Any) -> Any:
    try:
        return kind.__pydantic_validator__.validate_json(data)
    except ValueError as error:
        raise _bad_of_pydantic(error) from error


def _read_nested(kind: type, plain: Any) -> Any:
    if not _is_pydantic(kind):
        raise TypeError(f"{_name(kind)} is no type of an action")
    return _validated(msgspec.json.encode(plain), kind)


def _bad_of_pydantic(error: Any) -> BadValue:
    first: Mapping[str, Any] = next(iter(error.errors(include_url=False, include_input=False)), {})
    path = ""
    for part in first.get("loc", ()):
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return BadValue(first.get("msg", str(error)), path)


def _bad(error: Exception) -> BadValue:
    """The problem that msgspec has found, with the place in a model of pydantic within."""
    match = PLACE.match(str(error))
    reason, place = (match[1], match[2] or "") if match else (str(error), "")
    path = place.removeprefix("$").removeprefix(".")
    inner = error.__cause__
    if isinstance(inner, BadValue):
        joint = "." if path and inner.path and not inner.path.startswith("[") else ""
        return BadValue(inner.reason, path + joint + inner.path)
    return BadValue(reason[:1].lower() + reason[1:], path)
