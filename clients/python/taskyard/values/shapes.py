"""How values of one type become JSON and come back, checked on both ways.

`msgspec` reads dataclasses, TypedDicts, its Structs and JSON types; models of pydantic, also within others, are read by
themselves.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import inspect

from .convert import MAX_SHOWN

PLACE: Final = re.compile(r"^(.*?)(?: - at `([^`]*)`)?$", re.DOTALL)
"""The message of msgspec, and where it says that the problem is."""
KINDS: Final = "a dataclass, a TypedDict, a model of pydantic, a msgspec.Struct or types of JSON"


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
        except BadValue:
            raise
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise BadValue(str(error)) from error
        if b"null" in data:
            # What JSON has no number for is written as null, and would come back as None.
            _check_finite(value, "")
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

    def schema(self) -> dict[str, Any]:
        """Describe the type.

        Returns:
            Its JSON Schema. Of a model of pydantic within another type that refers to further ones it says only that it
            is an object.
        """
        if self._pydantic:
            return _schema_of_pydantic(self._kind)
        return msgspec.json.schema(self._kind, schema_hook=_nested_schema)

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
    """True if it is a model or dataclass of pydantic, which need not be installed."""
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


def _check_finite(value: Any, path: str) -> None:
    """Raise `BadValue` for a number within a value that JSON has not: infinity and NaN."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadValue(f"is {value!r}, a number that JSON has not", path)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            _check_finite(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple, set, frozenset)):
        for index, each in enumerate(value):
            _check_finite(each, f"{path}[{index}]")
    else:
        kind = type(value)
        for names in ("__dataclass_fields__", "__struct_fields__"):
            for name in getattr(kind, names, ()):
                _check_finite(getattr(value, name, None), f"{path}.{name}" if path else name)


def _dumped(value: Any, kind: Any) -> bytes:
    """A model of pydantic as JSON that its own validation takes."""
    try:
        data: bytes = kind.__pydantic_serializer__.to_json(value, by_alias=True, round_trip=True)
    except ValueError as error:
        raise BadValue(str(error)) from error
    # A model may say itself how such numbers are written.
    if b"null" in data and "ser_json_inf_nan" not in getattr(kind, "model_config", ()):
        _check_finite(kind.__pydantic_serializer__.to_python(value, mode="json", by_alias=True, round_trip=True), "")
    return data


def _dumped_nested(value: Any) -> Any:
    if not _is_pydantic(type(value)):
        raise TypeError(f"{type(value).__name__} is not JSON: {repr(value)[:MAX_SHOWN]}")
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


def _schema_of_pydantic(kind: Any) -> dict[str, Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind).json_schema()


def _nested_schema(kind: type) -> dict[str, Any]:
    if not _is_pydantic(kind):
        raise NotImplementedError
    schema = _schema_of_pydantic(kind)
    # Its references begin at its own root.
    return {"type": "object"} if "$defs" in schema else schema


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
