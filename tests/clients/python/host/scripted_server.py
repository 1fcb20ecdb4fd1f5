"""A server for hosts over a real socket, which sends on their streams what a test tells it to."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.json_format import MessageToDict
from google.rpc import error_details_pb2, status_pb2

from taskyard.v1.lease_pb2 import Assignment, Lease
from taskyard.v1.output_pb2 import LeaseOutput, OutputAck, OutputAcks
from taskyard.v1.runtime_host_pb2 import (
    Assignments,
    Cancellation,
    Cancellations,
    ConnectRequest,
    ConnectResponse,
    DeregisterHostResponse,
    Drain,
    DrainHostResponse,
    Heartbeat,
    HeartbeatAck,
    HeldLease,
    Hello,
    Report,
    ReportResult,
    ReportResults,
    Welcome,
)
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceServicer, add_RuntimeHostServiceServicer_to_server
from taskyard.v1.task_pb2 import Error, Task
from taskyard.values.convert import struct_from
from tests.waiting import LIMIT_SECS


class HostStream:
    """The server's end of one stream. By default it answers every heartbeat, and accepts every report.

    Without `answers_reports` reports wait for their answers until `answer_reports` is called.
    """

    def __init__(self, hello: Hello, metadata: dict[str, Any], leaving: list[str]) -> None:
        self.hello = hello
        self._leaving = leaving
        self.metadata = metadata
        self.credit = 0
        self.half_closed = asyncio.Event()
        self.ended = asyncio.Event()
        self.messages: list[ConnectRequest] = []
        self.answers_reports = True
        self.answers_heartbeats = True
        self.counts = False
        self.riding = 0
        """How many heartbeats came with reports."""
        self.refusals: dict[tuple[str, str], Error] = {}
        """The errors of reports, by task and event."""
        self._heartbeats: asyncio.Queue[Heartbeat] = asyncio.Queue()
        self._reports: asyncio.Queue[Report] = asyncio.Queue()
        self._said: asyncio.Queue[LeaseOutput] = asyncio.Queue()
        self._unanswered: list[ReportResults] = []
        self._changed = asyncio.Event()
        self._outbox: asyncio.Queue[ConnectResponse | None] = asyncio.Queue()
        self._end: tuple[str, str, dict[str, str]] | None = None

    # What a test sends

    def send(self, **message: Any) -> None:
        self._outbox.put_nowait(ConnectResponse(**message))

    def welcome(self, kept: Iterable[HeldLease] = (), lost: Iterable[HeldLease] = (), **fields: Any) -> None:
        fields = {"heartbeat_interval_ms": 10_000, "lease_secs": 60, "reconnect_grace_ms": 5_000} | fields
        leases = [
            Lease(task_id=lease.task_id, fencing_token=lease.fencing_token, lease_secs=fields["lease_secs"])
            for lease in kept
        ]
        self.lease_secs = fields["lease_secs"]
        self.counts = fields.get("counts_accepted", False)
        self.send(welcome=Welcome(session="s", kept=leases, lost=lost, **fields))

    def assign(self, *task_ids: str, action: str = "click", params: Any = None, token: int = 1, **fields: Any) -> None:
        self.send(
            assignments=Assignments(
                assignments=[
                    Assignment(
                        lease=Lease(task_id=task_id, fencing_token=token, lease_secs=self.lease_secs),
                        task=Task(
                            task_id=task_id,
                            agent_id="ann",
                            action=action,
                            state=Task.STATE_ASSIGNED,
                            params=None if params is None else struct_from(params),
                            **fields,
                        ),
                    )
                    for task_id in task_ids
                ]
            )
        )

    def cancel(self, task_id: str, token: int = 1) -> None:
        cancellation = Cancellation(task_id=task_id, fencing_token=token, reason="cancelled", message="cancelled")
        self.send(cancellations=Cancellations(cancellations=[cancellation]))

    def drain(self, **fields: Any) -> None:
        self.send(drain=Drain(reason="a reason", **fields))

    def answer_reports(self) -> None:
        """Answer the reports that wait, and each later one at once."""
        self.answers_reports = True
        for results in self._unanswered:
            if not self.counts:
                self.send(report_results=results)
                continue
            for result in results.results:
                if result.HasField("error"):
                    self.send(report_results=ReportResults(results=[result]))
                else:
                    self.send(accepted_reports=1)
        self._unanswered.clear()

    def keep(self, taken: int, task_id: str = "t", code: str | None = None) -> None:
        """Answer output of a task: so much is kept, or why no more is."""
        error = None if code is None else Error(code=code)
        ack = OutputAck(task_id=task_id, fencing_token=1, taken=taken, error=error)
        self.send(output_acks=OutputAcks(acks=[ack]))

    def close(self) -> None:
        """End the stream in order."""
        self._outbox.put_nowait(None)

    def abort(self, code: str, reason: str, **details: str) -> None:
        """End the stream with an error of the API."""
        self._end = (code, reason, details)
        self._outbox.put_nowait(None)

    # What a test waits for

    async def report(self) -> Report:
        """The next report."""
        async with asyncio.timeout(LIMIT_SECS):
            return await self._reports.get()

    async def reports(self, count: int) -> list[str]:
        """The next reports in short form."""
        return [short_form(await self.report()) for _ in range(count)]

    def reported(self) -> list[str]:
        """The reports that have arrived and were not read yet, in short form."""
        return [short_form(self._reports.get_nowait()) for _ in range(self._reports.qsize())]

    async def said(self) -> tuple[int, list[str]]:
        """The next output of a lease: the number of its first chunk, and the texts."""
        async with asyncio.timeout(LIMIT_SECS):
            output = await self._said.get()
        return output.number, [chunk.text for chunk in output.chunks]

    async def until_credit(self, credit: int) -> None:
        """Wait until the host has given this much credit that no task has used."""
        async with asyncio.timeout(LIMIT_SECS):
            while self.credit != credit:
                self._changed.clear()
                await self._changed.wait()

    async def heartbeat(self) -> Heartbeat:
        """The next heartbeat."""
        async with asyncio.timeout(LIMIT_SECS):
            return await self._heartbeats.get()

    async def heartbeats_within(self, secs: float) -> int:
        """Wait, then count all heartbeats that the test has not read."""
        await asyncio.sleep(secs)
        return self._heartbeats.qsize()

    # The stream

    async def serve(self, context: Any) -> None:
        reader = asyncio.create_task(self._read(context))
        try:
            while (message := await self._outbox.get()) is not None:
                await context.write(message)
        except asyncio.CancelledError:
            # The connection broke. What had come before is read to its end, which a cancel would swallow.
            await asyncio.wait({reader}, timeout=LIMIT_SECS)
            raise
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
            self.ended.set()
        if self._end is not None:
            await abort(context, *self._end)

    async def _read(self, context: Any) -> None:
        while isinstance(message := await context.read(), ConnectRequest):
            self.messages.append(message)
            match message.WhichOneof("message"):
                case "output":
                    for each in message.output.leases:
                        self._said.put_nowait(each)
                case "credit":
                    self.credit += message.credit.count
                case "heartbeat":
                    self._heartbeats.put_nowait(message.heartbeat)
                    if self.answers_heartbeats:
                        self.send(heartbeat_ack=HeartbeatAck(sequence=message.heartbeat.sequence))
                case "reports":
                    self.credit += message.reports.credit
                    if message.reports.HasField("heartbeat"):
                        self._heartbeats.put_nowait(message.reports.heartbeat)
                        self.riding += 1
                        if self.answers_heartbeats:
                            self.send(acknowledged_heartbeat=message.reports.heartbeat.sequence)
                    results = []
                    for report in message.reports.reports:
                        self._reports.put_nowait(report)
                        error = self.refusals.get((report.task_id, report.WhichOneof("event")))
                        results.append(ReportResult(error=error))
                        self.credit -= report.HasField("started")
                    self._unanswered.append(ReportResults(results=results))
                    if self.answers_reports:
                        self.answer_reports()
            self._changed.set()
        self._leaving.append("end of stream")
        self.half_closed.set()
        self.close()


class ScriptedServer(RuntimeHostServiceServicer):
    """Accepts the streams of hosts and passes them to the test."""

    def __init__(self) -> None:
        self.drained: list[str] = []
        self.deregistered: list[str] = []
        self.leaving: list[str] = []
        """What hosts have done to leave, in order."""
        self.refuse: tuple[str, str] | None = None
        """The code and reason with which every Hello is refused, if any."""
        self.hellos: list[Hello] = []
        self._streams: asyncio.Queue[HostStream] = asyncio.Queue()
        self._server: Any = None
        self.port = 0

    async def start(self, port: int = 0) -> None:
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        add_RuntimeHostServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)

    async def stream(self) -> HostStream:
        """The next stream, after its Hello."""
        async with asyncio.timeout(LIMIT_SECS):
            return await self._streams.get()

    async def welcomed(self, **fields: Any) -> HostStream:
        """The next stream, welcomed."""
        stream = await self.stream()
        stream.welcome(**fields)
        return stream

    async def Connect(self, request_iterator: Any, context: Any) -> None:  # noqa: N802
        del request_iterator
        first = await context.read()
        self.hellos.append(first.hello)
        if self.refuse is not None:
            await abort(context, *self.refuse)
        stream = HostStream(first.hello, dict(context.invocation_metadata()), self.leaving)
        self._streams.put_nowait(stream)
        with contextlib.suppress(asyncio.CancelledError):
            await stream.serve(context)

    async def DeregisterHost(self, request: Any, context: Any) -> DeregisterHostResponse:  # noqa: N802
        del context
        self.deregistered.append(request.host_id)
        self.leaving.append("deregistered")
        return DeregisterHostResponse(deregistered=True)

    async def DrainHost(self, request: Any, context: Any) -> DrainHostResponse:  # noqa: N802
        del context
        self.drained.append(request.host_id)
        # Other messages of the host, if it sends them meanwhile, arrive before the answer.
        await asyncio.sleep(0.05)
        self.leaving.append("drain answered")
        return DrainHostResponse()


async def abort(context: Any, code: str, reason: str, details: Mapping[str, str] | None = None) -> None:
    """End a call as the interceptor of the server does."""
    status = {
        "bad_request": grpc.StatusCode.INVALID_ARGUMENT,
        "conflict": grpc.StatusCode.FAILED_PRECONDITION,
        "already_exists": grpc.StatusCode.ALREADY_EXISTS,
        "permission_denied": grpc.StatusCode.PERMISSION_DENIED,
        "unauthenticated": grpc.StatusCode.UNAUTHENTICATED,
        "internal": grpc.StatusCode.INTERNAL,
        "unavailable": grpc.StatusCode.UNAVAILABLE,
        "not_owner": grpc.StatusCode.UNAVAILABLE,
    }[code]
    detail = AnyMessage()
    detail.Pack(error_details_pb2.ErrorInfo(reason=code.upper(), domain="taskyard", metadata=details))
    rich = status_pb2.Status(code=status.value[0], message=reason, details=[detail])
    await context.abort(status, reason, (("grpc-status-details-bin", rich.SerializeToString()),))


def short_form(report: Report) -> str:
    return f"{report.task_id} {report.WhichOneof('event')}"


def result_of(report: Report) -> Any:
    """The result that a handler returned."""
    return MessageToDict(report.completed)["result"]
