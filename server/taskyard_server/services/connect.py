"""The stream of a runtime host: one `Connection` reads what the host says and writes what it is told.

Reading and writing never wait for each other, unless a host does not read its answers. The writer puts together what is
there when it gets its turn: so a lone task leaves at once, and many share a message.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final, TypeAlias

import grpc
import structlog

from taskyard.v1 import lease_pb2
from taskyard.v1 import runtime_host_pb2 as pb
from taskyard_server.core.errors import BadRequest, NotFound, Refusal
from taskyard_server.core.leases import Lease, Stop
from taskyard_server.core.streams import HeldLease, Hello
from taskyard_server.core.task import Task
from taskyard_server.engine.port import Engine
from taskyard_server.engine.sessions import DrainNotice, Session
from taskyard_server.interceptors.calls import MALFORMED, current_call
from taskyard_server.interceptors.errors import message_of

from . import requests
from .reports import About, Reports
from .responses import STATES, error_message, lease_message, task_message, timestamp

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Requests: TypeAlias = AsyncIterator["pb.ConnectRequest | None"]

log = structlog.get_logger(__name__)

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
MAX_ASSIGNMENTS: Final = 50
MAX_ASSIGNMENT_BYTES: Final = 1_000_000
MAX_UNSENT: Final = 100
"""So many answers wait for a host that does not read before no more is read of it."""


class Connection:
    """Serves one stream."""

    def __init__(self, engine: Engine, reports: Reports, max_payload_bytes: int, context: Context) -> None:
        self._engine = engine
        self._reports = reports
        self._max_payload_bytes = max_payload_bytes
        self._context = context
        self._namespace = current_call().namespace
        self._over = asyncio.Event()
        self._answers: deque[pb.ConnectResponse] = deque()
        self._unsent: dict[Lease, None] = {}
        self._news = False
        self._writer: asyncio.Task[None] | None = None

    async def serve(self, said: Requests) -> None:
        """Serve until the host leaves, or raise why it may not stay."""
        first = await anext(said, None)
        if first is None or not first.HasField("hello"):
            raise BadRequest("hello: must come first")
        session = await self._open(first.hello)
        reading = asyncio.create_task(self._read(said))
        over = asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait((reading, over), return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                # Raises what was wrong with what the host said.
                reading.result()
            await self._flush()
            if session.ended is not None:
                raise session.ended
        finally:
            for task in (reading, over):
                task.cancel()
            await self._engine.disconnect(session)
            if self._writer is not None:
                self._writer.cancel()
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
        session = self._session = await self._engine.connect(self._namespace, hello, self._on_news)
        welcome, limits = session.welcome, self._engine.limits
        self._answer(
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
        )
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
                    results = [await self._on_report(report) for report in request.reports.reports]
                    self._answer(report_results=pb.ReportResults(results=results))
                case "credit":
                    await self._engine.give_credit(self._session, request.credit.count)
                case "hello":
                    raise BadRequest("hello: must come only once")
                case _:
                    raise BadRequest("message: is required")
            if len(self._answers) > MAX_UNSENT:
                await self._flush()

    async def _on_heartbeat(self, beat: pb.Heartbeat) -> None:
        machine = requests.machine(beat, self._max_payload_bytes)
        word = requests.host_status(beat.status) if beat.HasField("status") else None
        lost = await self._engine.beat(self._session, _held(beat), word, machine)
        self._answer(heartbeat_ack=pb.HeartbeatAck(sequence=beat.sequence, lost=_named(lost)))

    async def _on_report(self, report: pb.Report) -> pb.ReportResult:
        """One report; a refused one touches neither the stream nor its neighbours."""
        try:
            task = await self._take(report)
        except Refusal as refusal:
            error = error_message(refusal)
            error.error = message_of(refusal)
            result = pb.ReportResult(error=error)
            with contextlib.suppress(NotFound):
                result.state = STATES[(await self._engine.get(self._namespace, report.task_id)).state]
            return result
        return pb.ReportResult(state=STATES[task.state])

    async def _take(self, report: pb.Report) -> Task:
        if not report.fencing_token:
            raise BadRequest("fencing_token: is required")
        tokens = report.tokens_used if report.HasField("tokens_used") else None
        about = About(self._namespace, self._host_id, report.task_id, report.fencing_token)
        match report.WhichOneof("event"):
            case "started":
                return await self._reports.started(about)
            case "progress":
                return await self._reports.progressed(about, report.progress, tokens)
            case "completed":
                completed = report.completed
                result = completed.result if completed.HasField("result") else None
                return await self._reports.completed(about, result, tokens)
            case "failed":
                return await self._reports.failed(about, report.failed, tokens)
            case "released":
                return await self._reports.released(about)
            case _:
                raise BadRequest("event: is required")

    # What the host is told

    def _answer(self, **message: Any) -> None:
        self._answers.append(pb.ConnectResponse(**message))
        self._write()

    def _on_news(self) -> None:
        self._news = True
        self._write()

    def _write(self) -> None:
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_all())

    async def _write_all(self) -> None:
        """Write until there is nothing to say; what comes meanwhile is said, too."""
        try:
            while True:
                if self._news:
                    await self._note_news()
                if self._answers:
                    message = self._answers.popleft()
                elif self._unsent:
                    message = pb.ConnectResponse(assignments=self._next_assignments())
                else:
                    break
                await self._context.write(message)
        except Exception as error:
            # The stream has broken; the reader learns of it, too.
            log.debug("write_failed", host_id=self._host_id, error=str(error))
            self._over.set()
        finally:
            self._writer = None
        if self._session.ended is not None:
            self._over.set()

    async def _flush(self) -> None:
        if self._writer is not None:
            await asyncio.wait((self._writer,))

    async def _note_news(self) -> None:
        self._news = False
        leases, stops, drain = self._session.take()
        self._unsent.update(dict.fromkeys(leases))
        told = []
        for stop in stops:
            if self._was_never_sent(stop):
                # The host cannot say that it has stopped, for which a target may wait.
                task_id, token = stop.lease.task.id, stop.lease.token
                await self._engine.stopped(self._namespace, self._host_id, task_id, token)
            else:
                told.append(stop)
        if told:
            cancellations = pb.Cancellations(cancellations=map(_cancellation, told))
            self._answers.append(pb.ConnectResponse(cancellations=cancellations))
        if drain is not None:
            self._answers.append(pb.ConnectResponse(drain=_drain(drain)))

    def _was_never_sent(self, stop: Stop) -> bool:
        return self._unsent.pop(stop.lease, self) is None

    def _next_assignments(self) -> pb.Assignments:
        """As many tasks as one message may carry, at least one."""
        assignments: list[lease_pb2.Assignment] = []
        size = 0
        for lease in list(self._unsent):
            if lease.task.lease is not lease:
                # Its host has reported on it by a call.
                del self._unsent[lease]
                continue
            task = task_message(lease.task)
            size += task.ByteSize()
            if assignments and (size > MAX_ASSIGNMENT_BYTES or len(assignments) == MAX_ASSIGNMENTS):
                break
            del self._unsent[lease]
            assignments.append(lease_pb2.Assignment(lease=lease_message(lease), task=task))
        return pb.Assignments(assignments=assignments)


def _held(said: pb.Hello | pb.Heartbeat) -> list[HeldLease]:
    return [(lease.task_id, lease.fencing_token) for lease in said.leases]


def _named(leases: list[HeldLease]) -> list[pb.HeldLease]:
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
    return pb.Drain(deadline=deadline, reason=notice.reason)
