"""Messages from the stream of a host: reports, credit and heartbeats, applied in order.

A heartbeat waits for nothing that came before it. All else is applied in order, and answered in order once it is kept.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from taskyard.v1 import output_pb2
from taskyard.v1 import runtime_host_pb2 as pb
from taskyard_server.access.limits import CallBucket, Rate
from taskyard_server.conversion import requests
from taskyard_server.conversion.output import encoder, new_chunks_of
from taskyard_server.conversion.refusals import converted, with_refusals
from taskyard_server.conversion.report_requests import reports
from taskyard_server.conversion.responses import error_message
from taskyard_server.conversion.task_encoding import STATES
from taskyard_server.core.errors import BadRequest, Refusal, Unavailable
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.fair_yield import A_CHUNK, A_REPORT, SMALL
from taskyard_server.engine.sessions import Session
from taskyard_server.interceptors.callers import Call
from taskyard_server.interceptors.errors import message_of

from .host_hello import held_leases, held_messages
from .host_writing import HostWriter, StreamEnd
from .pending_acks import MAX_AHEAD_BYTES, PendingAcks
from .report_acks import CountOfAccepted, Refused, ReportAck, ReportAckBuilder, ResultOfEach, output_ack

RequestStream: TypeAlias = AsyncIterator["pb.ConnectRequest | Refusal"]

PACE = Rate(per_sec=10_000, burst=20_000)
"""Messages of a host. Reading pauses where more come, so that one host does not take the time of all others."""
PACED_MESSAGES = 100
"""The pace is looked at after each this many messages."""
MAX_WAITING_MESSAGES: Final = 10_000
"""Maximum messages of a stream that wait to be applied, in as many bytes as may be applied ahead."""
UNCOUNTED: Final = "only where the Welcome says that accepted reports are counted"


class HostReader:
    """Reads the messages of one stream after its Hello. If it `counts`, accepted reports are counted."""

    def __init__(
        self,
        engine: Engine,
        call: Call,
        session: Session,
        writer: HostWriter,
        end: StreamEnd,
        max_payload_bytes: int,
        counts: bool,
    ) -> None:
        self._engine, self._session, self._writer, self._end = engine, session, writer, end
        self._namespace, self._own_only = call.namespace, call.access.hosts is not None
        self._host_id = session.host.id
        self._max_payload_bytes = max_payload_bytes
        self._counts = counts
        self._ack_builder: Callable[[Refused], ReportAckBuilder] = CountOfAccepted if counts else ResultOfEach
        self._ahead: PendingAcks[ReportAck] = PendingAcks(writer.answer, end.end)
        self._waiting: deque[pb.ConnectRequest] = deque()
        self._waiting_bytes = 0
        self._applier: asyncio.Task[None] | None = None
        self._pace = CallBucket(PACE)
        self._unpaced = 0

    async def read(self, stream: RequestStream) -> None:
        """Read until the host says no more, and all that it said is answered. Raises what is wrong with a message."""
        try:
            await self._apply_requests(stream)
        finally:
            if self._applier is not None:
                await asyncio.wait((self._applier,))
            await self._ahead.wait_for_all()

    def drop(self) -> None:
        """The stream is over: apply and answer nothing more."""
        if self._applier is not None:
            self._applier.cancel()
        self._ahead.drop()

    async def _apply_requests(self, stream: RequestStream) -> None:
        async for request in stream:
            if isinstance(request, Refusal):
                raise request
            kind = request.WhichOneof("message")
            # A heartbeat waits for nothing that came before it: a slow disk must not cost a host its leases.
            if kind == "heartbeat":
                await self._on_heartbeat(request.heartbeat)
            else:
                if kind == "reports" and request.reports.HasField("heartbeat"):
                    await self._on_heartbeat(request.reports.heartbeat, with_reports=True)
                if self._applier is None and self._ahead.has_room:
                    await self._apply(request, kind)
                else:
                    await self._apply_later(request)
            self._unpaced += 1
            if self._unpaced == PACED_MESSAGES:
                await self._wait_for_pace()
            while self._writer.is_full:
                await self._writer.wait_for_write()

    async def _wait_for_pace(self) -> None:
        """Wait until the host may send more. Its own messages wait meanwhile, and none is lost."""
        clock = asyncio.get_running_loop().time
        while secs := self._pace.take(clock(), self._unpaced):  # noqa: ASYNC110
            await asyncio.sleep(secs)
        self._unpaced = 0

    async def _apply(self, request: pb.ConnectRequest, kind: str | None) -> None:
        match kind:
            case "reports":
                await self._on_reports(request.reports)
            case "credit":
                await self._engine.hosts.give_credit(self._session, request.credit.count)
            case "output":
                await self._on_output(request.output)
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
                await self._apply(request, request.WhichOneof("message"))
        except Exception as error:
            # What was applied before is answered first.
            await self._ahead.wait_for_all()
            self._end.end(error)
        finally:
            self._applier = None

    async def _on_heartbeat(self, heartbeat: pb.Heartbeat, with_reports: bool = False) -> None:
        if with_reports:
            self._require_counts("reports.heartbeat")
        machine = requests.machine(heartbeat, self._max_payload_bytes)
        status = requests.host_status(heartbeat.status) if heartbeat.HasField("status") else None
        # The heartbeat of a host that does not read must not renew its leases.
        await self._writer.wait_for_write()
        held = held_leases(heartbeat) if heartbeat.leases else ()
        tokens = [
            (task_id, token, lease.tokens_used)
            for (task_id, token), lease in zip(held, heartbeat.leases, strict=True)
            if lease.HasField("tokens_used")
        ]
        lost = await self._engine.hosts.beat(self._session, held, status, machine, tokens)
        if lost is None:
            # How the stream ends says what becomes of its leases: where another replica serves them they live on.
            return
        if with_reports and not lost:
            self._writer.acknowledge(heartbeat.sequence)
            return
        ack = pb.HeartbeatAck(sequence=heartbeat.sequence, lost=held_messages(lost) if lost else None)
        await self._writer.acknowledge_alone(pb.ConnectResponse(heartbeat_ack=ack).SerializeToString())

    async def _on_reports(self, message: pb.Reports) -> None:
        reported = message.reports
        builder = self._ack_builder(partial(self._refused_result, reported))
        kept: asyncio.Future[None] | None = None
        count, fair_yield, first = len(reported), self._engine.fair_yield, 0
        while first < count:
            end = min(first + round(fair_yield.slice_size / A_REPORT), count)
            if count > SMALL:
                await fair_yield.take(A_REPORT * (end - first))
            checked = reports(reported[first:end], self._engine.now(), self._max_payload_bytes)
            first = end
            taken = self._engine.leases.report(
                self._namespace, self._host_id, converted(checked), patient=True, own_only=self._own_only
            )
            kept = taken.kept
            builder.add(with_refusals(checked, taken.value))
        self._ahead.add(builder.ack(), message.ByteSize(), kept)
        if message.credit:
            self._require_counts("reports.credit")
            await self._engine.hosts.give_credit(self._session, message.credit)

    async def _on_output(self, message: output_pb2.Output) -> None:
        """Take what tasks say. One that says anything wrong is told so, and the others are taken."""
        checked = new_chunks_of(message.leases)
        chunks = converted(checked)
        count = sum([len(each.bodies) for each in chunks])
        if count > SMALL:
            await self._engine.fair_yield.take(A_CHUNK * count)
        kept: asyncio.Future[None] | None = None
        outcomes: Sequence[int | Refusal]
        try:
            taken = await self._engine.output.append(
                self._namespace,
                self._host_id,
                chunks,
                encoder(chunks),
                patient=True,
                own_only=self._own_only,
            )
            kept, outcomes = taken.kept, taken.value
        except Unavailable as refusal:
            outcomes = [refusal.with_traceback(None)] * len(chunks)
        ack = output_ack(message.leases, with_refusals(checked, outcomes))
        self._ahead.add(ack, message.ByteSize(), kept)

    def _require_counts(self, field: str) -> None:
        """Raise `BadRequest` for a field that an earlier server would overlook, of a host that does not look."""
        if not self._counts:
            raise BadRequest(f"{field}: {UNCOUNTED}")

    def _refused_result(self, reported: Sequence[pb.Report], index: int, refusal: Refusal) -> pb.ReportResult:
        """The result of a refused report: its error, and the state of the task if there is one for this host."""
        error = error_message(refusal)
        error.error = message_of(refusal)
        host_id = self._host_id if self._own_only else None
        state = self._engine.tasks.state_of(self._namespace, reported[index].task_id, host_id)
        return pb.ReportResult(error=error, state=None if state is None else STATES[state])
