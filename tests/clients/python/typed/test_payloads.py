"""Values of any type that an action may have come back as they were, plain where that is exact, else as a payload."""

import uuid
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import Enum
from typing import Any, Literal, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard.values.payloads import MISSING, BadValue, Payload, decode_value, encode_value
from taskyard.values.shapes import shape_of
from tests.cases import every_case


class Colour(Enum):
    """An enumeration."""

    RED = "red"


class Model(pydantic.BaseModel):
    """A model of pydantic, with another name on the wire."""

    model_config = pydantic.ConfigDict(strict=True)
    url: str = pydantic.Field(alias="address")
    at: datetime | None = None
    size: int = 0


@dataclass
class Node:
    """A dataclass that holds itself and models."""

    name: str
    nodes: list["Node"] = field(default_factory=list)
    models: list[Model] = field(default_factory=list)
    colour: Colour = Colour.RED


@pydantic.dataclasses.dataclass
class Checked:
    """A dataclass of pydantic."""

    size: int


class Options(TypedDict, total=False):
    """A TypedDict."""

    a: int
    b: list[str]


class Point(msgspec.Struct):
    """A struct of msgspec."""

    x: float
    y: float


class Loose(pydantic.BaseModel):
    """A model whose fields may be None."""

    share: float | None = None
    of: float | None = None


class Reversing:
    """A codec."""

    name = "reversing"

    def encode(self, data: bytes, /) -> bytes:
        return b"!" + data[::-1]

    def decode(self, data: bytes, /) -> bytes:
        if not data.startswith(b"!"):
            raise ValueError("not mine")
        return data[:0:-1]


NOW = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
VALUES = [
    (Model(address="a", at=NOW, size=2**62), Model),
    (Node("a", [Node("b")], [Model(address="m", at=NOW)]), Node),
    (Checked(5), Checked),
    ({"a": 1, "b": ["x"]}, Options),
    (Point(0.5, 1.5), Point),
    ([Model(address="a"), Model(address="b")], list[Model]),
    ({"a": Model(address="a")}, dict[str, Model]),
    (None, Model | None),
    (Model(address="a"), Model | None),
    ({1: "a"}, dict[int, str]),
    ((1, "a"), tuple[int, str]),
    ({NOW: uuid.UUID(int=5)}, dict[datetime, uuid.UUID]),
    (b"\x00\xff", bytes),
    (date(2026, 1, 1), date),
    ("a", Literal["a", "b"]),
    (None, None),
    (2**63 - 1, int),
    ([[1.5, None, True, "x", {"y": []}]], Any),
]


@every_case(("value", "kind"), VALUES)
@every_case("is_object", [True, False])
@every_case("codec", [None, Reversing()])
def test_values_come_back(value, kind, is_object, codec):
    encoded = encode_value(value, kind, codec, is_object=is_object)
    assert (encoded.plain is MISSING) != (encoded.payload is None)
    assert decode_value(kind, encoded.plain, encoded.payload, codec) == value


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)


@given(JSON)
def test_json_comes_back_with_all_digits(value):
    for is_object in (True, False):
        encoded = encode_value(value, Any, None, is_object=is_object)
        assert decode_value(Any, encoded.plain, encoded.payload, None) == value


def test_what_a_double_holds_is_plain_and_what_it_does_not_is_in_a_payload():
    assert encode_value({"n": 2**53}, Any, None, is_object=True).plain == {"n": 2**53}
    assert encode_value({"n": 2**53 + 1}, Any, None, is_object=True).payload.data == b'{"n":9007199254740993}'
    assert encode_value({"id": "12345678901234567890"}, Any, None, is_object=True).payload is None
    assert encode_value({"part": 0.1 + 0.2}, Any, None, is_object=True).payload is None


def test_what_nests_too_deep_for_params_is_in_a_payload():
    deep: Any = 1
    for _ in range(31):
        deep = [deep]
    encoded = encode_value(deep, Any, None, is_object=False)
    assert decode_value(Any, encoded.plain, encoded.payload, None) == deep
    assert encoded.payload is not None
    assert encode_value(deep[0], Any, None, is_object=False).payload is None


