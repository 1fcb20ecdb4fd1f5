"""Rules that were set by calls as records (`records.py` says what holds for all of them)."""

from __future__ import annotations

from typing import Final

from msgspec.msgpack import Decoder

from taskyard_server.core.changes import Rule
from taskyard_server.core.queue.keys import KeyLimit

from .records import Record
from .tasks import encode


class RuleRecord(Record):
    """The limit of the keys that match a pattern, or the weight of agents: then `limit` is None."""

    pattern: str
    weight: int
    limit: tuple[int | None, float | None, int | None] | None


decode_rule: Final = Decoder(RuleRecord).decode


def encode_rule(rule: Rule) -> bytes:
    """A `RuleRecord`."""
    limit = rule.limit
    values = None if limit is None else (limit.max_inflight, limit.per_second, limit.burst)
    return encode(RuleRecord(rule.pattern, rule.weight, values))


def to_rule(record: RuleRecord, number: int) -> Rule:
    """The rule, ready for `Rules.restore`."""
    return Rule(number, record.pattern, None if record.limit is None else KeyLimit(*record.limit), record.weight)
