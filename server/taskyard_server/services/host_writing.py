"""What is sent on the stream of a host: answers to its messages, tasks and notices from its session.

The writer collects what is pending when it runs: a single task is sent at once, and many tasks share a message, with
the answers to what came before. What need not leave at once waits for a moment for more to share its message with:
counts of accepted reports that nobody waits for, and, while the server is busy, a few tasks for one host.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import grpc
import structlog

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard_server.conversion.timestamps import timestamp
from taskyard_server.conversion.wire import add_varint, nested, tag
from taskyard_server.core.leases import Lease, Stop
from taskyard_server.engine.pace import Pace
from taskyard_server.engine.sessions import DrainNotice, Session
from taskyard_server.engine.turn_taking import AN_ASSIGNMENT, TurnTaking

from .report_answers import Answer

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

log = structlog.get_logger(__name__)

MAX_ASSIGNMENTS_PER_MESSAGE: Final = 50
MAX_ASSIGNMENTS_BYTES: Final = 1_000_000
"""A message of assignments is limited to these, but holds at least one."""
FEW: Final = 2
"""More tasks for one host come of large work: they take their turn, and more may share their message by then."""
MAX_UNSENT_MESSAGES: Final = 100
MAX_UNSENT_BYTES: Final = 1_000_000
"""Reading from a host pauses while more than this waits to be sent to it."""
SECS_BETWEEN_HAND_OUTS: Final = 0.05
"""The time between messages with few tasks to one host, while the server is busy."""
SHARE_AT_ONCE: Final = 0.5
"""Tasks do not wait where they are this share of all that the host takes at once: it might have nothing else to do."""
COUNT_WAIT_SECS = 0.005
"""Maximum time for which a count of accepted reports that accepts no start waits for something to come with."""
FINAL_WRITE_TIMEOUT_SECS: Final = 1.0
"""Maximum wait for each pending write once the stream is closing."""

ASSIGNMENTS: Final = tag(pb.ConnectResponse, "assignments")
ASSIGNMENT: Final = tag(pb.Assignments, "assignments")
ACCEPTED_REPORTS: Final = tag(pb.ConnectResponse, "accepted_reports")
ACKNOWLEDGED_HEARTBEAT: Final = tag(pb.ConnectResponse, "acknowledged_heartbeat")


class StreamEnd:
    """When a stream ends before its host has ended it, and why: `error`, or what ended its session."""

    def __init__(self) -> None:
        self.came: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.error: BaseException | None = None

    def end(self, error: BaseException | None = None) -> None:
        """End the stream; the first error is kept."""
        if self.error is None:
            self.error = error
        if not self.came.done():
            self.came.set_result(None)


class HostWriter:
    """Writes one stream, from its Welcome on. `encode` makes an `Assignment` of a lease."""

    def __init__(self, context: Context, encode: Callable[[Lease], bytes], end: StreamEnd, turns: TurnTaking) -> None:
        self._context, self._encode, self._end, self._turns = context, encode, end, turns
        self._pace = Pace(turns.busyness, SECS_BETWEEN_HAND_OUTS)
        self._clock = asyncio.get_running_loop().time
        self._session: Session | None = None
        self._welcome: bytes | None = None
        self._acks: deque[bytes] = deque()
        self._answers: deque[bytes] = deque()
        self._unsent_bytes = 0
        # These come after all of `_answers`.
        self._accepted = 0
        self._is_awaited = False
        self._acknowledged: int | None = None
        self._assignments_first = False
        self._wait: asyncio.TimerHandle | None = None
        self._tasks_wait = self._has_waited = False
        self._closing = self._writing = False
        self._write_done: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def open(self, session: Session, welcome: bytes) -> None:
        """Send the Welcome, and then what the session has to tell."""
        self._session, self._welcome = session, welcome
        self.look()

    def look(self) -> None:
        """Send what the session has to tell."""
        session = self._session
        if session is None:
            # The welcome comes first.
            return
        self._start()
        if session.ended is not None:
            self._end.end()

    def answer(self, answer: Answer) -> None:
        """Send the answer to a message of reports, after those before it."""
        for part in answer.parts:
            if isinstance(part, int):
                self._accepted += part
            else:
                message = self._accepted_field() + part
                self._answers.append(message)
                self._unsent_bytes += len(message)
        if answer.is_awaited and self._accepted:
            self._is_awaited = True
        if answer.parts:
            self._start()

    def acknowledge(self, sequence: int) -> None:
        """Answer a heartbeat that came with reports, with whatever is sent next."""
        if self._acknowledged is not None:
            ack = pb.HeartbeatAck(sequence=self._acknowledged)
            self._acks.append(pb.ConnectResponse(heartbeat_ack=ack).SerializeToString())
        self._acknowledged = sequence
        self._start()

    async def acknowledge_alone(self, ack: bytes) -> None:
        """Answer a heartbeat by a message. Where nothing else is sent that is done here: cheaper for idle hosts."""
        if self._writing:
            self._acks.append(ack)
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
        """Whether so much waits to be sent that nothing more should be read."""
        return len(self._answers) > MAX_UNSENT_MESSAGES or self._unsent_bytes > MAX_UNSENT_BYTES

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
        self._closing = True
        self._start()

    async def flush(self) -> None:
        """Send what is pending, as long as the host reads it."""
        while self._writing and await self.wait_for_write(FINAL_WRITE_TIMEOUT_SECS):
            pass

    def drop(self) -> None:
        """Send nothing more."""
        self._end_wait()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _start(self) -> None:
        if not self._writing and self._is_due():
            self._writing = True
            self._task = asyncio.create_task(self._write_pending())

    async def _write_pending(self) -> None:
        """Send messages until nothing is pending, including those that are added meanwhile."""
        try:
            while True:
                if (leases := self._many_leases()) > 0:
                    await self._turns.take(AN_ASSIGNMENT * leases)
                if (message := self._next_message()) is None or not await self._send(message):
                    break
                self._note_write()
        except Exception as error:
            self._end.end(error)
        finally:
            self._note_write(writing=False)

    def _many_leases(self) -> int:
        """How many leases there are to send in one message, 0 if they are few: a single one waits for nobody."""
        leases = 0 if self._session is None else self._session.pending
        return min(leases, MAX_ASSIGNMENTS_PER_MESSAGE) if leases > FEW else 0

    async def _send(self, message: bytes) -> bool:
        """Send one message. Returns False if the connection is lost, which ends the stream."""
        try:
            await self._context.write(message)
        except Exception as error:
            host_id = None if self._session is None else self._session.host.id
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

    def _is_due(self) -> bool:
        """Whether anything is to be sent now. What may wait does from now on, but not for long."""
        session = self._session
        assert session is not None
        if self._is_awaited or self._acks or self._answers or session.has_notices or self._welcome is not None:
            return True
        if session.has_leases and not self._closing:
            return not self._must_wait(session)
        has_fields = self._accepted > 0 or self._acknowledged is not None
        return has_fields and not self._count_waits()

    def _next_message(self) -> bytes | None:
        """The next message to send, encoded; None if nothing is pending, or all of it may wait.

        Answers and assignments alternate, so that neither waits for ever. A count rides with whatever is sent, once the
        answers before it are sent; so does an acknowledgement.
        """
        if not self._is_due():
            return None
        session = self._session
        assert session is not None
        message = self._next_of_session(session)
        if message is None and self._may_send_tasks(session):
            message = self._next_assignments(session)
        accepted = 0 if self._answers else self._accepted
        if message is None and self._answers:
            self._assignments_first = True
            message = self._answers.popleft()
            self._unsent_bytes -= len(message)
        elif message is None:
            self._end_wait()
            if not accepted and self._acknowledged is None:
                return None
            message = b""
        if accepted:
            message = self._accepted_field() + message
        return message if self._acknowledged is None else self._acknowledged_field() + message

    def _may_send_tasks(self, session: Session) -> bool:
        """Whether tasks are to be sent before the next answer to reports."""
        if not session.has_leases or self._closing:
            return False
        return not self._answers or (self._assignments_first and not self._must_wait(session))

    def _next_of_session(self, session: Session) -> bytes | None:
        """The next message that has neither tasks nor answers to reports, encoded; None if there is none.

        Stops come before new tasks. The answers to heartbeats come first: they wait for no commit.
        """
        if self._welcome is not None:
            welcome, self._welcome = self._welcome, None
            return welcome
        if self._acks:
            return self._acks.popleft()
        if stops := session.take_stops():
            cancellations = pb.Cancellations(cancellations=map(_cancellation, stops))
            return pb.ConnectResponse(cancellations=cancellations).SerializeToString()
        if (drain := session.take_drain()) is not None:
            return pb.ConnectResponse(drain=_drain(drain)).SerializeToString()
        if (heartbeat_secs := session.take_heartbeat_secs()) is not None:
            interval = pb.HeartbeatInterval(heartbeat_interval_ms=round(heartbeat_secs * 1000))
            return pb.ConnectResponse(heartbeat_interval=interval).SerializeToString()
        return None

    def _next_assignments(self, session: Session) -> bytes | None:
        """A message of assignments; None if all leases to send have ended."""
        assignments: list[bytes] = []
        size = 0
        while not assignments and session.has_leases:
            for lease in session.next_leases(MAX_ASSIGNMENTS_PER_MESSAGE):
                assignment = self._encode(lease)
                size += len(assignment)
                if assignments and size > MAX_ASSIGNMENTS_BYTES:
                    break
                session.mark_sent(lease)
                assignments.append(nested(ASSIGNMENT, assignment))
        if not assignments:
            return None
        self._assignments_first = False
        self._pace.sent(self._clock())
        self._end_wait()
        return nested(ASSIGNMENTS, b"".join(assignments))

    def _must_wait(self, session: Session) -> bool:
        """Whether the tasks to send are few and wait for more; from now on they do, but not for long."""
        pending, offer = session.pending, session.offer
        if self._has_waited or pending >= MAX_ASSIGNMENTS_PER_MESSAGE:
            return False
        if pending >= SHARE_AT_ONCE * (len(offer.host.leases) + offer.room):
            return False
        if session.pending <= FEW and self._turns.is_shared:
            # It may be a lone one, whose caller waits for it.
            return False
        if self._tasks_wait:
            return True
        secs = self._pace.wait_secs(self._clock())
        if secs > 0:
            self._end_wait()
            self._tasks_wait = True
            self._wait = asyncio.get_running_loop().call_later(secs, self._waited)
        return self._tasks_wait

    def _count_waits(self) -> bool:
        """Whether a count waits for something to come with; from now on it does, but not for long."""
        if self._has_waited or self._closing:
            return False
        if self._wait is None:
            self._wait = asyncio.get_running_loop().call_later(COUNT_WAIT_SECS, self._waited)
        return True

    def _waited(self) -> None:
        self._wait, self._tasks_wait, self._has_waited = None, False, True
        self._start()

    def _end_wait(self) -> None:
        self._tasks_wait = self._has_waited = False
        if self._wait is not None:
            self._wait.cancel()
            self._wait = None

    def _accepted_field(self) -> bytes:
        """How many reports are accepted after the last answer, as a field of a message; empty if none."""
        if not self._accepted:
            return b""
        parts = [ACCEPTED_REPORTS]
        add_varint(parts, self._accepted)
        self._accepted, self._is_awaited = 0, False
        return b"".join(parts)

    def _acknowledged_field(self) -> bytes:
        """The answer to a heartbeat that came with reports, as a field of a message."""
        assert self._acknowledged is not None
        parts = [ACKNOWLEDGED_HEARTBEAT]
        add_varint(parts, self._acknowledged)
        self._acknowledged = None
        return b"".join(parts)


def _cancellation(stop: Stop) -> pb.Cancellation:
    return pb.Cancellation(
        task_id=stop.lease.task.id,
        fencing_token=stop.lease.token,
        reason=pb.Cancellation.Reason.Value(stop.reason.value),
        message=stop.message,
    )


def _drain(notice: DrainNotice) -> pb.Drain:
    deadline = None if notice.deadline is None else timestamp(notice.deadline)
    return pb.Drain(deadline=deadline, reason=notice.reason, reconnect=notice.reconnect)
