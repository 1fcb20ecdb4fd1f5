"""The queue of a host's stream, as encoded messages: the next one, and whether it is due now.

A single task is sent at once, and many tasks share a message, with the answers to what came before. What need not leave
at once waits for a moment for more to share its message with: counts of accepted reports that nobody waits for, and,
while the server is busy, a few tasks for one host.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard_server.conversion.timestamps import timestamp
from taskyard_server.conversion.wire import add_varint, nested, tag
from taskyard_server.core.leases import Lease, Stop
from taskyard_server.engine.fair_yield import FairYield
from taskyard_server.engine.pace import Pace
from taskyard_server.engine.sessions import Session

from .report_acks import ReportAck

MAX_ASSIGNMENTS_PER_MESSAGE: Final = 50
MAX_ASSIGNMENTS_BYTES: Final = 1_000_000
"""A message of assignments is limited to these, but holds at least one."""
FEW: Final = 2
"""More tasks for one host come of large work: they wait for their slice, and more may share their message by then."""
MAX_UNSENT_MESSAGES: Final = 100
MAX_UNSENT_BYTES: Final = 1_000_000
"""Reading from a host pauses while more than this waits to be sent to it."""
SECS_BETWEEN_HAND_OUTS = 0.05
"""The time between messages with few tasks to one host, while the server is busy."""
SHORT_WAIT_SECS: Final = 0.004
"""Maximum time for which tasks wait for more while it is half busy, or lone ones come, whose callers wait for them."""
SHARE_AT_ONCE: Final = 0.5
"""Tasks do not wait where they are this share of all that the host takes at once: it might have nothing else to do."""
COUNT_WAIT_SECS = 0.005
"""Maximum time for which a count of accepted reports that accepts no start waits for something to come with."""

ASSIGNMENTS: Final = tag(pb.ConnectResponse, "assignments")
ASSIGNMENT: Final = tag(pb.Assignments, "assignments")
ACCEPTED_REPORTS: Final = tag(pb.ConnectResponse, "accepted_reports")
ACKNOWLEDGED_HEARTBEAT: Final = tag(pb.ConnectResponse, "acknowledged_heartbeat")


class HostOutbox:
    """Messages that wait to be sent on one stream, once it is open. `encode` makes an `Assignment` of a lease."""

    def __init__(self, encode: Callable[[Lease], bytes], fair_yield: FairYield) -> None:
        self.session: Session | None = None
        self._encode, self._fair_yield = encode, fair_yield
        self._on_due: Callable[[], None] = _ignore
        self._pace = Pace(fair_yield.busyness, SECS_BETWEEN_HAND_OUTS, SHORT_WAIT_SECS)
        self._clock = asyncio.get_running_loop().time
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
        self._closing = False

    def open(self, session: Session, welcome: bytes, on_due: Callable[[], None]) -> None:
        """Begin with the Welcome. `on_due` is called when what may wait has waited for long enough."""
        self.session, self._welcome, self._on_due = session, welcome, on_due

    def answer(self, ack: ReportAck) -> None:
        """Add the acknowledgement of a message of reports, after those before it."""
        for part in ack.parts:
            if isinstance(part, int):
                self._accepted += part
            else:
                message = self._accepted_field() + part
                self._answers.append(message)
                self._unsent_bytes += len(message)
        if ack.is_awaited and self._accepted:
            self._is_awaited = True

    def acknowledge(self, sequence: int) -> None:
        """Answer a heartbeat that came with reports, with whatever is sent next."""
        if self._acknowledged is not None:
            ack = pb.HeartbeatAck(sequence=self._acknowledged)
            self._acks.append(pb.ConnectResponse(heartbeat_ack=ack).SerializeToString())
        self._acknowledged = sequence

    def acknowledge_alone(self, ack: bytes) -> None:
        """Answer a heartbeat by a message."""
        self._acks.append(ack)

    @property
    def is_full(self) -> bool:
        """True if so much waits to be sent that nothing more should be read."""
        return len(self._answers) > MAX_UNSENT_MESSAGES or self._unsent_bytes > MAX_UNSENT_BYTES

    def close(self) -> None:
        """Send no more tasks, and let nothing wait."""
        self._closing = True

    @property
    def many_leases(self) -> int:
        """How many leases there are to send in one message, 0 if they are few: a single one waits for nobody."""
        leases = 0 if self.session is None else self.session.pending
        return min(leases, MAX_ASSIGNMENTS_PER_MESSAGE) if leases > FEW else 0

    def is_due(self) -> bool:
        """True if anything is to be sent now. What may wait does from now on, but not for long."""
        session = self.session
        assert session is not None
        if self._is_awaited or self._acks or self._answers or session.has_notices or self._welcome is not None:
            return True
        if session.has_leases and not self._closing:
            return not self._must_wait(session)
        has_fields = self._accepted > 0 or self._acknowledged is not None
        return has_fields and not self._count_waits()

    def next_message(self) -> bytes | None:
        """The next message to send, encoded; None if nothing is pending, or all of it may wait.

        Answers and assignments alternate, so that neither waits for ever. A count rides with whatever is sent, once the
        answers before it are sent; so does an acknowledgement.
        """
        if not self.is_due():
            return None
        session = self.session
        assert session is not None
        message = self._next_of_session(session)
        if message is None and self._may_send_tasks(session):
            message = self._next_assignments(session)
        if message is None and (self._closing or not session.has_leases):
            # A host that is told to reconnect leaves at once, and would not get the tasks that it was granted.
            message = _next_drain(session)
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
        """True if tasks are to be sent before the next answer to reports."""
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
        """True if the tasks to send are few and wait for more; from now on they do, but not for long."""
        pending, offer = session.pending, session.offer
        if self._has_waited or session.is_told_to_leave or pending >= MAX_ASSIGNMENTS_PER_MESSAGE:
            return False
        if pending >= SHARE_AT_ONCE * (len(offer.host.leases) + offer.room):
            return False
        if session.pending <= FEW and self._fair_yield.is_shared:
            # It may be a lone one, whose caller waits for it.
            return False
        if self._tasks_wait:
            return True
        secs = self._pace.wait_secs(self._clock())
        if secs > 0:
            if self._fair_yield.is_shared:
                secs = min(secs, SHORT_WAIT_SECS)
            self._end_wait()
            self._tasks_wait = True
            self._wait = asyncio.get_running_loop().call_later(secs, self._waited)
        return self._tasks_wait

    def _count_waits(self) -> bool:
        """True if a count waits for something to come with; from now on it does, but not for long."""
        if self._has_waited or self._closing:
            return False
        if self._wait is None:
            self._wait = asyncio.get_running_loop().call_later(COUNT_WAIT_SECS, self._waited)
        return True

    def drop(self) -> None:
        """The stream is over: call nobody, so that no reference cycle remains."""
        self._end_wait()
        self._on_due = _ignore

    def _end_wait(self) -> None:
        self._tasks_wait = self._has_waited = False
        if self._wait is not None:
            self._wait.cancel()
            self._wait = None

    def _waited(self) -> None:
        self._wait, self._tasks_wait, self._has_waited = None, False, True
        self._on_due()

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


def _next_drain(session: Session) -> bytes | None:
    notice = session.take_drain()
    if notice is None:
        return None
    deadline = None if notice.deadline is None else timestamp(notice.deadline)
    drain = pb.Drain(deadline=deadline, reason=notice.reason, reconnect=notice.reconnect)
    return pb.ConnectResponse(drain=drain).SerializeToString()


def _ignore() -> None:
    """A callback for when something is due while there is no stream."""
