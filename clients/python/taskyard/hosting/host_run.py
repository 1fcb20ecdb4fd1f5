"""One run of a host: it connects, works, reconnects and leaves (docs/rules.md, Host stream).

`session.Session` decides what is held, sent and run; this module has the connection and the clock. A stream has a
reader and a writer that never wait for each other. All times are those of the event loop, in seconds.
"""

import asyncio
import contextlib
import logging
import uuid
from typing import TYPE_CHECKING, Final, TypeAlias

import grpc

from taskyard.channel import check_cancelled
from taskyard.credentials import Metadata, Renewal
from taskyard.errors import NotOwner, TaskyardError, Unavailable
from taskyard.present import now
from taskyard.reconnecting import Reconnecting
from taskyard.servers import Server, Servers
from taskyard.v1.runtime_host_pb2 import (
    Cancellations,
    ConnectRequest,
    ConnectResponse,
    DeregisterHostRequest,
    Drain,
    DrainHostRequest,
    HeartbeatInterval,
    Hello,
    Machine,
    Report,
    ReportResults,
    Welcome,
)
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub

from .actions import Actions
from .handlers import Handlers
from .machine import MachineFigures
from .options import HostOptions
from .outbox import LeaseKey
from .session import Session

if TYPE_CHECKING:
    from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceAsyncStub

log = logging.getLogger("taskyard")

Stream: TypeAlias = "grpc.aio.StreamStreamCall[ConnectRequest, ConnectResponse]"

FINAL_ERRORS: Final = frozenset({"bad_request", "conflict", "permission_denied", "unauthenticated", "unimplemented"})
"""The errors after which another try has the same result."""
WELCOME_SECS: Final = 10.0
WELCOME_BESIDE_OTHERS_SECS: Final = 5.0
CLOSE_SECS: Final = 5.0
INTERRUPT_SECS: Final = 5.0
"""How long handlers may take to end once they are cancelled because the host leaves."""
DRAIN_SLACK_SECS: Final = 2.0
"""At the end of a drain by the server, the server interrupts what runs. The host does so only if that fails."""
EXPIRY_CHECK_SECS: Final = 0.1
DEFAULT_HEARTBEAT_SECS: Final = 20.0
"""The interval where the server names none."""
MIN_HEARTBEAT_SECS: Final = 0.01


class _StreamBroken(Exception):
    """The stream is of no use any more, although gRPC reports no error."""


