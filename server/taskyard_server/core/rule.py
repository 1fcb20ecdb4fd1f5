"""One rule by pattern that a call has set."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .queue.keys import KeyLimit


class Rule:
    """One that was set: the limit of keys, or the weight of agents, that match a pattern. `number` is for a store."""

    __slots__ = ("limit", "number", "pattern", "weight")

    def __init__(self, number: int, pattern: str, limit: KeyLimit | None, weight: int) -> None:
        self.number = number
        self.pattern = pattern
        self.limit = limit
        self.weight = weight
