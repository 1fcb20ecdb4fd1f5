"""The answer of a command that was applied when it was called, as an awaitable."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Answer(Generic[T]):
    """Awaiting it gives the `value` once what it tells of is kept, `kept`; None where nothing is waited for.

    Unlike a coroutine it may be awaited several times, or never. Who reads `value` earlier must not tell it to anybody.
    """

    __slots__ = ("kept", "value")

    def __init__(self, value: T, kept: asyncio.Future[None] | None = None) -> None:
        self.value = value
        self.kept = kept

    def __await__(self) -> Generator[Any, None, T]:
        if self.kept is not None:
            yield from self.kept
        return self.value
