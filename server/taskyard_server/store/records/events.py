"""Events that are kept for parked tasks as records (`records.py` says what holds for all of them)."""

from __future__ import annotations

from typing import Final

from msgspec.msgpack import Decoder

from taskyard_server.core.names import names
from taskyard_server.core.runs.events import NewEvent, SentEvent

from .records import Record
from .tasks import encode


class EventRecord(Record):
    """An event that is kept. `agents` are the patterns of those whose tasks it is for, None for all."""

    name: str
    event_id: str
    payload: bytes
    at: float
    until: float
    waited: int
    by: str | None = None
    agents: tuple[str, ...] | None = None


decode_event: Final = Decoder(EventRecord).decode


def encode_event(event: SentEvent) -> bytes:
    """An `EventRecord`."""
    agents = None if event.agents is None else tuple(event.agents.patterns)
    return encode(
        EventRecord(event.name, event.event_id, event.payload, event.at, event.until, event.waited, event.by, agents)
    )


def to_event(its: EventRecord, number: int, shift: float) -> SentEvent:
    """The event, ready for `SentEvents.restore`, with its times moved."""
    agents = None if its.agents is None else names(its.agents)
    new = NewEvent(its.name, its.event_id, its.payload, its.until - its.at, its.by, agents)
    return SentEvent(number, new, its.at + shift, its.until + shift, its.waited)