def test_only_objects_are_params():
    assert encode_value([1], list[int], None, is_object=True).payload.data == b"[1]"
    assert encode_value([1], list[int], None, is_object=False).plain == [1]


def test_without_an_input_params_are_empty():
    assert decode_value(None, {}, None, None) is None
    with pytest.raises(BadValue, match="expected `null`"):
        decode_value(None, {"a": 1}, None, None)


@every_case(
    ("kind", "plain", "path"),
    [
        (Node, {"name": 5}, "name"),
        (Node, {"name": "a", "nodes": [{"name": "b"}, {}]}, "nodes[1]"),
        (Node, {"name": "a", "models": [{"address": "m", "size": "x"}]}, "models[0].size"),
        (Model, {"address": "a", "at": "yesterday"}, "at"),
        (list[Model], [{"address": "a"}, {}], "[1].address"),
        (dict[str, int], {"a": "b"}, "[...]"),
        (int, None, ""),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(kind, plain, path):
    with pytest.raises(BadValue) as raised:
        decode_value(kind, plain, None, None)
    assert raised.value.path == path
    with pytest.raises(BadValue) as raised:
        decode_value(kind, None, Payload(msgspec.json.encode(plain)), None)
    assert raised.value.path == path


def test_models_keep_the_rules_of_json():
    # A strict model takes no text for a time in Python, but in JSON there is no other way to write it.
    assert decode_value(Model, {"address": "a", "at": NOW.isoformat()}, None, None).at == NOW


@every_case("kind", [object(), type("Plain", (), {}), list[type("Inner", (), {})], "Page", complex])
def test_types_that_cannot_be_sent_are_refused(kind):
    with pytest.raises(TypeError, match="cannot be sent, an action takes a dataclass"):
        shape_of(kind)


def test_data_that_is_no_json_is_refused():
    for data in (b"{", b"\xff", b""):
        with pytest.raises(BadValue):
            decode_value(Any, None, Payload(data), None)


# Codecs


def test_with_a_codec_everything_is_in_the_payload():
    encoded = encode_value({"a": 1}, Any, Reversing(), is_object=True)
    assert (encoded.plain, encoded.payload.data, encoded.payload.encoding) == (MISSING, b'!}1:"a"{', "reversing")
    assert decode_value(Any, None, encoded.payload, Reversing()) == {"a": 1}


def test_what_was_sent_without_a_codec_can_be_read_with_one():
    assert decode_value(Any, {"a": 1}, None, Reversing()) == {"a": 1}
    assert decode_value(Any, None, Payload(b"5"), Reversing()) == 5


def test_a_payload_of_another_codec_is_refused_by_name():
    with pytest.raises(BadValue, match="is encoded by 'fernet', here is no codec: give codec="):
        decode_value(Any, None, Payload(b"x", "fernet"), None)
    with pytest.raises(BadValue, match="here is the codec 'reversing'"):
        decode_value(Any, None, Payload(b"x", "fernet"), Reversing())


def test_a_payload_that_the_codec_cannot_read_is_refused():
    with pytest.raises(BadValue, match="the codec 'reversing' cannot read it, perhaps for another key: not mine"):
        decode_value(Any, None, Payload(b"x", "reversing"), Reversing())


@every_case(
    ("value", "kind", "path"),
    [
        (float("nan"), float | None, ""),
        ({"a": [1, float("inf")]}, Any, "a[1]"),
        ([Point(None, float("-inf"))], list[Any], "[0].y"),
        (Loose(share=float("nan")), Loose, "share"),
        ({"one": Loose(share=float("nan"))}, dict[str, Loose], "share"),
    ],
)
def test_a_number_that_json_has_not_is_refused_and_never_becomes_none(value, kind, path):
    with pytest.raises(BadValue, match="a number that JSON has not") as refused:
        encode_value(value, kind, None, is_object=False)
    assert refused.value.path == path


def test_none_beside_numbers_is_no_such_number():
    assert encode_value(Loose(share=0.5), Loose, None, is_object=True).plain == {"share": 0.5, "of": None}
    assert encode_value({"a": [None, 1.5]}, Any, None, is_object=True).plain == {"a": [None, 1.5]}
