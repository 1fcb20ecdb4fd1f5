"""HEAD for streams: a stream that was asked for by HEAD ends where its first message would begin.

The gateway makes every HEAD a GET and drops the body of the answer. An answer that never ends would hold the caller's
connection for ever, since HTTP/1.1 has no next answer before the end of this one.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn, TypeAlias

import grpc

HEAD_KEY: Final = "x-taskyard-head"
"""Marks a call that came as HEAD. Nobody else can send it through the gateway."""

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class HeadersSent(Exception):
    """The answer to a HEAD is complete."""


class HeadContext:
    """The context of a stream whose first message ends it."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def write(self, message: object) -> NoReturn:
        """End the stream."""
        del message
        raise HeadersSent
