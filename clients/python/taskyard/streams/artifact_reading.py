"""Reading the bytes of an artifact across broken connections: a new stream goes on where the last one ended."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from typing import Any

import grpc

from taskyard.calls.retrying import BROKEN, Outage
from taskyard.connection.channel import answer_of
from taskyard.connection.credentials import Credentials, Renewal
from taskyard.connection.servers import Server, Servers
from taskyard.errors import Unauthenticated, Unavailable

from .watching import QUIET_SECS

log = logging.getLogger(__name__)


class ArtifactReading:
    """One reading of an artifact, over one stream after the other.

    Args:
        servers: The servers to choose from.
        credentials: What is sent with every stream.
        patience_secs: The longest outage to sit out, in seconds.
        open_calls: Where its stream is listed while it is open. Cancelling it there ends the reading as `ClientClosed`.
    """

    def __init__(self, servers: Servers, credentials: Credentials, patience_secs: float, open_calls: set[Any]) -> None:
        self._servers = servers
        self._credentials = credentials
        self._renewal = Renewal(credentials)
        self._outage = Outage(patience_secs, servers.notice)
        self._open_calls = open_calls

    async def read(
        self, begin: Callable[[grpc.aio.Channel, int, Any], Any], size: int, start: int = 0
    ) -> AsyncGenerator[bytes, None]:
        """Read the bytes.

        Args:
            begin: Begins a stream on a channel at an offset, with this metadata.
            size: The size of the artifact.
            start: Where to begin. Default at its first byte.

        Yields:
            The bytes, some at once.

        Raises:
            TaskyardError: The server refuses it; `Unavailable` after an outage that is longer than the patience.
        """
        while True:
            server = await answer_of(self._servers.pick())
            with server.used() as channel:
                sent = self._credentials.metadata()
                call = begin(channel, start, sent)
                self._open_calls.add(call)
                try:
                    while (data := await self._next(call, server)) is not None:
                        self._renewal.worked()
                        self._outage.end()
                        start += len(data)
                        yield data
                    if start >= size:
                        return
                    raise Unavailable("the server ended the stream")
                except Unauthenticated as error:
                    if not self._renewal.is_worth_it(sent):
                        raise
                    await self._outage.wait(error)
                except BROKEN as error:
                    log.info("the artifact goes on over a new stream: %s", error)
                    self._servers.note(server, error)
                    await self._outage.wait(error)
                finally:
                    self._open_calls.discard(call)
                    call.cancel()

    async def _next(self, call: Any, server: Server) -> bytes | None:
        message = await answer_of(call.read(), server.error_of, QUIET_SECS)
        return None if message is grpc.aio.EOF else message.data
