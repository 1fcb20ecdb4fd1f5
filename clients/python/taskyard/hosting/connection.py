"""A stream of a host and what becomes of it: it connects, works, reconnects and leaves (docs/rules.md, Host stream).

`session.Session` decides what is held, sent and run; this module has the connection and the clock. It lives in an event
loop of its own thread, over grpc's synchronous API, so that no handler delays a heartbeat. A stream has a reader and a
writer that never wait for each other. All times are those of that loop, in seconds.
"""

import asyncio
import contextlib
import logging
import uuid
from typing import TYPE_CHECKING, Final, TypeAlias

import grpc

from taskyard.connection.credentials import Metadata, Renewal
from taskyard.connection.servers import Server, Servers
from taskyard.connection.threaded_channel import StreamEnded, ThreadedStream, open_threaded_channel
from taskyard.errors import NotOwner, TaskyardError, Unavailable
from taskyard.streams.reconnecting import Reconnecting
from taskyard.v1.lease_pb2 import Assignment
from taskyard.v1.runtime_host_pb2 import (
    Cancellations,
    ConnectRequest,
    ConnectResponse,
    Drain,
    HeartbeatAck,
    Hello,
    Machine,
    Report,
    ReportResults,
    Welcome,
)
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub

from .artifacts import HostArtifacts
from .departure import CLOSE_SECS, Departure
from .heart import Heart, StreamBroken
from .lease_table import held_message
from .machine import MachineFigures
from .options import HostOptions, Part
from .outage_lines import OutageLines
from .outbox import LeaseKey, key_of
from .output_link import OutputLink
from .remote_handlers import RemoteHandlers
from .session import Session
from .watch import Watch

if TYPE_CHECKING:
    from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceAsyncStub

log = logging.getLogger("taskyard")

Stream: TypeAlias = ThreadedStream[ConnectRequest, ConnectResponse]

FINAL_ERRORS: Final = frozenset({"bad_request", "conflict", "permission_denied", "unauthenticated", "unimplemented"})
"""The errors after which another try has the same result."""
WELCOME_SECS: Final = 10.0
WELCOME_BESIDE_OTHERS_SECS: Final = 5.0
SETTLE_SECS: Final = 0.3
"""After a stall, what has arrived meanwhile is read before leases are given up: it may have renewed them."""

STALL_BEFORE_SECS: Final = 5.0
"""A connection that is lost so soon after a stall was lost by it."""


