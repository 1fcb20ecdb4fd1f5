"""The stream of a runtime host: a `Connection` reads the host's messages and writes the engine's output.

Reading and writing are independent, except that reading pauses while the host does not read. The writer collects what
is pending when it runs: a single task is sent at once, and many tasks share a message.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, TypeAlias

import grpc
import structlog

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard_server.access.judging import check_host, check_offer
from taskyard_server.access.limits import Rate, TokenBucket
from taskyard_server.conversion import requests
from taskyard_server.conversion.refusals import converted, with_refusals
from taskyard_server.conversion.report_requests import reports, whole_token
from taskyard_server.conversion.responses import error_message, lease_message
from taskyard_server.conversion.task_encoding import STATES, encode_reported
from taskyard_server.conversion.timestamps import timestamp
from taskyard_server.conversion.wire import nested, tag
from taskyard_server.core.errors import BadRequest, Refusal
from taskyard_server.core.leases import Lease, Stop
from taskyard_server.core.streams import HeldLease, Hello, Welcome
from taskyard_server.engine.port import Engine
from taskyard_server.engine.sessions import DrainNotice, Session
from taskyard_server.engine.turn_taking import SMALL
from taskyard_server.interceptors.callers import current_call
from taskyard_server.interceptors.calls import MAX_MESSAGE_BYTES
from taskyard_server.interceptors.errors import message_of

from .answers_ahead import MAX_AHEAD_BYTES, AnswersAhead

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
RequestStream: TypeAlias = AsyncIterator["pb.ConnectRequest | Refusal"]

log = structlog.get_logger(__name__)

MAX_ASSIGNMENTS_PER_MESSAGE: Final = 50
MAX_ASSIGNMENTS_BYTES: Final = 1_000_000
"""A message of assignments is limited to these, but holds at least one."""
MAX_UNSENT_MESSAGES: Final = 100
MAX_UNSENT_BYTES: Final = 1_000_000
"""Reading from a host pauses while more than this waits to be sent to it."""
MAX_RESULTS_BYTES: Final = 3_500_000
"""Larger report results omit the error texts, since the host might reject the message."""
PACE: Final = Rate(per_sec=10_000, burst=20_000)
"""Messages of a host. Reading pauses where more come, so that one host does not take the time of all others."""
PACED_MESSAGES: Final = 100
"""The pace is looked at after each so many messages."""
HELLO_TIMEOUT_SECS: Final = 30.0
FINAL_WRITE_TIMEOUT_SECS: Final = 1.0
"""Maximum wait for each pending write once the stream is closing."""

NO_REQUEST: Final = pb.ConnectRequest()
"""Stands for the end of the request stream."""

ASSIGNMENTS: Final = tag(pb.ConnectResponse, "assignments")
ASSIGNMENT: Final = tag(pb.Assignments, "assignments")
MAX_WAITING_MESSAGES: Final = 10_000
"""Maximum messages of a stream that wait to be applied, in as many bytes as may be applied ahead."""
REPORT_RESULTS: Final = tag(pb.ConnectResponse, "report_results")
RESULT: Final = tag(pb.ReportResults, "results")


class Connection:
    """Serves one stream, from its first message to its end. `encode` makes an `Assignment` of a lease."""

    def __init__(
        self, engine: Engine, max_payload_bytes: int, context: Context, encode: Callable[[Lease], bytes]
    ) -> None:
        self._engine, self._context, self._encode = engine, context, encode
        self._max_payload_bytes = max_payload_bytes
        call = current_call()
        self._namespace, self._access, self._own_only = call.namespace, call.access, call.access.hosts is not None
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._opened = False
        self._welcome: bytes | None = None
        self._ahead: AnswersAhead
        self._acks: deque[bytes] = deque()
        self._waiting: deque[pb.ConnectRequest] = deque()
        self._waiting_bytes = 0
        self._applier: asyncio.Task[None] | None = None
        self._pace = TokenBucket(PACE)
        self._unpaced = 0
        self._responses: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._assignments_first = False
        self._closing = self._writing = False
        self._unkept: BaseException | None = None
        self._write_error: Exception | None = None
        self._write_done: asyncio.Future[None] | None = None
        self._writer: asyncio.Task[None] | None = None

    async def serve(self, stream: RequestStream) -> None:
        """Serve until the host disconnects. Raises the reason if the server ends the stream."""
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_SECS):
                first = await anext(stream, NO_REQUEST)
        except TimeoutError:
            raise BadRequest(f"hello: must come within {HELLO_TIMEOUT_SECS:g} s") from None
        if isinstance(first, Refusal):
            raise first
        if not first.HasField("hello"):
            raise BadRequest("hello: must come first")
        session = await self._open(first.hello)
        # Not before, since it refers to this object until it is dropped.
        self._ahead = AnswersAhead(self._enqueue, self._on_unkept)
        reading = asyncio.create_task(self._read_requests(stream))
        try:
            await asyncio.wait((reading, self._ended), return_when=asyncio.FIRST_COMPLETED)
            self._closing = True
            await self._engine.hosts.disconnect(session)
            await self._flush()
            read_error = reading.exception() if reading.done() else None
            error = session.ended or self._unkept or self._write_error or read_error
            if error is not None:
                raise error
        finally:
            reading.cancel()
            if self._applier is not None:
                self._applier.cancel()
            self._ahead.drop()
            if self._writer is not None:
                self._writer.cancel()
                self._writer = None
            await self._engine.hosts.disconnect(session)
            log.info("host_disconnected", host_id=self._host_id, namespace=self._namespace)

    async def _open(self, message: pb.Hello) -> Session:
        """Open the session of the stream and send the welcome."""
        self._host_id = requests.host_id(message.host_id)
        check_host(self._access, self._host_id)
        instance = requests.name(message.instance, "instance")
        if instance is None:
            raise BadRequest("instance: is required")
        profile = requests.host_profile(message)
        check_offer(self._access, self._host_id, profile)
        hello = Hello(
            self._host_id,
            instance,
            profile=profile,
            display_name=requests.name(message.display_name, "display_name"),
            slots=message.slots if message.HasField("slots") else None,
            labels=requests.labels(message.labels, "labels"),
            held=tuple(_held_leases(message)),
            lease_secs=message.lease_secs if message.HasField("lease_secs") else None,
            machine=requests.machine(message, self._max_payload_bytes),
        )
        self._session, welcome = await self._engine.hosts.connect(
            self._namespace, hello, self._on_ready, show=self._welcome_message
        )
        self._welcome = pb.ConnectResponse(welcome=welcome).SerializeToString()
        self._opened = True
        self._on_ready()
        log.info("host_connected", host_id=self._host_id, namespace=self._namespace, kept=len(welcome.kept))
        return self._session

    def _welcome_message(self, welcome: Welcome) -> pb.Welcome:
        limits = self._engine.limits
        return pb.Welcome(
            session=f"ses_{secrets.token_hex(8)}",
            heartbeat_interval_ms=round(welcome.heartbeat_secs * 1000),
            lease_secs=round(welcome.offer.secs),
            kept=map(lease_message, welcome.kept),
            lost=_lease_messages(welcome.lost),
            reconnect_grace_ms=round(limits.reconnect_grace_secs * 1000),
            start_timeout_ms=round(limits.start_timeout_secs * 1000),
            max_message_bytes=MAX_MESSAGE_BYTES,
        )

    # Reading

    async def _read_requests(self, stream: RequestStream) -> None:
        try:
            await self._apply_requests(stream)
        finally:
            if self._applier is not None:
                await asyncio.wait((self._applier,))
            await self._ahead.wait_for_all()

    async def _apply_requests(self, stream: RequestStream) -> None:
        async for request in stream:
            if isinstance(request, Refusal):
                raise request
            if request.HasField("heartbeat"):
                # It waits for nothing that came before it: a slow disk must not cost a host its leases.
                await self._on_heartbeat(request.heartbeat)
            elif self._applier is None and self._ahead.has_room:
                await self._apply(request)
            else:
                await self._apply_later(request)
            self._unpaced += 1
            if self._unpaced == PACED_MESSAGES:
                await self._keep_pace()
            while len(self._responses) > MAX_UNSENT_MESSAGES or self._unsent_bytes > MAX_UNSENT_BYTES:
                await self._wait_for_write()

    async def _keep_pace(self) -> None:
        """Wait until the host may send more. Its own messages wait meanwhile, and none is lost."""
        clock = asyncio.get_running_loop().time
        while secs := self._pace.take(clock(), self._unpaced):  # noqa: ASYNC110
            await asyncio.sleep(secs)
        self._unpaced = 0

    async def _apply(self, request: pb.ConnectRequest) -> None:
        match request.WhichOneof("message"):
            case "reports":
                await self._on_reports(request.reports)
            case "credit":
                await self._engine.hosts.give_credit(self._session, request.credit.count)
            case "hello":
                raise BadRequest("hello: must come only once")
            case _:
                raise BadRequest("message: is required")

    async def _apply_later(self, request: pb.ConnectRequest) -> None:
        """Apply a message once there is room; wait here only if very many do."""
        self._waiting.append(request)
        self._waiting_bytes += request.ByteSize()
        if self._applier is None:
            self._applier = asyncio.create_task(self._apply_waiting())
        elif len(self._waiting) >= MAX_WAITING_MESSAGES or self._waiting_bytes >= MAX_AHEAD_BYTES:
            await asyncio.wait((self._applier,))

    async def _apply_waiting(self) -> None:
        try:
            while self._waiting:
                await self._ahead.wait_for_room()
                request = self._waiting.popleft()
                self._waiting_bytes -= request.ByteSize()
                await self._apply(request)
        except Exception as error:
            # What was applied before is answered first.
            await self._ahead.wait_for_all()
            self._on_unkept(error)
        finally:
            self._applier = None

    async def _on_heartbeat(self, heartbeat: pb.Heartbeat) -> None:
        machine = requests.machine(heartbeat, self._max_payload_bytes)
        status = requests.host_status(heartbeat.status) if heartbeat.HasField("status") else None
        if self._writing:
            # The heartbeat of a host that does not read must not renew its leases.
            await self._wait_for_write()
        held = _held_leases(heartbeat) if heartbeat.leases else ()
        tokens = [
            (task_id, token, lease.tokens_used)
            for (task_id, token), lease in zip(held, heartbeat.leases, strict=True)
            if lease.HasField("tokens_used")
        ]
        lost = await self._engine.hosts.beat(self._session, held, status, machine, tokens)
        ack = pb.HeartbeatAck(sequence=heartbeat.sequence, lost=_lease_messages(lost) if lost else None)
        response = pb.ConnectResponse(heartbeat_ack=ack).SerializeToString()
        if self._writing:
            self._acks.append(response)
        else:
            await self._send_directly(response)

    async def _on_reports(self, message: pb.Reports) -> None:
        results: list[bytes] = []
        kept: asyncio.Future[None] | None = None
        refused: dict[int, pb.ReportResult] = {}
        first = 0
        while first < len(message.reports) or not first:
            end = first + 2 * self._engine.turns.slice_size
            if len(message.reports) > SMALL:
                await self._engine.turns.take(min(end-first, len(message.reports))/2)
            chunk = message.reports[first:end]
            first = end
            checked = reports(chunk, self._engine.now(), self._max_payload_bytes)
            answer = self._engine.leases.report(
                self._namespace, self._host_id, converted(checked), patient=True, own_only=self._own_only
            )
            kept = answer.kept
            for outcome in with_refusals(checked, answer.value):
                if isinstance(outcome, Refusal):
                    index = len(results)
                    refused[index] = self._refused_result(message.reports[index], outcome)
                    results.append(nested(RESULT, refused[index].SerializeToString()))
                else:
                    results.append(encode_reported(outcome))
        if sum(map(len, results)) > MAX_RESULTS_BYTES:
            for index, result in refused.items():
                result.error.ClearField("error")
                results[index] = nested(RESULT, result.SerializeToString())
        self._ahead.add(nested(REPORT_RESULTS, b"".join(results)), message.ByteSize(), kept)

    def _refused_result(self, report: pb.Report, refusal: Refusal) -> pb.ReportResult:
        """The result of a refused report: its error, and the state of the task if there is one for this host."""
        error = error_message(refusal)
        error.error = message_of(refusal)
        host_id = self._host_id if self._own_only else None
        state = self._engine.tasks.state_of(self._namespace, report.task_id, host_id)
        return pb.ReportResult(error=error, state=None if state is None else STATES[state])

    # Writing

    def _enqueue(self, message: bytes) -> None:
        self._responses.append(message)
        self._unsent_bytes += len(message)
        self._start_writer()

    async def _send_directly(self, message: bytes) -> None:
        """Send a message without starting the writer, which must be idle. This is cheaper for idle hosts."""
        self._writing = True
        try:
            is_sent = await self._send(message)
        finally:
            self._note_write(writing=False)
        if is_sent and (self._responses or self._acks or self._session.has_output):
            self._start_writer()

    def _on_ready(self) -> None:
        if not self._opened:
            # The welcome comes first.
            return
        self._start_writer()
        if self._session.ended is not None:
            self._end()

    def _on_unkept(self, error: BaseException) -> None:
        """End the stream: what its host sent could not be applied or kept."""
        self._unkept = error
        self._end()

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    def _start_writer(self) -> None:
        if not self._writing:
            self._writing = True
            self._writer = asyncio.create_task(self._write_pending())

    async def _write_pending(self) -> None:
        """Send messages until nothing is pending, including those that are added meanwhile."""
        try:
            while self._session.is_large or (message := self._next_message()) is not None:
                if self._session.is_large:
                    await self._engine.turns.take(min(50,len(self._session._pending)) / 2)
                    message = self._next_message()
                    if message is None: break
                if not await self._send(message): break
                self._note_write()
        except Exception as error:
            self._write_error = error
            self._end()
        finally:
            self._note_write(writing=False)

    async def _send(self, message: bytes) -> bool:
        """Send one message. Returns False if the connection is lost, which ends the stream."""
        try:
            await self._context.write(message)
        except Exception as error:
            log.debug("write_failed", host_id=self._host_id, error=str(error))
            self._end()
            return False
        return True

    async def _wait_for_write(self, timeout_secs: float | None = None) -> bool:
        """Wait until the current write is done. Returns False if the timeout passes first."""
        if not self._writing:
            return True
        if self._write_done is None:
            self._write_done = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait((self._write_done,), timeout=timeout_secs)
        return bool(done)

    def _note_write(self, writing: bool = True) -> None:
        """Note that a write is done, and whether the next one follows."""
        self._writing = writing
        if self._write_done is not None:
            self._write_done.set_result(None)
            self._write_done = None

    async def _flush(self) -> None:
        """Send what is pending, as long as the host reads it."""
        while self._writing and await self._wait_for_write(FINAL_WRITE_TIMEOUT_SECS):
            pass

    def _next_message(self) -> bytes | None:
        """The next message to send, encoded; None if nothing is pending.

        Stops come before new tasks. Responses and assignments alternate, so that neither waits for ever. The answers to
        heartbeats come first: they wait for no commit.
        """
        if self._welcome is not None:
            welcome, self._welcome = self._welcome, None
            return welcome
        if self._acks:
            return self._acks.popleft()
        if stops := self._session.take_stops():
            cancellations = pb.Cancellations(cancellations=map(_cancellation, stops))
            return pb.ConnectResponse(cancellations=cancellations).SerializeToString()
        if (drain := self._session.take_drain()) is not None:
            return pb.ConnectResponse(drain=_drain(drain)).SerializeToString()
        if (heartbeat_secs := self._session.take_heartbeat_secs()) is not None:
            interval = pb.HeartbeatInterval(heartbeat_interval_ms=round(heartbeat_secs * 1000))
            return pb.ConnectResponse(heartbeat_interval=interval).SerializeToString()
        if self._session.has_leases and not self._closing and (self._assignments_first or not self._responses):
            assignments = self._next_assignments()
            if not assignments:
                return self._next_message()
            self._assignments_first = False
            return nested(ASSIGNMENTS, b"".join(assignments))
        if not self._responses:
            return None
        self._assignments_first = True
        message = self._responses.popleft()
        self._unsent_bytes -= len(message)
        return message

    def _next_assignments(self) -> list[bytes]:
        """The assignments for one message, each encoded as a field of it."""
        session = self._session
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
        return assignments


def _held_leases(message: pb.Hello | pb.Heartbeat) -> list[HeldLease]:
    return [(lease.task_id, whole_token(lease.fencing_token, "leases.fencing_token")) for lease in message.leases]


def _lease_messages(leases: Sequence[HeldLease]) -> list[pb.HeldLease]:
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
