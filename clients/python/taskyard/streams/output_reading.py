"""Reading the output of a task across broken connections: a new stream goes on after the last chunk that came."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import grpc

from taskyard.calls.retrying import BROKEN, Outage
from taskyard.connection.channel import answer_of
from taskyard.connection.credentials import Credentials, Renewal
from taskyard.connection.servers import Server, Servers
from taskyard.errors import Unauthenticated, Unavailable
from taskyard.records.output import OutputChunk
from taskyard.records.tasks import STATE_OF_NUMBER
from taskyard.v1 import output_pb2 as pb
from taskyard.v1.output_pb2_grpc import OutputServiceStub

from .watching import QUIET_SECS

log = logging.getLogger(__name__)

OnDropped = Callable[[int], None]

WAS_DROPPED: Final = "task %s: %d chunks of its output were dropped to make room"


class OutputReading:
    """One reading of a task's output, over one stream after the other.

    Args:
        servers: The servers to choose from.
        credentials: What is sent with every stream.
        request: What to read, and where to begin. It is changed.
        patience_secs: The longest outage to sit out, in seconds.
        open_calls: Where its stream is listed while it is open. Cancelling it there ends the reading as `ClientClosed`.
        on_dropped: Called with the number of chunks that are missing since they were dropped to make room. Default a
            warning is logged.
    """

    def __init__(
        self,
        servers: Servers,
        credentials: Credentials,
        request: pb.ReadOutputRequest,
        patience_secs: float,
        open_calls: set[Any],
        on_dropped: OnDropped | None = None,
    ) -> None:
        self._servers = servers
        self._credentials = credentials
        self._renewal = Renewal(credentials)
        self._request = request
        self._outage = Outage(patience_secs, servers.notice)
        self._open_calls = open_calls
        self._on_dropped = on_dropped
        self._has_ended = False
        """True if the task had ended when what came last was read."""

    async def chunks(self) -> AsyncGenerator[OutputChunk, None]:
        """Read the chunks, to the end of the task if the request follows it, else those that are kept now.

        Yields:
            The chunks.

        Raises:
            TaskyardError: The server refuses it; `Unavailable` after an outage that is longer than the patience.
        """
        while True:
            server = await answer_of(self._servers.pick())
            with server.used() as channel:
                sent = self._credentials.metadata()
                call = OutputServiceStub(channel).ReadOutput(self._request, metadata=sent)
                self._open_calls.add(call)
                try:
                    while (message := await self._read(call, server)) is not None:
                        self._renewal.worked()
                        self._outage.end()
                        self._tell_dropped(message)
                        for chunk in message.chunks:
                            yield OutputChunk.from_message(chunk)
                            self._request.after = chunk.sequence
                        self._request.after = message.next_after
                        self._has_ended = STATE_OF_NUMBER[message.state].ended
                    if self._has_ended or not self._request.follow:
                        return
                    raise Unavailable("the server ended the stream")
                except Unauthenticated as error:
                    if not self._renewal.is_worth_it(sent):
                        raise
                    log.info("the output goes on over a new stream: %s", error)
                    await self._outage.wait(error)
                except BROKEN as error:
                    log.info("the output goes on over a new stream: %s", error)
                    self._servers.note(server, error)
                    await self._outage.wait(error)
                finally:
                    self._open_calls.discard(call)
                    call.cancel()

    async def _read(self, call: Any, server: Server) -> pb.ReadOutputResponse | None:
        message = await answer_of(call.read(), server.error_of, QUIET_SECS)
        if message is grpc.aio.EOF:
            return None
        assert isinstance(message, pb.ReadOutputResponse)
        return message

    def _tell_dropped(self, message: pb.ReadOutputResponse) -> None:
        # The server may still have more than it promises.
        first = min([message.first_sequence, *(chunk.sequence for chunk in message.chunks[:1])])
        dropped = first - 1 - self._request.after
        if dropped <= 0:
            return
        self._request.after = first - 1
        if self._on_dropped is not None:
            self._on_dropped(dropped)
        else:
            log.warning(WAS_DROPPED, self._request.task_id, dropped)
