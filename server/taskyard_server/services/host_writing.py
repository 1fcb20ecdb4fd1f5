"""Writes the stream of a host: what `host_outbox.py` says is due, one message after the other.

The writer asks when it is free to write: what has come by then shares a message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import grpc
import structlog

from taskyard_server.core.leases import Lease
from taskyard_server.engine.fair_yield import AN_ASSIGNMENT, FairYield
from taskyard_server.engine.sessions import Session

from .host_outbox import HostOutbox
from .report_acks import ReportAck

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

log = structlog.get_logger(__name__)

FINAL_WRITE_TIMEOUT_SECS: Final = 1.0
"""Maximum wait for each pending write once the stream is closing."""


class StreamEnd:
    """When a stream ends before its host has ended it, and why: `error`, or what ended its session."""

    def __init__(self) -> None:
        self.came: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.error: BaseException | None = None

    def end(self, error: BaseException | None = None) -> None:
        """End the stream; the first error stays."""
        if self.error is None:
            self.error = error
        if not self.came.done():
            self.came.set_result(None)


class HostWriter:
    """Writes one stream, from its Welcome on. `encode` makes an `Assignment` of a lease."""

    def __init__(
        self, context: Context, encode: Callable[[Lease], bytes], end: StreamEnd, fair_yield: FairYield
    ) -> None:
        self._context, self._end, self._fair_yield = context, end, fair_yield
        self._outbox = HostOutbox(encode, fair_yield)
        self._writing = False
        self._write_done: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def open(self, session: Session, welcome: bytes) -> None:
        """Send the Welcome, and then what the session has to tell."""
        self._outbox.open(session, welcome, self._start)
        self.look()

    def look(self) -> None:
        """Send what the session has to tell."""
        session = self._outbox.session
        if session is None:
            # The welcome comes first.
            return
        self._start()
        if session.ended is not None:
            self._end.end()

    def answer(self, ack: ReportAck) -> None:
        """Send the acknowledgement of a message of reports, after those before it."""
        if ack.parts:
            self._outbox.answer(ack)
            self._start()

    def acknowledge(self, sequence: int) -> None:
        """Answer a heartbeat that came with reports, with whatever is sent next."""
        self._outbox.acknowledge(sequence)
        self._start()

    async def acknowledge_alone(self, ack: bytes) -> None:
        """Answer a heartbeat by a message. Where nothing else is sent that is done here: cheaper for idle hosts."""
        if self._writing:
            self._outbox.acknowledge_alone(ack)
            return
        self._writing = True
        try:
            is_sent = await self._send(ack)
        finally:
            self._note_write(writing=False)
        if is_sent:
            self._start()

    @property
    def is_full(self) -> bool:
        """True if so much waits to be sent that nothing more should be read."""
        return self._outbox.is_full

    async def wait_for_write(self, timeout_secs: float | None = None) -> bool:
        """Wait until the current write is done. Returns False if the timeout passes first."""
        if not self._writing:
            return True
        if self._write_done is None:
            self._write_done = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait((self._write_done,), timeout=timeout_secs)
        return bool(done)

    def close(self) -> None:
        """Send no more tasks, and what else is pending without waiting for more."""
        self._outbox.close()
        self._start()

    async def flush(self) -> None:
        """Send what is pending, as long as the host reads it."""
        while self._writing and await self.wait_for_write(FINAL_WRITE_TIMEOUT_SECS):
            pass

    def drop(self) -> None:
        """Send nothing more."""
        self._outbox.drop()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _start(self) -> None:
        if not self._writing and self._outbox.is_due():
            self._writing = True
            self._task = asyncio.create_task(self._write_pending())

    async def _write_pending(self) -> None:
        """Send messages until nothing is pending, including those that are added meanwhile."""
        try:
            while True:
                if (leases := self._outbox.many_leases) > 0:
                    await self._fair_yield.take(AN_ASSIGNMENT * leases)
                if (message := self._outbox.next_message()) is None or not await self._send(message):
                    break
                self._note_write()
        except Exception as error:
            self._end.end(error)
        finally:
            self._note_write(writing=False)

    async def _send(self, message: bytes) -> bool:
        """Send one message. Returns False if the connection is lost, which ends the stream."""
        try:
            await self._context.write(message)
        except Exception as error:
            session = self._outbox.session
            host_id = None if session is None else session.host.id
            log.debug("write_failed", host_id=host_id, error=str(error))
            self._end.end()
            return False
        return True

    def _note_write(self, writing: bool = True) -> None:
        """Note that a write is done, and whether the next one follows."""
        self._writing = writing
        if self._write_done is not None:
            self._write_done.set_result(None)
            self._write_done = None
