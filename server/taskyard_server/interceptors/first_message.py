"""The message of a call that has one, which may never come (docs/rules.md, Errors).

grpc calls a handler that takes one message only once it has come. Where the caller ends the stream without it, in the
middle of a frame too, no handler is called and the call is never answered. So such handlers are registered as ones that
take a stream, and read it here.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, TypeAlias

import grpc

from taskyard_server.core.errors import BadRequest

MESSAGE_SECS: Final = 30.0
"""The longest that a call waits for its message."""
NO_MESSAGE: Final = "request: has no message, or only a part of one"

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class FirstMessages:
    """Reads the first messages of calls. One timer serves all calls that wait, since each call begins with this."""

    def __init__(self, secs: float = MESSAGE_SECS) -> None:
        self._secs = secs
        self._waiting: dict[asyncio.Task[Any], float] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def read(self, context: Context) -> Any:
        """The message. Raises `BadRequest` if the stream ends without it, or if it does not come in time."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._waiting[task] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self._secs, self._end_late, loop)
        try:
            message = await context.read()
        except asyncio.CancelledError:
            if task not in self._late:
                raise
            task.uncancel()
            raise BadRequest(f"request: its message did not come within {self._secs:g} s") from None
        finally:
            del self._waiting[task]
            self._late.discard(task)
        if message is grpc.aio.EOF:
            raise BadRequest(NO_MESSAGE)
        return message

    def _end_late(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        # They stand in the order in which they came.
        for task, since in self._waiting.items():
            left = since + self._secs - loop.time()
            if left > 0:
                self._timer = loop.call_later(left, self._end_late, loop)
                return
            if task not in self._late:
                self._late.add(task)
                task.cancel()
