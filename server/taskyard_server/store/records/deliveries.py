"""A row of the outbox: one webhook that is due, with all that its delivery needs.

Fields are only ever appended, with a default, as in all records (records.py).
"""

from __future__ import annotations

from typing import Final

from msgspec.msgpack import Decoder

from .records import Record


class DeliveryRecord(Record):
    """A webhook. The task ended in this `state`, or `parked-TOKEN`, in this `run`; the body says what was true then."""

    task_id: str
    run: int
    state: str
    url: str
    body: bytes
    traceparent: str | None = None


decode_delivery: Final = Decoder(DeliveryRecord).decode
