"""Conversion between messages and plain Python: JSON values, times, spans of time, optional fields.

JSON has one kind of number. Whole numbers come back as `int`, so that 1 stays 1; those beyond 2^53 are refused, since
they would come back as others.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.protobuf.message import Message
from google.protobuf.struct_pb2 import NULL_VALUE, ListValue, Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

MAX_EXACT: Final = 2**53
MAX_SHOWN: Final = 200
"""Characters of a value that an error shows."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MAX_DEPTH: Final = 30
"""Levels of lists and objects that the server accepts. It could not parse a much deeper message at all."""
MILLISECOND: Final = timedelta(milliseconds=1)

Span = float | timedelta
"""A span of time. A number is in seconds."""


class _Unfit(Exception):
    """A part of a value cannot be sent. `path` leads to it, from the inside out."""

    def __init__(self, kind: type[TypeError] | type[ValueError], problem: str) -> None:
        self.kind = kind
        self.problem = problem
        self.path: list[str] = []

    def error(self, name: str) -> Exception:
        parts = [name, *reversed(self.path)] if name else self.path[::-1]
        place = "".join(part if part.startswith("[") or not index else f".{part}" for index, part in enumerate(parts))
        return self.kind(f"{place}: {self.problem}" if place else self.problem)


def struct_from(values: Mapping[str, Any], name: str = "") -> Struct:
    """Convert a JSON object to a message.

    Args:
        values: The object.
        name: The name of the argument, for the error. Default none.

    Returns:
        The message.

    Raises:
        TypeError: It is not JSON.
        ValueError: It holds a number that a double does not hold, or a whole number beyond 2^53.
    """
    struct = Struct()
    fill_struct(struct, values, name)
    return struct


def fill_struct(struct: Struct, values: Mapping[str, Any], name: str = "") -> None:
    """Fill an empty message with a JSON object: a part of another message, which would else be copied into it.

    Args:
        struct: The message.
        values: The object.
        name: The name of the argument, for the error. Default none.

    Raises:
        TypeError: It is not JSON.
        ValueError: It holds a number that a double does not hold, or a whole number beyond 2^53.
    """
    try:
        _fill_struct(struct, values)
    except _Unfit as unfit:
        raise unfit.error(name) from None


def value_from(plain: Any, name: str = "") -> Value:
    """Convert any JSON value to a message.

    Args:
        plain: The value.
        name: The name of the argument, for the error. Default none.

    Returns:
        The message.

    Raises:
        TypeError: It is not JSON.
        ValueError: It holds a number that a double does not hold, or a whole number beyond 2^53.
    """
    value = Value()
    try:
        _fill_value(value, plain)
    except _Unfit as unfit:
        raise unfit.error(name) from None
    return value


def check_depth(value: Any, levels: int) -> None:
    """Check how deep a JSON value nests.

    Args:
        value: The value.
        levels: How many levels of lists and objects it may have.

    Raises:
        ValueError: It has more.
    """
    if isinstance(value, (dict, list, tuple)):
        if levels == 0:
            raise ValueError(f"it nests deeper than {MAX_DEPTH} levels")
        for item in value.values() if isinstance(value, dict) else value:
            check_depth(item, levels - 1)


def plain_object(struct: Struct) -> dict[str, Any]:
    """Convert a message to a JSON object.

    Args:
        struct: The message.

    Returns:
        The object.
    """
    return {key: plain_value(value) for key, value in struct.fields.items()}


def plain_value(value: Value) -> Any:
    """Convert a message to a JSON value.

    Args:
        value: The message.

    Returns:
        None, bool, int, float, str, list or dict.
    """
    match value.WhichOneof("kind"):
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() and abs(number) <= MAX_EXACT else number
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return plain_object(value.struct_value)
        case "list_value":
            return [plain_value(item) for item in value.list_value.values]
        case _:
            return None


def timestamp_from(at: datetime) -> Timestamp:
    """Convert a point in time to a message.

    Args:
        at: The point in time, with a time zone.

    Returns:
        The message.

    Raises:
        ValueError: It has no time zone, so it is ambiguous.
    """
    if at.utcoffset() is None:
        raise ValueError(f"{at!r}: must have a time zone")
    timestamp = Timestamp()
    timestamp.FromDatetime(at)
    return timestamp