class HostRun:
    """A host at work. Create it in the event loop in which it runs.

    Args:
        options: The options of the host.
        actions: The handlers of the host.
    """

    def __init__(self, options: HostOptions, actions: Actions) -> None:
        self._options = options
        self._actions = actions
        self._instance = uuid.uuid4().hex
        self._credentials = options.credentials
        self._renewal = Renewal(options.credentials)
        self._sent: Metadata = ()
        """What was sent with the last stream."""
        self._machine = MachineFigures() if options.machine_figures else None
        self._session = Session(options.slots)
        self._servers = Servers(options.credentials)
        self._reconnecting = Reconnecting()
        self._told_to_reconnect = False
        self._wake = asyncio.Event()
        """Set when there may be something to write, or a reason to leave."""
        self._handlers = Handlers(
            actions, options.slots, on_progress=self._report_progress, on_outcome=self._report_outcome
        )
        self._heartbeat_secs = 0.0
        self._heartbeat_secs_changed = asyncio.Event()
        self._heartbeat_due = False
        self._acknowledged_at = 0.0
        self._was_connected = False
        self._stub: RuntimeHostServiceAsyncStub | None = None
        self._logged_error: str | None = None
        """The code of the connection error that was logged last."""
        self._interrupt_at: dict[str, float] = {}
        """When handlers that still run are interrupted, by the initiator of the drain: `host` or `server`."""
        self._leaving: asyncio.Task[None] | None = None
        self._announcing: asyncio.Task[None] | None = None
        self._has_left = False
        """Set once the host needs its stream no more. How the stream ends then does not matter."""
        self._connecting: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Work until the host has drained.

        Raises:
            TaskyardError: The server refuses the host for good.
        """
        await self._handlers.open()
        expiring = asyncio.create_task(self._expire_leases())
        self._connecting = asyncio.create_task(self._stay_connected())
        try:
            await asyncio.wait({self._connecting})
            if not self._connecting.cancelled():
                self._connecting.result()
        finally:
            tasks = [task for task in (expiring, self._connecting, self._leaving, self._announcing) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._servers.close()
            await self._handlers.close()
        log.info("host %s has left", self._options.host_id)

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and every report was answered. May be read from any thread."""
        return self._session.is_finished

    def drain(self) -> None:
        """Take no more tasks, finish what runs within the grace period, then leave. A repeated call has no effect."""
        if "host" in self._interrupt_at:
            return
        log.info("host %s drains: %d tasks run", self._options.host_id, self._session.active)
        if self._stub is not None and not self._session.draining:
            self._announcing = asyncio.create_task(self._announce_drain(self._stub))
        self._drain_until("host", self._now() + self._options.drain_grace_secs)

    # Connection

    async def _stay_connected(self) -> None:
        while not (self._session.draining and not self._session.active and not self._session.holds_leases):
            began, self._told_to_reconnect = self._now(), False
            server = await self._servers.pick()
            error: TaskyardError
            try:
                with server.used() as channel:
                    await self._connect(server, channel)
            except grpc.aio.AioRpcError as failed:
                check_cancelled()
                error = server.error_of(failed)
                if error.code == "conflict" and error.details.get("cause") == "deregistered":
                    log.warning(
                        "host %s was deregistered: it stops what runs and registers anew", self._options.host_id
                    )
                    self._handlers.stop(self._session.handle_deregistration())
                elif error.code == "unauthenticated" and self._renewal.is_worth_it(self._sent):
                    log.info("host %s connects once more: %s", self._options.host_id, error.reason)
                elif error.code in FINAL_ERRORS:
                    raise error from failed
                else:
                    self._log_connection_error(error)
            except (_StreamBroken, TimeoutError) as broken:
                error = Unavailable(str(broken) or "no answer")
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
        delay = self._reconnecting.delay(error, self._told_to_reconnect, self._session.holds_leases, began, now)
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

        Raises `AioRpcError`, `_StreamBroken` or TimeoutError if it does.
        """
        stub: RuntimeHostServiceAsyncStub = RuntimeHostServiceStub(channel)
        self._sent = self._credentials.metadata()
        call: Stream = stub.Connect(metadata=self._sent)
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
            with contextlib.suppress(asyncio.InvalidStateError):
                await call.write(ConnectRequest(hello=self._hello()))
            first = await call.read()
        if not isinstance(first, ConnectResponse) or not first.HasField("welcome"):
            raise _StreamBroken("the server closed the stream")
        welcome = first.welcome
        self._handlers.stop(self._session.handle_welcome(welcome, sent_at))
        self._acknowledged_at = sent_at
        log.info(
            "host %s %s %s (session %s)",
            self._options.host_id,
            "is back at" if self._was_connected else "connected to",
            server.address,
            welcome.session,
        )
        if welcome.lost:
            log.warning("%d leases were lost while the host was away", len(welcome.lost))
        self._was_connected, self._logged_error = True, None
        self._renewal.worked()
        return welcome

    async def _serve(self, call: Stream, welcome: Welcome, stub: "RuntimeHostServiceAsyncStub") -> None:
        self._heartbeat_due = False
        self._heartbeat_secs = _interval_secs(welcome.heartbeat_interval_ms, DEFAULT_HEARTBEAT_SECS)
        self._heartbeat_secs_changed.clear()
        reader = asyncio.create_task(self._read_messages(call))
        writer = asyncio.create_task(self._write_messages(call))
        heart = asyncio.create_task(self._schedule_heartbeats(float(welcome.lease_secs)))
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
            raise _StreamBroken("the server closed the stream")
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    async def _read_messages(self, call: Stream) -> None:
        while isinstance(message := await call.read(), ConnectResponse):
            match message.WhichOneof("message"):
                case "assignments":
                    for assignment in message.assignments.assignments:
                        self._session.handle_assignment(assignment)
                case "report_results":
                    self._handle_report_results(message.report_results)
                case "heartbeat_ack":
                    self._acknowledged_at = self._now()
                    self._handlers.stop(self._session.handle_heartbeat_ack(message.heartbeat_ack))
                case "heartbeat_interval":
                    self._change_heartbeat_interval(message.heartbeat_interval)
                case "cancellations":
                    self._handle_cancellations(message.cancellations)
                case "drain":
                    self._handle_drain(message.drain)
            self._wake.set()

    async def _write_messages(self, call: Stream) -> None:
        """Write what is due, until the stream ends or the host has nothing left to do and leaves."""
        session = self._session
        with contextlib.suppress(asyncio.InvalidStateError):
            while True:
                self._wake.clear()
                if self._heartbeat_due:
                    self._heartbeat_due = False
                    await call.write(
                        session.next_heartbeat(self._now(), self._machine_figures(), self._handlers.tokens_used())
                    )
                messages = session.next_messages()
                for message in messages:
                    await call.write(message)
                    # The message may have waited while the process was suspended: the leases may be over.
                    self._handlers.stop(session.expire_leases(self._now()))
                    self._handlers.start(session.message_written(message))
                if not messages:
                    if session.draining and session.is_finished:
                        self._has_left = not call.done()
                        return
                    await self._wake.wait()

    async def _schedule_heartbeats(self, lease_secs: float) -> None:
        """Have a heartbeat written each interval, and at once when the interval changes.

        Raises `_StreamBroken` when no heartbeat was answered for as long as a lease.
        """
        while True:
            interval = self._heartbeat_secs
            due = self._now() + interval
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval):
                    await self._heartbeat_secs_changed.wait()
            self._heartbeat_secs_changed.clear()
            now = self._now()
            if now - due > interval:
                log.warning("heartbeat late by %.1f s: a handler blocks the event loop", now - due)
            if now - self._acknowledged_at > interval + (lease_secs / 2 if self._servers.are_several else lease_secs):
                raise _StreamBroken(f"no heartbeat was answered for {now - self._acknowledged_at:.1f} s")
            self._heartbeat_due = True
            self._wake.set()

    async def _expire_leases(self) -> None:
        while True:
            await asyncio.sleep(EXPIRY_CHECK_SECS)
            self._handlers.stop(self._session.expire_leases(self._now()))

    # Messages of the server

    def _handle_report_results(self, results: ReportResults) -> None:
        # The answer may have waited while the process was suspended: the leases may be over.
        self._handlers.stop(self._session.expire_leases(self._now()))
        changes = self._session.handle_report_results(results)
        self._handlers.stop(changes.stop)
        self._handlers.start(changes.start)

    def _change_heartbeat_interval(self, change: HeartbeatInterval) -> None:
        self._heartbeat_secs = _interval_secs(change.heartbeat_interval_ms, self._heartbeat_secs)
        self._heartbeat_secs_changed.set()

    def _handle_cancellations(self, cancellations: Cancellations) -> None:
        for cancellation in cancellations.cancellations:
            log.info("task %s is to be stopped: %s", cancellation.task_id, cancellation.message or "no reason given")
            self._handlers.stop(self._session.handle_cancellation(cancellation))

    def _handle_drain(self, drain: Drain) -> None:
        word = "reconnect" if drain.reconnect else "drain"
        log.info("host %s is told to %s: %s", self._options.host_id, word, drain.reason or "no reason given")
        if drain.reconnect:
            # Another server takes over: this one assigns nothing more and closes the stream. The next follows at once.
            self._told_to_reconnect = True
            return
        end = float("inf")
        if drain.HasField("deadline"):
            secs = drain.deadline.ToNanoseconds() / 1e9 - now().timestamp()
            end = self._now() + max(0.0, secs) + DRAIN_SLACK_SECS
        self._drain_until("server", end)

    # Leaving

    async def _leave_stream(self, call: Stream, stub: "RuntimeHostServiceAsyncStub") -> None:
        """Deregister the host and end its stream, in this order.

        `DrainHost` and `DeregisterHost` name the host by its id alone: after the end of the stream they could reach the
        next host with that id.
        """
        if self._announcing is not None:
            await asyncio.wait({self._announcing})
        await self._deregister(stub)
        # The server may have ended the stream.
        with contextlib.suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError):
            await call.done_writing()

    def _drain_until(self, initiator: str, end: float) -> None:
        self._session.drain()
        self._interrupt_at[initiator] = end
        if self._leaving is not None:
            self._leaving.cancel()
        self._leaving = asyncio.create_task(self._leave(min(self._interrupt_at.values())))
        self._wake.set()

    async def _leave(self, end: float) -> None:
        """Interrupt what still runs at `end`, and leave even if handlers do not stop."""
        if end == float("inf"):
            return
        await asyncio.sleep(end - self._now())
        if self._session.active:
            log.warning("%d tasks still run: they are interrupted and given back", self._session.active)
        self._handlers.stop_all()
        await asyncio.sleep(INTERRUPT_SECS)
        log.warning("host %s leaves without waiting for %d handlers", self._options.host_id, self._session.active)
        if self._connecting is not None:
            self._connecting.cancel()

    async def _announce_drain(self, stub: "RuntimeHostServiceAsyncStub") -> None:
        """Have the server assign nothing more, also for the credit that it still has."""
        request = DrainHostRequest(host_id=self._options.host_id)
        try:
            await stub.DrainHost(request, metadata=self._credentials.metadata(), timeout=CLOSE_SECS)
        except grpc.aio.AioRpcError as failed:
            # Tasks that are assigned all the same are given back at once.
            log.debug("the server was not told of the drain: %s", failed.details())

    async def _deregister(self, stub: "RuntimeHostServiceAsyncStub") -> None:
        """Have the server forget a host that has left in order."""
        request = DeregisterHostRequest(host_id=self._options.host_id)
        try:
            await stub.DeregisterHost(request, metadata=self._credentials.metadata(), timeout=CLOSE_SECS)
        except grpc.aio.AioRpcError as failed:
            log.debug("the host stays registered: %s", failed.details())

    # Internals

    def _report_progress(self, report: Report) -> None:
        self._session.report_progress(report)
        self._wake.set()

    def _report_outcome(self, key: LeaseKey, outcome: Report | None) -> None:
        self._session.handler_ended(key, outcome)
        self._wake.set()

    def _hello(self) -> Hello:
        options = self._options
        return Hello(
            host_id=options.host_id,
            instance=self._instance,
            display_name=options.display_name,
            capabilities=options.capabilities,
            slots=options.slots,
            leases=self._session.held_leases(),
            project=options.project,
            actions=self._actions.names,
            labels=options.labels,
            lease_secs=options.lease_secs,
            machine=self._machine_figures(),
        )

    def _machine_figures(self) -> Machine | None:
        return None if self._machine is None else self._machine.look(self._session.active)

    def _log_connection_error(self, error: TaskyardError) -> None:
        """Log why the host is not connected, once for each code."""
        if error.code == self._logged_error:
            return
        if self._told_to_reconnect or isinstance(error, NotOwner):
            log.info("host %s goes where its namespace is served: %s", self._options.host_id, error.reason)
            return
        self._logged_error = error.code
        options = self._options
        if error.code == "already_exists":
            log.warning("host %s: another instance holds this id; trying until it is gone", options.host_id)
        elif self._was_connected:
            log.warning("host %s lost its connection, trying on: %s", options.host_id, error.reason)
        else:
            log.warning("host %s is not connected yet, trying on: %s", options.host_id, error.reason)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _interval_secs(ms: int, default_secs: float) -> float:
    return max(ms / 1000, MIN_HEARTBEAT_SECS) if ms else default_secs
