"""The context of a call that writes messages only while this server may tell them (`calls.Door`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any


class LeaseGuard:
    """A call's context. `may_tell` is asked before each message, and waited for."""

    def __init__(self, context: Any, may_tell: Callable[[], Awaitable[None] | None]) -> None:
        self._context = context
        self._may_tell = may_tell

    async def write(self, message: Any) -> None:
        """Write a message of a stream. Raises `Unavailable` where it may not be told."""
        if (waiting := self._may_tell()) is not None:
            await waiting
        await self._context.write(message)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)