class Connection:
    """A stream of a host, again and again. Everything but the constructor is called in the loop of the connection.

    Args:
        options: The options of the host.
        part: Which part of the host it is for.
        handlers: The handlers of the host.
        watch: Knows whether the process stalls.
        owners: Where it puts which handlers it has started.
        artifacts: Is told the largest payload of a result.
    """

    def __init__(
        self,
        options: HostOptions,
        part: Part,
        handlers: RemoteHandlers,
        watch: Watch,
        owners: "dict[LeaseKey, Connection]",
        artifacts: HostArtifacts,
    ) -> None:
        self._artifacts = artifacts
        self._owners = owners
        self._options = options
        self._part = part
        self._handlers = handlers
        self._watch = watch
        self._instance = uuid.uuid4().hex
        self._credentials = options.credentials
        self._renewal = Renewal(options.credentials)
        self._sent: Metadata = ()
        """The metadata of the last stream."""
        self._machine = MachineFigures() if options.machine_figures else None
        self._session = Session(part.slots)
        self._servers = Servers(options.credentials, open_threaded_channel)
        self._reconnecting = Reconnecting()
        self._told_to_reconnect = False
        self._wake = asyncio.Event()
        """Set when there may be something to write, or a reason to leave."""
        self._output = OutputLink(self._session, self._wake.set)
        self._heart = Heart(watch, self._wake.set)
        self._stub: RuntimeHostServiceAsyncStub | None = None
        self._lines = OutageLines(part.host_id)
        self._departure = Departure(
            part.host_id, options.credentials, self._session, handlers, self._wake.set, self._give_up
        )
        self._has_left = False
        """Set once the host needs its stream no more. How the stream ends then does not matter."""
        self._connecting: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """True if nothing runs and every report was answered. May be read from any thread."""
        return self._session.is_finished

    async def run(self) -> None:
        """Work until the host has drained.

        Raises:
            TaskyardError: The server refuses the host for good.
        """
        self._output.open()
        self._connecting = asyncio.create_task(self._stay_connected())
        try:
            await asyncio.wait({self._connecting})
            if not self._connecting.cancelled():
                self._connecting.result()
        finally:
            self._output.close()
            tasks = [self._connecting, *self._departure.tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._servers.close()
        log.info("host %s has left", self._part.host_id)

    def drain(self) -> None:
        """Take no more tasks, finish what runs within the grace period, then leave. A repeated call has no effect."""
        self._departure.drain("host", self._now() + self._options.drain_grace_secs, self._stub)

    def report_progress(self, report: Report) -> None:
        """Report the progress of a handler.

        Args:
            report: The progress report.
        """
        self._session.report_progress(report)
        self._wake.set()

    def report_outcome(self, key: LeaseKey, outcome: Report | None) -> None:
        """Report that a handler has ended.

        Args:
            key: The lease.
            outcome: The final report, None if the handler was stopped before it had one.
        """
        self._output.take_all()
        self._session.handler_ended(key, outcome)
        self._wake.set()

    def tick(self) -> None:
        """Give up the leases that are over, and ask for no tasks while the program cannot start them."""
        now = self._now()
        if self._session.is_stuck != self._watch.is_blocked:
            self._session.is_stuck = self._watch.is_blocked
            self._wake.set()
        if self._stub is None or not self._watch.stalled_secs(now - SETTLE_SECS):
            self._expire_leases(now)

    # Connection

    async def _stay_connected(self) -> None:
        while not (self._session.draining and not self._session.active and not self._session.leases.held()):
            began, self._told_to_reconnect = self._now(), False
            server = await self._servers.pick()
            error: TaskyardError
            try:
                with server.used() as channel:
                    await self._connect(server, channel)
            except grpc.RpcError as failed:
                error = server.error_of(failed)
                if error.code == "conflict" and error.details.get("cause") == "deregistered":
                    log.warning("host %s was deregistered: it stops what runs and registers anew", self._part.host_id)
                    self._handlers.stop(self._session.lose(list(self._session.leases)))
                elif error.code == "unauthenticated" and self._renewal.is_worth_it(self._sent):
                    log.info("host %s connects once more: %s", self._part.host_id, error.reason)
                elif error.code in FINAL_ERRORS:
                    raise error from failed
                else:
                    self._log_connection_error(error)
            except (StreamBroken, TimeoutError) as broken:
                error = Unavailable(str(broken) or f"{server.address} does not answer")
                self._log_connection_error(error)
            else:
                return
            await self._wait_for_next(server, error, began)

    async def _wait_for_next(self, server: Server, error: TaskyardError, began: float) -> None:
        """Wait before the next stream, after one that began then and ended so."""
        is_moved = self._told_to_reconnect or isinstance(error, NotOwner)
        if not is_moved or isinstance(error, NotOwner):
            self._servers.note(server, error)
        if not is_moved:
            # A channel that failed waits before it connects again; a new one does not.
            await self._servers.renew()
        now = self._now()
        delay = self._reconnecting.delay(error, self._told_to_reconnect, bool(self._session.leases.held()), began, now)
        was_draining = self._session.draining
        while (left := now + delay - self._now()) > 0 and self._session.draining == was_draining:
            self._wake.clear()
            try:
                async with asyncio.timeout(left):
                    await self._wake.wait()
            except TimeoutError:
                return

    async def _connect(self, server: Server, channel: grpc.aio.Channel) -> None:
        """Work over one stream until the host has left by it. Handlers go on if the stream breaks.

        Raises `RpcError`, `StreamBroken` or TimeoutError if it does.
        """
        stub: RuntimeHostServiceAsyncStub = RuntimeHostServiceStub(channel)
        self._sent = self._credentials.metadata()
        # What opened the channel knows of no other streams.
        call: Stream = stub.Connect(metadata=self._sent)  # type: ignore[assignment]
        try:
            welcome = await self._handshake(call, server)
            self._stub = stub
            await self._serve(call, welcome, stub)
        finally:
            self._stub = None
            self._session.handle_disconnect(self._now())
            call.cancel()

    async def _handshake(self, call: Stream, server: Server) -> Welcome:
        sent_at = self._now()
        welcome_secs = WELCOME_BESIDE_OTHERS_SECS if self._servers.are_several else WELCOME_SECS
        async with asyncio.timeout(welcome_secs):
            # If the stream has ended already, reading raises the reason.
            with contextlib.suppress(StreamEnded):
                await call.write(ConnectRequest(hello=self._hello()))
            first = await call.read()
        if not isinstance(first, ConnectResponse) or not first.HasField("welcome"):
            raise StreamBroken("the server closed the stream")
        welcome = first.welcome
        self._handlers.stop(self._session.handle_welcome(welcome, sent_at))
        self._output.begin(welcome.output_bytes)
        self._artifacts.max_payload_bytes = welcome.max_payload_bytes
        self._heart.acknowledged_at = sent_at
        self._lines.connected(server.address, welcome.session)
        if welcome.lost:
            log.warning("%d leases were lost while the host was away", len(welcome.lost))
        self._renewal.worked()
        return welcome

    async def _serve(self, call: Stream, welcome: Welcome, stub: "RuntimeHostServiceAsyncStub") -> None:
        self._heart.begin(welcome.heartbeat_interval_ms, self._now())
        lease_secs = float(welcome.lease_secs)
        silence_secs = lease_secs / 2 if self._servers.are_several else lease_secs
        reader = asyncio.create_task(self._read_messages(call))
        writer = asyncio.create_task(self._write_messages(call))
        heart = asyncio.create_task(self._heart.beat(silence_secs))
        parts = (reader, writer, heart)
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            if self._has_left:
                await self._leave_stream(call, stub)
                await asyncio.wait({reader}, timeout=CLOSE_SECS)
                return
            if writer.done() and not writer.exception():
                # It has met the end of the stream; the reader learns how the stream ended.
                await asyncio.wait({reader}, timeout=CLOSE_SECS)
            for part in parts:
                if part.done():
                    part.result()
            raise StreamBroken("the server closed the stream")
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    async def _leave_stream(self, call: Stream, stub: "RuntimeHostServiceAsyncStub") -> None:
        """Deregister the host and end its stream, in this order.

        `DrainHost` and `DeregisterHost` name the host by its id alone: after the end of the stream they could reach the
        next host with that id.
        """
        await self._departure.deregister(stub)
        await call.done_writing()

    async def _read_messages(self, call: Stream) -> None:
        while isinstance(message := await call.read(), ConnectResponse):
            if message.HasField("acknowledged_heartbeat"):
                self._handle_heartbeat_ack(HeartbeatAck(sequence=message.acknowledged_heartbeat))
            if message.accepted_reports:
                self._expire_leases(self._now())
                self._start(self._session.handle_accepted_reports(message.accepted_reports))
            match message.WhichOneof("message"):
                case "assignments":
                    for assignment in message.assignments.assignments:
                        self._session.handle_assignment(assignment)
                case "report_results":
                    self._handle_report_results(message.report_results)
                case "output_acks":
                    self._handlers.stop(self._output.handle_acks(message.output_acks))
                case "heartbeat_ack":
                    self._handle_heartbeat_ack(message.heartbeat_ack)
                case "heartbeat_interval":
                    self._heart.change_interval(message.heartbeat_interval.heartbeat_interval_ms)
                case "cancellations":
                    self._handle_cancellations(message.cancellations)
                case "drain":
                    self._handle_drain(message.drain)
            self._wake.set()

    async def _write_messages(self, call: Stream) -> None:
        """Write what is due, until the stream ends or the host has nothing left to do and leaves."""
        session = self._session
        with contextlib.suppress(StreamEnded):
            while True:
                self._wake.clear()
                messages = session.next_messages(self._heartbeat())
                waiting = [(each, call.write_soon(each, tells=_starts(each))) for each in messages]
                for message, written in waiting:
                    if written is not None:
                        await written
                        # The message may have waited while the process was suspended: the leases may be over.
                        self._expire_leases(self._now())
                        self._start(session.message_written(message))
                if not messages:
                    if session.draining and session.is_finished:
                        self._has_left = not call.done()
                        return
                    await self._wake.wait()

    def _heartbeat(self) -> ConnectRequest | None:
        """The heartbeat to write now, if one is due or may ride with the reports that are written now."""
        now = self._now()
        if not (self._heart.is_due or (self._session.heartbeats_may_ride and self._heart.may_ride(now))):
            return None
        self._heart.sent(now)
        return self._session.next_heartbeat(now, self._machine_figures(), self._handlers.tokens_used())

    def _start(self, assignments: list[Assignment]) -> None:
        for assignment in assignments:
            self._owners[key_of(assignment.lease)] = self
        self._handlers.start(assignments, self._output.of)

    def _expire_leases(self, now: float) -> None:
        """Give up the leases that were not renewed in time, and say why."""
        overdue = self._session.leases.overdue(now)
        if not overdue:
            return
        now = self._watch.look()
        tasks = ", ".join(f"{key[0]} ({action})" for key, action in list(overdue.items())[:3])
        self._lines.leases_ended(
            tasks + (" and others" if len(overdue) > 3 else ""),
            len(overdue),
            now - self._heart.acknowledged_at,
            self._watch.culprits if self._watch.stalled_secs(self._heart.acknowledged_at) else "",
            is_connected=self._stub is not None,
        )
        self._handlers.stop(self._session.expire_leases(now))

    # Messages of the server

    def _handle_heartbeat_ack(self, ack: HeartbeatAck) -> None:
        self._heart.acknowledged_at = self._now()
        self._handlers.stop(self._session.handle_heartbeat_ack(ack))

    def _handle_report_results(self, results: ReportResults) -> None:
        # The answer may have waited while the process was suspended: the leases may be over.
        self._expire_leases(self._now())
        changes = self._session.handle_report_results(results)
        self._handlers.stop(changes.stop)
        self._start(changes.start)

    def _handle_cancellations(self, cancellations: Cancellations) -> None:
        for cancellation in cancellations.cancellations:
            log.info("task %s is to be stopped: %s", cancellation.task_id, cancellation.message or "no reason given")
            self._handlers.stop(self._session.handle_cancellation(cancellation))

    def _handle_drain(self, drain: Drain) -> None:
        word = "reconnect" if drain.reconnect else "drain"
        log.info("host %s is told to %s: %s", self._part.host_id, word, drain.reason or "no reason given")
        if drain.reconnect:
            # Another server takes over: this one assigns nothing more and closes the stream. The next follows at once.
            self._told_to_reconnect = True
        else:
            self._departure.drain_for_server(drain)

    # Internals

    def _hello(self) -> Hello:
        options, part = self._options, self._part
        return Hello(
            host_id=part.host_id,
            instance=self._instance,
            display_name=options.display_name,
            capabilities=options.capabilities,
            slots=part.slots,
            leases=[held_message(key) for key in self._session.leases.held()],
            project=options.project,
            actions=part.actions,
            labels=options.labels,
            lease_secs=options.lease_secs,
            counts_accepted=True,
            machine=self._machine_figures(),
        )

    def _machine_figures(self) -> Machine | None:
        return None if self._machine is None else self._machine.look(self._session.active)

    def _log_connection_error(self, error: TaskyardError) -> None:
        """Log why the host is not connected, once for each code."""
        now = self._watch.look()
        if self._told_to_reconnect or isinstance(error, NotOwner):
            self._lines.moved(error)
            return
        stalled = self._watch.stalled_secs(now - STALL_BEFORE_SECS)
        self._lines.not_connected(error, stalled, self._watch.culprits if stalled else "", self._session.active)

    def _give_up(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _starts(message: ConnectRequest) -> bool:
    """True if a handler may be started once this was written."""
    return any(report.HasField("started") for report in message.reports.reports)
