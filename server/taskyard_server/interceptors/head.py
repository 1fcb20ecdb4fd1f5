"""HEAD for streams: a stream ends before its first message.

The gateway makes a GET of every HEAD and drops the body of the answer. An answer that never ends would block the
connection of the caller, since in HTTP/1.1 the next answer follows the end of this one.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn, TypeAlias

import grpc

HEAD_KEY: Final = "x-taskyard-head"
"""The metadata that marks a HEAD. Callers cannot send it through the gateway."""

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class HeadersSent(Exception):
    """The answer to a HEAD is complete."""


class HeadContext:
    """The context of a stream that ends before its first message."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def write(self, message: object) -> NoReturn:
        """End the stream."""
        del message
        raise HeadersSent
