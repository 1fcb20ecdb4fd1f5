"""`params` and `result` as JSON: the only place that opens the bytes which the core keeps closed.

`params` are the bytes of a `google.protobuf.Struct`, `result` those of a `google.protobuf.Value`. Whole numbers past
2^53 lose precision there, as in every JSON reader that uses doubles.
"""

import json
from math import isfinite
from typing import Final, NoReturn, TypeAlias

from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import ListValue, Struct, Value

MAX_DEPTH: Final = 30
"""Levels of objects and lists. Protobuf readers stop at 100 messages, and a level of JSON takes up to three."""

Json: TypeAlias = dict[str, "Json"] | list["Json"] | str | float | bool | None


def message_to_json(message: Message, zeros: bool = False) -> dict[str, Json]:
    """A message as the gateway prints it; `zeros` also shows scalars that are zero."""
    shown = _whole(json_format.MessageToDict(message, always_print_fields_with_no_presence=zeros))
    assert isinstance(shown, dict)
    return shown


def params_to_json(params: bytes | None) -> dict[str, Json]:
    """The object that the submitter gave, empty if none."""
    return _object(Struct.FromString(params)) if params else {}


def result_from_body(body: bytes) -> bytes | None:
    """An HTTP answer as a result: its JSON, its text where that is not possible, None where it is empty."""
    if not body.strip():
        return None
    value = Value()
    try:
        json_format.ParseDict(json.loads(body, parse_constant=_refuse), value)
        packed = value.SerializeToString()
        if not is_too_deep(value, packed) and is_json(value, packed):
            return packed
    except (ValueError, OverflowError, RecursionError, json_format.ParseError):
        pass
    return Value(string_value=body.decode(errors="replace")).SerializeToString()


def is_too_deep(payload: Struct | Value, packed: bytes) -> bool:
    """Whether a payload nests deeper than `MAX_DEPTH`, so that some reader could not read it back."""
    # Each level begins with the tag of a struct or of a list, so few such bytes mean few levels.
    if packed.count(b"\x2a") + packed.count(b"\x32") < MAX_DEPTH:
        return False
    return _depth(payload) > MAX_DEPTH


def is_json(payload: Struct | Value, packed: bytes) -> bool:
    """Whether every number of a payload is finite: JSON knows no others."""
    # The last byte of an infinity or NaN is one of these two, and they are rare elsewhere.
    return (b"\x7f" not in packed and b"\xff" not in packed) or _all_finite(payload)


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


def _refuse(name: str) -> NoReturn:
    """NaN and the infinities are not JSON, whatever Python's reader thinks."""
    raise ValueError(name)


def _object(struct: Struct) -> dict[str, Json]:
    return {key: _plain(value) for key, value in struct.fields.items()}


def _plain(value: Value) -> Json:
    match value.WhichOneof("kind"):
        case "number_value":
            return _whole(value.number_value)
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return _object(value.struct_value)
        case "list_value":
            return [_plain(item) for item in value.list_value.values]
        case _:
            return None


def _whole(value: Json) -> Json:
    """Whole numbers as ints, as their writer meant them: many readers refuse 400.0 where they want 400."""
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
        return int(value)
    return value
