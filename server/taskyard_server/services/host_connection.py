"""The stream of a runtime host: one `Connection` reads what the host says and writes what it is told.

Reading and writing never wait for each other, unless a host does not read its answers. The writer puts together what is
there when it gets its turn: so a lone task leaves at once, and many share a message.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, TypeAlias

import grpc
import structlog

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard_server.conversion import requests
from taskyard_server.conversion.refusals import converted, with_refusals
from taskyard_server.conversion.report_requests import reports
from taskyard_server.conversion.responses import error_message, lease_message
from taskyard_server.conversion.task_encoding import STATES, encode_assignment, encode_reported
from taskyard_server.conversion.timestamps import timestamp
from taskyard_server.conversion.wire import nested, tag
from taskyard_server.core.errors import BadRequest, NotFound, Refusal
from taskyard_server.core.leases import Stop
from taskyard_server.core.streams import HeldLease, Hello
from taskyard_server.engine.port import Engine
from taskyard_server.engine.sessions import DrainNotice, Session
from taskyard_server.interceptors.calls import MALFORMED, current_call
from taskyard_server.interceptors.errors import message_of

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Requests: TypeAlias = AsyncIterator["pb.ConnectRequest | None"]

log = structlog.get_logger(__name__)

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
MAX_ASSIGNMENTS: Final = 50
MAX_ASSIGNMENT_BYTES: Final = 1_000_000
MAX_UNSENT: Final = 100
MAX_UNSENT_BYTES: Final = 1_000_000
"""So many answers wait for a host that does not read before no more is read of it."""
MAX_RESULT_BYTES: Final = 3_500_000
"""Larger answers, which a host might not take, leave out the texts of errors."""
MAX_REPORTS_PER_TURN: Final = 100
HELLO_SECS: Final = 30.0
LAST_WORDS_SECS: Final = 1.0
"""A stream that is over waits so long for its host to take one more message."""

NOTHING: Final = pb.ConnectRequest()

ASSIGNMENTS: Final = tag(pb.ConnectResponse, "assignments")
ASSIGNMENT: Final = tag(pb.Assignments, "assignments")
REPORT_RESULTS: Final = tag(pb.ConnectResponse, "report_results")
RESULT: Final = tag(pb.ReportResults, "results")


class Connection:
    """Serves one stream."""

    def __init__(self, engine: Engine, max_payload_bytes: int, context: Context) -> None:
        self._engine = engine
        self._max_payload_bytes = max_payload_bytes
        self._context = context
        self._namespace = current_call().namespace
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._welcome: bytes | None = None
        self._answers: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._tasks_next = False
        self._leaving = False
        self._failure: Exception | None = None
        self._writing = False
        self._written: asyncio.Future[None] | None = None
        self._writer: asyncio.Task[None] | None = None

    async def serve(self, said: Requests) -> None:
        """Serve until the host leaves, or raise why it may not stay."""
        try:
            async with asyncio.timeout(HELLO_SECS):
                first = await anext(said, NOTHING)
        except TimeoutError:
            raise BadRequest(f"hello: must come within {HELLO_SECS:g} s") from None
        if first is None:
            raise BadRequest(MALFORMED)
        if not first.HasField("hello"):
            raise BadRequest("hello: must come first")
        session = await self._open(first.hello)
        reading = asyncio.create_task(self._read(said))
        try:
            await asyncio.wait((reading, self._over), return_when=asyncio.FIRST_COMPLETED)
            self._leaving = True
            await self._engine.hosts.disconnect(session)
            await self._say_the_rest()
            wrong = reading.exception() if reading.done() else None
            why = session.ended or self._failure or wrong
            if why is not None:
                raise why
        finally:
            reading.cancel()
            if self._writer is not None:
                self._writer.cancel()
                self._writer = None
            await self._engine.hosts.disconnect(session)
            log.info("host_disconnected", host_id=self._host_id, namespace=self._namespace)

    async def _open(self, said: pb.Hello) -> Session:
        self._host_id = requests.host_id(said.host_id)
        instance = requests.name(said.instance, "instance")
        if instance is None:
            raise BadRequest("instance: is required")
        hello = Hello(
            self._host_id,
            instance,
            profile=requests.host_profile(said),
            display_name=requests.name(said.display_name, "display_name"),
            slots=said.slots if said.HasField("slots") else None,
            labels=requests.labels(said.labels, "labels"),
            held=tuple(_held(said)),
            lease_secs=said.lease_secs if said.HasField("lease_secs") else None,
            machine=requests.machine(said, self._max_payload_bytes),
        )
        session = self._session = await self._engine.hosts.connect(self._namespace, hello, self._on_ready)
        welcome, limits = session.welcome, self._engine.limits
        self._welcome = pb.ConnectResponse(
            welcome=pb.Welcome(
                session=f"ses_{secrets.token_hex(8)}",
                heartbeat_interval_ms=round(welcome.heartbeat_secs * 1000),
                lease_secs=round(session.offer.secs),
                kept=map(lease_message, welcome.kept),
                lost=_named(welcome.lost),
                reconnect_grace_ms=round(limits.reconnect_grace_secs * 1000),
                start_timeout_ms=round(limits.start_timeout_secs * 1000),
                max_message_bytes=MAX_MESSAGE_BYTES,
            )
        ).SerializeToString()
        self._write()
        log.info("host_connected", host_id=self._host_id, namespace=self._namespace, kept=len(welcome.kept))
        return session

    # What the host says

    async def _read(self, said: Requests) -> None:
        async for request in said:
            if request is None:
                raise BadRequest(MALFORMED)
            match request.WhichOneof("message"):
                case "heartbeat":
                    await self._on_heartbeat(request.heartbeat)
                case "reports":
                    await self._on_reports(request.reports)
                case "credit":
                    await self._engine.hosts.give_credit(self._session, request.credit.count)
                case "hello":
                    raise BadRequest("hello: must come only once")
                case _:
                    raise BadRequest("message: is required")
            while len(self._answers) > MAX_UNSENT or self._unsent_bytes > MAX_UNSENT_BYTES:
                await self._one_write()

    async def _on_heartbeat(self, beat: pb.Heartbeat) -> None:
        machine = requests.machine(beat, self._max_payload_bytes)
        word = requests.host_status(beat.status) if beat.HasField("status") else None
        if self._writing:
            # A host that does not read what it is told does not work, however loud its heart beats.
            await self._one_write()
        lost = await self._engine.hosts.beat(self._session, _held(beat) if beat.leases else (), word, machine)
        ack = pb.HeartbeatAck(sequence=beat.sequence, lost=_named(lost) if lost else None)
        answer = pb.ConnectResponse(heartbeat_ack=ack).SerializeToString()
        if self._writing:
            self._answer(answer)
        else:
            await self._answer_now(answer)

    async def _on_reports(self, said: pb.Reports) -> None:
        results: list[bytes] = []
        refused: dict[int, pb.ReportResult] = {}
        for first in range(0, len(said.reports), MAX_REPORTS_PER_TURN):
            if first:
                # Thousands may come at once; others have their turn meanwhile.
                await asyncio.sleep(0)
            some = said.reports[first : first + MAX_REPORTS_PER_TURN]
            taken = reports(some, self._engine.now(), self._max_payload_bytes)
            outcomes = await self._engine.leases.report(self._namespace, self._host_id, converted(taken))
            for outcome in with_refusals(taken, outcomes):
                if isinstance(outcome, Refusal):
                    number = len(results)
                    refused[number] = await self._refused(said.reports[number], outcome)
                    results.append(nested(RESULT, refused[number].SerializeToString()))
                else:
                    results.append(encode_reported(outcome))
        if sum(map(len, results)) > MAX_RESULT_BYTES:
            for number, result in refused.items():
                result.error.ClearField("error")
                results[number] = nested(RESULT, result.SerializeToString())
        self._answer(nested(REPORT_RESULTS, b"".join(results)))

    async def _refused(self, report: pb.Report, refusal: Refusal) -> pb.ReportResult:
        """Why, and the state of the task if there is one."""
        error = error_message(refusal)
        error.error = message_of(refusal)
        result = pb.ReportResult(error=error)
        with contextlib.suppress(NotFound):
            result.state = STATES[(await self._engine.tasks.get(self._namespace, report.task_id)).state]
        return result

    # What the host is told

    def _answer(self, message: bytes) -> None:
        self._answers.append(message)
        self._unsent_bytes += len(message)
        self._write()

    async def _answer_now(self, message: bytes) -> None:
        """Answer without the detour over the writer, where that has nothing to say, as with idle hosts."""
        self._writing = True
        try:
            is_said = await self._send(message)
        finally:
            self._note_written(writing=False)
        if is_said and (self._answers or self._session.has_output):
            self._write()

    def _on_ready(self) -> None:
        self._write()
        if self._session.ended is not None:
            self._end()

    def _end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _write(self) -> None:
        if not self._writing:
            self._writing = True
            self._writer = asyncio.create_task(self._write_all())

    async def _write_all(self) -> None:
        """Write until there is nothing to say; what comes meanwhile is said, too."""
        try:
            while (message := self._next_message()) is not None and await self._send(message):
                self._note_written()
        except Exception as error:
            self._failure = error
            self._end()
        finally:
            self._note_written(writing=False)

    async def _send(self, message: bytes) -> bool:
        """Write one message; False if the connection is gone, as it happens."""
        try:
            await self._context.write(message)
        except Exception as error:
            log.debug("write_failed", host_id=self._host_id, error=str(error))
            self._end()
            return False
        return True

    async def _one_write(self, most_secs: float | None = None) -> bool:
        """Wait until what is being written is written; whether it was."""
        if not self._writing:
            return True
        if self._written is None:
            self._written = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait((self._written,), timeout=most_secs)
        return bool(done)

    def _note_written(self, writing: bool = True) -> None:
        self._writing = writing
        if self._written is not None:
            self._written.set_result(None)
            self._written = None

    async def _say_the_rest(self) -> None:
        """Let the host take what is still to be said, unless it does not."""
        while self._writing and await self._one_write(LAST_WORDS_SECS):
            pass

    def _next_message(self) -> bytes | None:
        """What to say next, in its encoding; None if nothing.

        What the host shall stop comes before what it shall do. Answers and tasks take turns, lest one waits for ever.
        """
        if self._welcome is not None:
            welcome, self._welcome = self._welcome, None
            return welcome
        if stops := self._session.take_stops():
            cancellations = pb.Cancellations(cancellations=map(_cancellation, stops))
            return pb.ConnectResponse(cancellations=cancellations).SerializeToString()
        if (drain := self._session.take_drain()) is not None:
            return pb.ConnectResponse(drain=_drain(drain)).SerializeToString()
        if self._session.has_leases and not self._leaving and (self._tasks_next or not self._answers):
            assignments = self._next_assignments()
            if not assignments:
                return self._next_message()
            self._tasks_next = False
            return nested(ASSIGNMENTS, b"".join(assignments))
        if not self._answers:
            return None
        self._tasks_next = True
        message = self._answers.popleft()
        self._unsent_bytes -= len(message)
        return message

    def _next_assignments(self) -> list[bytes]:
        """As many tasks as one message may carry, each a field of it."""
        session = self._session
        assignments: list[bytes] = []
        size = 0
        while not assignments and session.has_leases:
            for lease in session.next_leases(MAX_ASSIGNMENTS):
                assignment = encode_assignment(lease)
                size += len(assignment)
                if assignments and size > MAX_ASSIGNMENT_BYTES:
                    break
                session.mark_sent(lease)
                assignments.append(nested(ASSIGNMENT, assignment))
        return assignments


def _held(said: pb.Hello | pb.Heartbeat) -> list[HeldLease]:
    return [(lease.task_id, lease.fencing_token) for lease in said.leases]


def _named(leases: Sequence[HeldLease]) -> list[pb.HeldLease]:
    return [pb.HeldLease(task_id=task_id, fencing_token=token) for task_id, token in leases]


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
