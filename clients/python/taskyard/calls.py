"""How a client makes its calls: in its namespace, in its time, and again where a repeat is safe."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from .channel import answer_of, check_process
from .errors import ClientClosed
from .retrying import persistent

T = TypeVar("T")


class Calls:
    """The calls of one client. Its channel repeats by itself those that change nothing, see `channel`."""

    def __init__(self, metadata: tuple[tuple[str, str], ...], timeout_secs: float, patience_secs: float) -> None:
        self._metadata = metadata
        self._timeout = timeout_secs
        self._patience = patience_secs
        self.closed = False

    async def once(self, method: Callable[..., Awaitable[T]], request: Any, timeout_secs: float | None = None) -> T:
        """The call's answer. Raises a `TaskyardError`, `ClientClosed` once the client is closed."""
        self.check_open()
        return await answer_of(method(request, metadata=self._metadata, timeout=timeout_secs or self._timeout))

    async def repeated(
        self, method: Callable[..., Awaitable[T]], request: Any, timeout_secs: float | None = None
    ) -> tuple[T, bool]:
        """The answer of a call that is repeated while the server is unavailable, and whether it took more than one try.

        Raises what `once` does, `Unavailable` only after the client's patience.
        """
        return await self.attempted(lambda: self.once(method, request, timeout_secs))

    async def attempted(self, attempt: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """The same for an attempt that does more than one call."""
        return await persistent(attempt, self._patience)

    def check_open(self) -> None:
        """Raises `ClientClosed` once the client is closed, RuntimeError in a process that was forked meanwhile."""
        check_process()
        if self.closed:
            raise ClientClosed("the client is closed")
