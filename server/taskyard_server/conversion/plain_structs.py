"""Tells whether an encoded `google.protobuf.Struct` is one that protobuf would write again with the same fields.

Then it need not be parsed to be checked: each key is there once, each length takes as few bytes as it can, all text is
UTF-8, all numbers are finite, and it nests less deep than any limit. Of most params this is so.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.struct_pb2 import ListValue, Struct, Value

from .wire import TOO_LONG, tag

ENTRY: Final = tag(Struct, "fields")[0]
ENTRY_KEY: Final = tag(Struct.FieldsEntry, "key")[0]
ENTRY_VALUE: Final = tag(Struct.FieldsEntry, "value")[0]
ITEM: Final = tag(ListValue, "values")[0]
TEXT: Final = tag(Value, "string_value")[0]
NUMBER: Final = tag(Value, "number_value")[0]
BOOL: Final = tag(Value, "bool_value")[0]
STRUCT: Final = tag(Value, "struct_value")[0]
LIST: Final = tag(Value, "list_value")[0]
NULL: Final = Value.DESCRIPTOR.fields_by_name["null_value"].number << 3
MAX_LEVELS: Final = 20


def is_plain_struct(data: bytes, at: int, end: int, levels: int = 0) -> bool:
    """True if the bytes between two offsets of `data` are such a struct, which stands in `levels` others.

    Raises `IndexError` at the end of the data, and `UnicodeDecodeError`.
    """
    if levels > MAX_LEVELS:
        return False
    keys: list[bytes] = []
    while at < end:
        if data[at] != ENTRY:
            return False
        size, at = _length(data, at + 1)
        stop = at + size
        if stop > end or data[at] != ENTRY_KEY:
            return False
        size, at = _length(data, at + 1)
        value = at + size
        if value >= stop:
            return False
        key = data[at:value]
        if not key.isascii():
            key.decode()
        keys.append(key)
        if data[value] != ENTRY_VALUE:
            return False
        size, at = _length(data, value + 1)
        if at + size != stop or not _is_plain(data, at, stop, levels):
            return False
        at = stop
    count = len(keys)
    return count < 2 or len(set(keys)) == count


def _is_plain(data: bytes, at: int, end: int, levels: int) -> bool:
    """True if the bytes between two offsets are a `Value` of one kind."""
    if at >= end:
        return False
    kind = data[at]
    at += 1
    if kind == NUMBER:
        # All bits of the exponent are set in infinities and NaN.
        return end - at == 8 and not (data[end - 1] & 0x7F == 0x7F and data[end - 2] >= 0xF0)
    if kind == BOOL:
        return end - at == 1 and data[at] < 2
    if kind == NULL:
        return end - at == 1 and data[at] == 0
    size, at = _length(data, at)
    if at + size != end:
        return False
    if kind == TEXT:
        text = data[at:end]
        if not text.isascii():
            text.decode()
        return True
    if kind == STRUCT:
        return is_plain_struct(data, at, end, levels + 1)
    return kind == LIST and _is_plain_list(data, at, end, levels + 1)


def _is_plain_list(data: bytes, at: int, end: int, levels: int) -> bool:
    if levels > MAX_LEVELS:
        return False
    while at < end:
        if data[at] != ITEM:
            return False
        size, at = _length(data, at + 1)
        stop = at + size
        if stop > end or not _is_plain(data, at, stop, levels):
            return False
        at = stop
    return True


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A length in as few bytes as it takes and the offset after it; `TOO_LONG` for any other."""
    low = data[at]
    if low < 128:
        return low, at + 1
    middle = data[at + 1]
    if middle < 128:
        return (low & 127 | middle << 7, at + 2) if middle else (TOO_LONG, at)
    high = data[at + 2]
    return (low & 127 | (middle & 127) << 7 | high << 14, at + 3) if 0 < high < 128 else (TOO_LONG, at)
