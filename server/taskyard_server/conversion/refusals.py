"""Items of one message that conversion refused: filtered out before the engine, merged into its outcomes after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from taskyard_server.core.errors import Refusal

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


def converted(items: Sequence[Item | Refusal]) -> list[Item]:
    """The items that conversion accepted, for the engine."""
    return [item for item in items if not isinstance(item, Refusal)]


def with_refusals(
    items: Sequence[Item | Refusal], outcomes: Sequence[Outcome | Refusal]
) -> Sequence[Outcome | Refusal]:
    """The outcome of every item, in order. `outcomes` are the engine's, for the accepted items."""
    if len(items) == len(outcomes):
        return outcomes
    remaining = iter(outcomes)
    return [item if isinstance(item, Refusal) else next(remaining) for item in items]
