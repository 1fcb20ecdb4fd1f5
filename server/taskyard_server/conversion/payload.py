"""JSON to and from the payloads of tasks, which the core keeps as bytes and never parses.

`params` are a serialized `google.protobuf.Struct`, `result` is a serialized `google.protobuf.Value`. Both store numbers
as doubles, so integers above 2^53 lose precision. `input` and `output` are serialized `taskyard.v1.Payload`s: their
bytes are checked where they are JSON, and never changed.
"""

import json
from math import isfinite
from typing import Any, Final, NoReturn, TypeAlias

import msgspec
from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import ListValue, Struct, Value

from taskyard_server.json_text import read_json

MAX_DEPTH: Final = 30
"""Maximum levels of objects and lists. Protobuf parsers stop at 100 nested messages; a level takes up to three."""

Json: TypeAlias = dict[str, "Json"] | list["Json"] | str | float | bool | None


def message_to_json(message: Message, zeros: bool = False) -> dict[str, Json]:
    """A message as the gateway prints it. With `zeros`, plain fields that are zero or empty are printed too."""
    fields = _with_integers(json_format.MessageToDict(message, always_print_fields_with_no_presence=zeros))
    assert isinstance(fields, dict)
    return fields


def params_to_json(params: bytes | None) -> dict[str, Json]:
    """The params as an object; empty where a task has none."""
    return _object(Struct.FromString(params)) if params else {}


def parse_json(body: bytes) -> Any:
    """The JSON in the body of an HTTP answer; raises `ValueError` if it is anything else."""
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nests too deep") from None


def result_from_body(body: bytes) -> bytes | None:
    """The body of an HTTP answer as a result: its JSON, its text where it is not JSON, None where it is empty.

    A name that stands twice stays as the text has it.
    """
    if not body.strip():
        return None
    value = Value()
    try:
        json_format.ParseDict(read_json(body, _refuse_constant), value)
        packed = value.SerializeToString()
        if not is_too_deep(value, packed) and is_json(value, packed):
            return packed
    except (ValueError, OverflowError, RecursionError, json_format.ParseError):
        pass
    return Value(string_value=body.decode(errors="replace")).SerializeToString()


def is_too_deep(payload: Struct | Value, packed: bytes) -> bool:
    """True if a payload nests deeper than `MAX_DEPTH`, so that a parser may refuse it."""
    # Each level begins with the tag of a struct or of a list: few such bytes mean few levels.
    if packed.count(b"\x2a") + packed.count(b"\x32") < MAX_DEPTH:
        return False
    return _depth(payload) > MAX_DEPTH


def is_json(payload: Struct | Value, packed: bytes) -> bool:
    """True if every number of a payload is finite, as JSON requires."""
    # The last byte of an infinity and of NaN is one of these two, which are rare elsewhere.
    return (b"\x7f" not in packed and b"\xff" not in packed) or _all_finite(payload)


def check_json(data: bytes) -> None:
    """Raise `ValueError`, with what must be, for bytes that are not JSON in UTF-8 of a bounded depth."""
    try:
        value = msgspec.json.decode(data)
    except RecursionError:
        raise ValueError(f"must not nest deeper than {MAX_DEPTH} levels") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
        raise ValueError(f"must be JSON in UTF-8 without an encoding: {fault}") from None
    # Few brackets mean few levels.
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _json_depth(value) > MAX_DEPTH:
        raise ValueError(f"must not nest deeper than {MAX_DEPTH} levels")


def _json_depth(value: Json) -> int:
    if isinstance(value, dict):
        return 1 + max((_json_depth(each) for each in value.values()), default=0)
    if isinstance(value, list):
        return 1 + max((_json_depth(each) for each in value), default=0)
    return 0


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


def _refuse_constant(name: str) -> NoReturn:
    """Python's parser accepts NaN and the infinities, which are not JSON."""
    raise ValueError(f"{name} is not JSON")


def _object(struct: Struct) -> dict[str, Json]:
    return {key: _plain(value) for key, value in struct.fields.items()}


def _plain(value: Value) -> Json:
    match value.WhichOneof("kind"):
        case "number_value":
            return _with_integers(value.number_value)
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


def _with_integers(value: Json) -> Json:
    """The value with whole numbers as integers: many readers refuse 400.0 where they expect 400."""
    if isinstance(value, dict):
        return {key: _with_integers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
        return int(value)
    return value
