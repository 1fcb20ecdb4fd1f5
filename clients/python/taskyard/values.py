"""What messages hold as plain Python, and back: JSON values, times, spans of time, optional fields.

JSON knows one kind of number. What is whole comes back as `int`, so that 1 stays 1; beyond 2^53 whole numbers lose
precision on their way.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.protobuf.message import Message
from google.protobuf.struct_pb2 import NULL_VALUE, ListValue, Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

MAX_EXACT: Final = 2**53

Span = float | timedelta
"""A span of time, in seconds where it is a number."""


def struct_from(values: Mapping[str, Any]) -> Struct:
    """A JSON object as a message. Raises TypeError or ValueError for what JSON cannot hold."""
    struct = Struct()
    _fill_struct(struct, values)
    return struct


def value_from(plain: Any) -> Value:
    """Any JSON value as a message. Raises TypeError or ValueError for what JSON cannot hold."""
    value = Value()
    _fill_value(value, plain)
    return value


def plain_object(struct: Struct) -> dict[str, Any]:
    """A JSON object as a dict."""
    return {key: plain_value(value) for key, value in struct.fields.items()}


def plain_value(value: Value) -> Any:
    """Any JSON value as None, bool, int, float, str, list or dict."""
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
    """A point in time as a message. Raises ValueError without a time zone: it would not say which point it means."""
    if at.utcoffset() is None:
        raise ValueError(f"{at!r}: must have a time zone")
    timestamp = Timestamp()
    timestamp.FromDatetime(at)
    return timestamp


def datetime_from(timestamp: Timestamp) -> datetime:
    """A point in time, in UTC, to the microsecond."""
    return timestamp.ToDatetime(tzinfo=UTC)


def seconds(span: Span) -> float:
    """A span in seconds."""
    return span.total_seconds() if isinstance(span, timedelta) else float(span)


def whole_seconds(span: Span, name: str) -> int:
    """A span for a field of whole seconds. Raises ValueError, with the name of the argument, for any other."""
    secs = seconds(span)
    if not secs.is_integer():
        raise ValueError(f"{name}: must be whole seconds")
    return int(secs)


def words(states: Iterable[str]) -> str | None:
    """Several states as the filters of lists take them. Raises TypeError for a single one."""
    if isinstance(states, str):
        raise TypeError("states: is a sequence of states, not one state")
    return ",".join(states) or None


def given(message: Message, name: str) -> Any:
    """An optional field of a message, None where it is absent."""
    return getattr(message, name) if message.HasField(name) else None


def given_time(message: Message, name: str) -> datetime | None:
    """The same for a point in time."""
    return datetime_from(getattr(message, name)) if message.HasField(name) else None


def _fill_struct(struct: Struct, values: Mapping[str, Any]) -> None:
    for key, plain in values.items():
        if not isinstance(key, str):
            raise TypeError(f"the keys of a JSON object are strings, not {key!r}")
        _fill_value(struct.fields[key], plain)


def _fill_list(message: ListValue, items: list[Any] | tuple[Any, ...]) -> None:
    for item in items:
        _fill_value(message.values.add(), item)


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
            value.string_value = plain
        case Mapping():
            value.struct_value.SetInParent()
            _fill_struct(value.struct_value, plain)
        case list() | tuple():
            value.list_value.SetInParent()
            _fill_list(value.list_value, plain)
        case _:
            raise TypeError(f"{type(plain).__name__} is not a JSON value: {plain!r}")


def _double(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        raise ValueError("a JSON number must fit into a double") from None
