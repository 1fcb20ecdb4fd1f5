"""The connection of a parent and one of its server processes: calls in both directions over a pair of sockets.

A frame is a length of four bytes, then a tuple in marshal's format. Calls are begun in the order in which they come,
and answered as they are done. Whoever is at the other end is of the same version: the parent started it.
"""

from __future__ import annotations

import asyncio
import marshal
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import structlog

log = structlog.get_logger(__name__)

CALL: Final = 0
TELL: Final = 1
DONE: Final = 2
FAILED: Final = 3
"""Kinds of frames: a call, a call that wants no answer, and answers."""

Serve = Callable[[str, tuple[Any, ...]], Awaitable[Any]]


class ChannelClosed(Exception):
    """The other end has gone; whether a call took effect there is not known."""


class Channel:
    """One end. `serve` answers what the other end calls, by the name of a method, once `run` does.

    `errors` are the exceptions, by name, that are raised here when they were raised there; others become
    `ChannelClosed`, and are a defect. Arguments and answers are what marshal can carry: no subclasses of tuples.
    """

    def __init__(self, serve: Serve, errors: Mapping[str, type[Exception]]) -> None:
        self.serve = serve
        self._errors = errors
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._last = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def open(self, own: socket.socket) -> None:
        """Take this end of the pair."""
        self._reader, self._writer = await asyncio.open_connection(sock=own)

    async def run(self) -> None:
        """Serve until the other end has gone; calls that wait are then ended with `ChannelClosed`."""
        assert self._reader is not None
        try:
            while True:
                size = int.from_bytes(await self._reader.readexactly(4), "little")
                self._take(marshal.loads(await self._reader.readexactly(size)))
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self.close()

    def close(self) -> None:
        """Call and answer no more."""
        self._is_closed = True
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(ChannelClosed("the other process has ended"))
                # A caller that is gone does not ask for it.
                answer.exception()
        if self._writer is not None:
            self._writer.close()

    async def call(self, method: str, *arguments: Any) -> Any:
        """What the other end answers. Raises `ChannelClosed`, and what was raised there."""
        if self._is_closed or self._writer is None:
            raise ChannelClosed("the other process has ended")
        self._last += 1
        number = self._last
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._send((number, CALL, method, arguments))
        try:
            return await answer
        finally:
            self._waiting.pop(number, None)

    def tell(self, method: str, *arguments: Any) -> None:
        """Call, and want no answer. One that has gone need not know."""
        if not self._is_closed and self._writer is not None:
            self._send((0, TELL, method, arguments))

    def _send(self, frame: tuple[Any, ...]) -> None:
        assert self._writer is not None
        body = marshal.dumps(frame, 2)
        self._writer.write(len(body).to_bytes(4, "little") + body)

    def _take(self, frame: tuple[Any, ...]) -> None:
        number, kind, *rest = frame
        if kind in (CALL, TELL):
            method, arguments = rest
            serving = asyncio.get_running_loop().create_task(self._answer(number, kind, method, arguments))
            self._serving.add(serving)
            serving.add_done_callback(self._serving.discard)
            return
        answer = self._waiting.get(number)
        if answer is None or answer.done():
            return
        if kind == DONE:
            answer.set_result(rest[0])
        else:
            name, text = rest
            answer.set_exception(self._errors.get(name, ChannelClosed)(text))

    async def _answer(self, number: int, kind: int, method: str, arguments: tuple[Any, ...]) -> None:
        try:
            value = await self.serve(method, arguments)
        except Exception as error:
            if type(error).__name__ not in self._errors:
                log.exception("process_call_failed", method=method)
            answer: tuple[Any, ...] = (number, FAILED, type(error).__name__, str(error))
        else:
            answer = (number, DONE, value)
        if kind == CALL and not self._is_closed:
            self._send(answer)
