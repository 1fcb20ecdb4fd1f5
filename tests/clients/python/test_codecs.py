"""Encrypted payloads: what the codec of Fernet makes, and how keys are changed."""

import pickle

import pytest

from taskyard.codecs import FernetCodec
from taskyard.values.payloads import BadValue, decode_value, encode_value
from tests.cases import every_case

OLD, NEW = FernetCodec.new_key(), FernetCodec.new_key()


def test_a_value_comes_back_and_is_not_to_be_seen_on_the_wire():
    codec = FernetCodec(NEW)
    encoded = encode_value({"secret": "a" * 40}, dict[str, str], codec, is_object=True)
    assert encoded.payload.encoding == "fernet"
    assert b"secret" not in encoded.payload.data
    assert b"aaaa" not in encoded.payload.data
    assert decode_value(dict[str, str], None, encoded.payload, codec) == {"secret": "a" * 40}


def test_keys_are_changed_one_process_after_the_other():
    before, between, after = FernetCodec(OLD), FernetCodec(OLD, NEW), FernetCodec(NEW, OLD)
    for writes, reads in ((before, between), (between, before), (between, after), (after, between), (before, after)):
        assert reads.decode(writes.encode(b"{}")) == b"{}"


@pytest.mark.parametrize("change", [lambda data: data, lambda data: data[:-1], lambda _: b"", lambda _: b"\x80"])
def test_what_no_key_fits_is_refused(change):
    data = change(FernetCodec(OLD).encode(b"{}"))
    with pytest.raises(ValueError, match="none of 1 keys fits"):
        FernetCodec(NEW).decode(data)


def test_the_error_of_a_wrong_key_says_what_to_look_at():
    payload = encode_value({}, dict, FernetCodec(OLD), is_object=True).payload
    with pytest.raises(BadValue, match="the codec 'fernet' cannot read it, perhaps for another key"):
        decode_value(dict, None, payload, FernetCodec(NEW))


@every_case("key", ["", "too short", "x" * 44, b"\xff", None])
def test_a_malformed_key_is_refused_and_not_shown(key):
    with pytest.raises(ValueError, match="key 2 is no Fernet key") as caught:
        FernetCodec(NEW, key)
    assert "too short" not in str(caught.value)


def test_it_goes_to_worker_processes_and_keeps_its_keys_to_itself():
    codec = FernetCodec(NEW, OLD, name="vault")
    again = pickle.loads(pickle.dumps(codec))
    assert again.name == "vault"
    assert again.decode(codec.encode(b"{}")) == b"{}"
    assert NEW not in repr(codec)