def datetime_from(timestamp: Timestamp) -> datetime:
    """Convert a message to a point in time.

    Args:
        timestamp: The message.

    Returns:
        The point in time in UTC, to the microsecond.
    """
    # Its own method takes four times as long.
    return EPOCH + timedelta(seconds=timestamp.seconds, microseconds=timestamp.nanos // 1_000)


def seconds(span: Span) -> float:
    """Convert a span of time to seconds.

    Args:
        span: The span.

    Returns:
        The seconds.
    """
    return span.total_seconds() if isinstance(span, timedelta) else float(span)


def whole_seconds(span: Span, name: str) -> int:
    """Convert a span of time for a field of whole seconds.

    Args:
        span: The span.
        name: The name of the argument, for the error.

    Returns:
        The seconds.

    Raises:
        ValueError: The span is not a whole number of seconds.
    """
    secs = seconds(span)
    if not secs.is_integer():
        raise ValueError(f"{name}: must be whole seconds")
    return int(secs)


def state_filter(states: Iterable[str]) -> str | None:
    """Join states as the filters of the API take them.

    Args:
        states: The states.

    Returns:
        The states separated by commas, or None if there are none.

    Raises:
        TypeError: It is one state instead of several.
    """
    if isinstance(states, str):
        raise TypeError("states: is a sequence of states, not one state")
    return ",".join(states) or None


def optional(message: Message, name: str) -> Any:
    """Read an optional field of a message.

    Args:
        message: The message.
        name: The name of the field.

    Returns:
        The value, or None if the field is absent.
    """
    return getattr(message, name) if message.HasField(name) else None


def milliseconds(span: timedelta) -> int:
    """Convert a span of time for a field of whole milliseconds.

    Args:
        span: The span.

    Returns:
        The milliseconds, rounded up.
    """
    return -(-span // MILLISECOND)


def optional_span(message: Message, name: str) -> timedelta | None:
    """Read an optional span of milliseconds of a message.

    Args:
        message: The message.
        name: The name of the field.

    Returns:
        The span, or None if the field is absent.
    """
    return timedelta(milliseconds=getattr(message, name)) if message.HasField(name) else None


def optional_time(message: Message, name: str) -> datetime | None:
    """Read an optional point in time of a message.

    Args:
        message: The message.
        name: The name of the field.

    Returns:
        The point in time in UTC, or None if the field is absent.
    """
    return datetime_from(getattr(message, name)) if message.HasField(name) else None


def _fill_struct(struct: Struct, values: Mapping[str, Any]) -> None:
    fields = struct.fields
    for key, plain in values.items():
        if not isinstance(key, str):
            raise _Unfit(TypeError, f"the keys of a JSON object are strings, not {key!r}")
        try:
            _fill_value(fields[key], plain)
        except _Unfit as unfit:
            unfit.path.append(key)
            raise


def _fill_list(message: ListValue, items: list[Any] | tuple[Any, ...]) -> None:
    for index, item in enumerate(items):
        try:
            _fill_value(message.values.add(), item)
        except _Unfit as unfit:
            unfit.path.append(f"[{index}]")
            raise


def _fill_value(value: Value, plain: Any) -> None:
    match plain:
        case None:
            value.null_value = NULL_VALUE
        # A bool is an int too, so it comes first.
        case bool():
            value.bool_value = plain
        case int() | float():
            value.number_value = _double(plain)
        case str():
            try:
                value.string_value = plain
            except UnicodeEncodeError as error:
                raise _Unfit(ValueError, f"it is no valid Unicode: {error}") from None
        case Mapping():
            value.struct_value.SetInParent()
            _fill_struct(value.struct_value, plain)
        case list() | tuple():
            value.list_value.SetInParent()
            _fill_list(value.list_value, plain)
        case _:
            raise _Unfit(TypeError, f"{type(plain).__name__} is not a JSON value: {repr(plain)[:MAX_SHOWN]}")


def _double(number: float) -> float:
    if isinstance(number, int) and not -MAX_EXACT <= number <= MAX_EXACT:
        raise _Unfit(
            ValueError,
            f"{number} is beyond 2^53, which a JSON number does not hold exactly: send a text, or use an Action",
        )
    double = float(number)
    if not math.isfinite(double):
        raise _Unfit(ValueError, f"{double!r} is a number that JSON has not")
    return double
