"""The acknowledgements of a stream whose messages were applied before they are kept.

Reading a stream does not wait for a commit, so that a slow disk delays answers and not heartbeats. They leave in the
order of their messages, each once that is kept (docs/operate/durability.md, Streams).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

Ack = TypeVar("Ack")

MAX_AHEAD: Final = 8
MAX_AHEAD_BYTES: Final = 4 * 1024 * 1024
"""Maximum messages, and their bytes, that are applied and not kept yet."""


class PendingAcks(Generic[Ack]):
    """Those that wait for a commit. Each is passed to `send` once that is kept, or the reason why not to `fail`."""

    def __init__(self, send: Callable[[Ack], None], fail: Callable[[BaseException], None]) -> None:
        self._send = send
        self._fail = fail
        self._acks: deque[tuple[Ack, int, asyncio.Future[None]]] = deque()
        self._bytes = 0
        self._shrunk: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._acks)

    def add(self, ack: Ack, message_bytes: int, kept: asyncio.Future[None] | None) -> None:
        """Send one once its message is kept and all before it were sent; None says that it is already."""
        if kept is None or kept.done():
            if not self._acks and (kept is None or kept.exception() is None):
                self._send(ack)
                return
            if kept is None:
                kept = asyncio.get_running_loop().create_future()
                kept.set_result(None)
        self._acks.append((ack, message_bytes, kept))
        self._bytes += message_bytes
        kept.add_done_callback(self._pass_on)

    @property
    def has_room(self) -> bool:
        """True if another message may be applied."""
        return len(self._acks) < MAX_AHEAD and self._bytes < MAX_AHEAD_BYTES

    async def wait_for_room(self) -> None:
        """Wait until another message may be applied."""
        while not self.has_room:
            await self._wait()

    async def wait_for_all(self) -> None:
        """Wait until all were passed on."""
        while self._acks:
            await self._wait()

    def drop(self) -> None:
        """The stream is gone: pass on nothing more."""
        self._send = self._fail = _ignore
        self._acks.clear()

    async def _wait(self) -> None:
        if self._shrunk is None:
            self._shrunk = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._shrunk,))

    def _pass_on(self, _: asyncio.Future[None]) -> None:
        while self._acks and self._acks[0][2].done():
            ack, message_bytes, kept = self._acks.popleft()
            self._bytes -= message_bytes
            error = kept.exception()
            if error is None:
                self._send(ack)
            else:
                self._acks.clear()
                self._fail(error)
        if self._shrunk is not None:
            self._shrunk.set_result(None)
            self._shrunk = None


def _ignore(_: object) -> None:
    """The receiver once the stream is gone."""
