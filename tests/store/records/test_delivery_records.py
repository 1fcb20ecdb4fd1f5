"""What a row of the outbox holds (store/records/deliveries.py)."""

import pytest
from msgspec import MsgspecError

from taskyard_server.store.records.deliveries import DeliveryRecord, decode_delivery
from taskyard_server.store.records.tasks import encode

FULL = DeliveryRecord("tsk_1", 2, "done", "https://example.org/hook", b'{"taskId": "tsk_1"}', "00-ab-cd-01")


def test_a_delivery_comes_back_as_it_was() -> None:
    assert decode_delivery(encode(FULL)) == FULL


def test_what_the_first_version_wrote_is_read() -> None:
    first = encode(["tsk_1", 1, "failed", "http://example.org/", b"{}"])
    assert decode_delivery(first) == DeliveryRecord("tsk_1", 1, "failed", "http://example.org/", b"{}", None)


def test_fields_that_a_later_version_appended_are_passed_over() -> None:
    later = encode(["tsk_1", 2, "done", "https://example.org/hook", b'{"taskId": "tsk_1"}', "00-ab-cd-01", "new"])
    assert decode_delivery(later) == FULL


@pytest.mark.parametrize("record", [b"", b"\xc1", b"\x90", encode(["tsk_1", "two", "done", "u", b"{}"])])
def test_what_is_no_delivery_is_refused(record: bytes) -> None:
    with pytest.raises(MsgspecError):
        decode_delivery(record)
