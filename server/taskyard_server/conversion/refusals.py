"""The items of one message that were refused in conversion: kept aside, and merged into the engine's answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from taskyard_server.core.errors import Refusal

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


def converted(items: Sequence[Item | Refusal]) -> list[Item]:
    """The items that the engine gets."""
    return [item for item in items if not isinstance(item, Refusal)]


def with_refusals(items: Sequence[Item | Refusal], outcomes: list[Outcome | Refusal]) -> list[Outcome | Refusal]:
    """The outcome of every item, in order; `outcomes` are the engine's, of those that it got."""
    if len(items) == len(outcomes):
        return outcomes
    rest = iter(outcomes)
    return [item if isinstance(item, Refusal) else next(rest) for item in items]
