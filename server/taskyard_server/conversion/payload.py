"""`params` and `result` as JSON, and their limits. The core treats both as opaque bytes.

`params` is an encoded `google.protobuf.Struct`, `result` an encoded `google.protobuf.Value`. Integers beyond 2^53 lose
precision, as in every JSON parser that uses doubles.
"""

import json
from math import isfinite
from typing import Final, NoReturn, TypeAlias

from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import ListValue, Struct, Value

MAX_NESTING_LEVELS: Final = 30
"""Maximum levels of objects and lists. Protobuf parsers stop at 100 messages; one level of JSON takes up to three."""

Json: TypeAlias = dict[str, "Json"] | list["Json"] | str | float | bool | None


def message_to_json(message: Message, zeros: bool = False) -> dict[str, Json]:
    """A message as the gateway prints it. `zeros` includes scalar fields that are zero."""
    converted = _with_ints(json_format.MessageToDict(message, always_print_fields_with_no_presence=zeros))
    assert isinstance(converted, dict)
    return converted


def params_to_json(params: bytes | None) -> dict[str, Json]:
    """The params as a JSON object; empty for None."""
    return _struct_to_json(Struct.FromString(params)) if params else {}


def result_from_body(body: bytes) -> bytes | None:
    """The body of an HTTP response as a result: parsed JSON, or else the text; None for an empty body."""
    if not body.strip():
        return None
    value = Value()
    try:
        json_format.ParseDict(json.loads(body, parse_constant=_reject_constant), value)
        encoded = value.SerializeToString()
        if not is_too_deep(value, encoded) and is_json(value, encoded):
            return encoded
    except (ValueError, OverflowError, RecursionError, json_format.ParseError):
        pass
    return Value(string_value=body.decode(errors="replace")).SerializeToString()


def is_too_deep(payload: Struct | Value, encoded: bytes) -> bool:
    """Whether a payload nests deeper than `MAX_NESTING_LEVELS`, so that some parsers would reject it."""
    # Each level begins with the tag of a struct or of a list, so few such bytes mean few levels.
    if encoded.count(b"\x2a") + encoded.count(b"\x32") < MAX_NESTING_LEVELS:
        return False
    return _depth(payload) > MAX_NESTING_LEVELS


def is_json(payload: Struct | Value, encoded: bytes) -> bool:
    """Whether every number of a payload is finite, as JSON requires."""
    # Fast path: the encoding of an infinity or NaN ends in one of these bytes, which are rare elsewhere.
    return (b"\x7f" not in encoded and b"\xff" not in encoded) or _all_finite(payload)


def _all_finite(payload: Struct | ListValue | Value) -> bool:
    if isinstance(payload, Struct):
        return all(_all_finite(value) for value in payload.fields.values())
    if isinstance(payload, ListValue):
        return all(_all_finite(value) for value in payload.values)
    match payload.WhichOneof("kind"):
        case "number_value":
            return isfinite(payload.number_value)
        case "struct_value":
            return _all_finite(payload.struct_value)
        case "list_value":
            return _all_finite(payload.list_value)
        case _:
            return True


def _depth(payload: Struct | ListValue | Value) -> int:
    if isinstance(payload, Struct):
        return 1 + max((_depth(value) for value in payload.fields.values()), default=0)
    if isinstance(payload, ListValue):
        return 1 + max((_depth(value) for value in payload.values), default=0)
    match payload.WhichOneof("kind"):
        case "struct_value":
            return _depth(payload.struct_value)
        case "list_value":
            return _depth(payload.list_value)
        case _:
            return 0


def _reject_constant(name: str) -> NoReturn:
    """Reject NaN and the infinities: Python's parser accepts them, JSON does not."""
    raise ValueError(name)


def _struct_to_json(struct: Struct) -> dict[str, Json]:
    return {key: _value_to_json(value) for key, value in struct.fields.items()}


def _value_to_json(value: Value) -> Json:
    match value.WhichOneof("kind"):
        case "number_value":
            return _with_ints(value.number_value)
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return _struct_to_json(value.struct_value)
        case "list_value":
            return [_value_to_json(item) for item in value.list_value.values]
        case _:
            return None


def _with_ints(value: Json) -> Json:
    """The same value with integral floats as ints: many readers reject 400.0 where they expect 400."""
    if isinstance(value, dict):
        return {key: _with_ints(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_ints(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
        return int(value)
    return value
