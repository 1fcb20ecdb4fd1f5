"""The stream of a runtime host: a `HostConnection` opens its session, and serves it until it ends.

Reading (`host_reading.py`) and writing (`host_writing.py`) are independent, except that reading pauses while the host
does not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import grpc
import structlog

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard_server.core.errors import BadRequest, Refusal
from taskyard_server.core.leases import Lease
from taskyard_server.core.streams import Hello
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.sessions import Session
from taskyard_server.interceptors.callers import current_call

from .host_hello import read_hello, welcome_message
from .host_reading import HostReader, RequestStream
from .host_writing import HostWriter, StreamEnd

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

log = structlog.get_logger(__name__)

HELLO_TIMEOUT_SECS: Final = 30.0
NO_REQUEST: Final = pb.ConnectRequest()
"""Stands for the end of the request stream."""


class HostConnection:
    """Serves one stream, from its first message to its end. `encode` makes an `Assignment` of a lease."""

    def __init__(
        self, engine: Engine, max_payload_bytes: int, context: Context, encode: Callable[[Lease], bytes]
    ) -> None:
        self._engine, self._max_payload_bytes, self._call = engine, max_payload_bytes, current_call()
        self._end = StreamEnd()
        self._writer = HostWriter(context, encode, self._end, engine.fair_yield)

    async def serve(self, stream: RequestStream) -> None:
        """Serve until the host disconnects. Raises the reason if the server ends the stream."""
        first = await self._first(stream)
        hello = read_hello(first, self._call.access, self._max_payload_bytes)
        counts = first.counts_accepted
        session = await self._open(hello, counts)
        reader = HostReader(self._engine, self._call, session, self._writer, self._end, self._max_payload_bytes, counts)
        reading = asyncio.create_task(reader.read(stream))
        try:
            await asyncio.wait((reading, self._end.came), return_when=asyncio.FIRST_COMPLETED)
            self._writer.close()
            await self._engine.hosts.disconnect(session)
            await self._writer.flush()
            read_error = reading.exception() if reading.done() else None
            error = session.ended or self._end.error or read_error
            if error is not None:
                raise error
        finally:
            reading.cancel()
            reader.drop()
            self._writer.drop()
            await self._engine.hosts.disconnect(session)
            log.info("host_disconnected", host_id=hello.host_id, namespace=self._call.namespace)

    async def _first(self, stream: RequestStream) -> pb.Hello:
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_SECS):
                first = await anext(stream, NO_REQUEST)
        except TimeoutError:
            raise BadRequest(f"hello: must come within {HELLO_TIMEOUT_SECS:g} s") from None
        if isinstance(first, Refusal):
            raise first
        if not first.HasField("hello"):
            raise BadRequest("hello: must come first")
        return first.hello

    async def _open(self, hello: Hello, counts: bool) -> Session:
        """Open the session of the stream, and let the writer send the welcome."""
        limits, takes_output = self._engine.limits, self._engine.output.is_taken
        most = self._max_payload_bytes if self._engine.artifacts.are_taken else 0
        session, welcome = await self._engine.hosts.connect(
            self._call.namespace,
            hello,
            self._writer.look,
            show=lambda welcome: welcome_message(welcome, limits, counts, takes_output, most),
        )
        self._writer.open(session, pb.ConnectResponse(welcome=welcome).SerializeToString())
        log.info("host_connected", host_id=hello.host_id, namespace=self._call.namespace, kept=len(welcome.kept))
        return session
