"""One start of a host: it connects, works, reconnects and leaves (DESIGN, The host stream).

What is held and what is to be said is `session.Session`'s; this file has the connection and the clock. A stream has a
reader and a writer that never wait for each other. All times are those of the event loop, in seconds.
"""

import asyncio
import contextlib
import logging
import random
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import grpc

from taskyard.v1.runtime_host_pb2 import (
    Cancellations,
    ConnectRequest,
    ConnectResponse,
    DeregisterHostRequest,
    Drain,
    DrainHostRequest,
    Hello,
    Machine,
    Welcome,
)
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub

from .actions import Actions, Handlers
from .channel import call_metadata, open_channel
from .errors import TaskyardError, error_from_rpc
from .machine import MachineFigures
from .session import Session

if TYPE_CHECKING:
    from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceAsyncStub

log = logging.getLogger("taskyard")

Stream: TypeAlias = "grpc.aio.StreamStreamCall[ConnectRequest, ConnectResponse]"

FINAL_ERRORS: Final = frozenset({"bad_request", "conflict", "permission_denied", "unauthenticated", "unimplemented"})
"""What no other try can mend."""
FIRST_DELAY_SECS: Final = 0.1
MAX_DELAY_SECS: Final = 5.0
MAX_DELAY_WITH_LEASES_SECS: Final = 1.0
"""Leases outlive a break only for seconds."""
STEADY_SECS: Final = 5.0
"""A stream that lived so long was a good one; the next break is the first again."""
WELCOME_SECS: Final = 10.0
CLOSE_SECS: Final = 5.0
INTERRUPT_SECS: Final = 5.0
"""How long handlers that were cancelled for leaving may take to end."""
DRAIN_SLACK_SECS: Final = 2.0
"""At the end of a drain of its own the server interrupts what runs, which is better than that the host does."""
EXPIRY_LOOK_SECS: Final = 0.1


@dataclass(frozen=True, slots=True)
class HostOptions:
    """What a host is and how it works; see `Host`."""

    address: str
    host_id: str
    slots: int
    capabilities: Sequence[str] = ()
    namespace: str = "default"
    project: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    lease_secs: int | None = None
    display_name: str | None = None
    credentials: grpc.ChannelCredentials | None = None
    token: str | None = field(default=None, repr=False)
    drain_grace_secs: float = 30.0
    machine_figures: bool = True


class _Broken(Exception):
    """The stream is of no use any more, though no error of gRPC says so."""


class HostRun:
    """A host at work. Make it in the event loop it runs in."""

    def __init__(self, options: HostOptions, actions: Actions) -> None:
        self._options = options
        self._actions = actions
        self._instance = uuid.uuid4().hex
        self._metadata = call_metadata(options.namespace, options.token)
        self._machine = MachineFigures() if options.machine_figures else None
        self._session = Session(options.slots)
        self._more = asyncio.Event()
        """There may be something to write, or a reason to leave."""
        self._handlers = Handlers(actions, options.slots, self._session, self._more.set)
        self._beat_due = False
        self._acknowledged_at = 0.0
        self._was_connected = False
        self._stub: RuntimeHostServiceAsyncStub | None = None
        self._trouble: str | None = None
        """What was logged last about not being connected."""
        self._leave_by: dict[str, float] = {}
        """When what still runs is interrupted, by who said so."""
        self._leaving: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None
        self._staying: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Work until the host has drained. Raises `TaskyardError` when the server refuses it for good."""
        expiring = asyncio.create_task(self._expire_leases())
        self._staying = asyncio.create_task(self._stay_connected())
        try:
            await asyncio.wait({self._staying})
            if not self._staying.cancelled():
                self._staying.result()
        finally:
            tasks = [task for task in (expiring, self._staying, self._leaving, self._telling) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._handlers.abandon()
        log.info("host %s has left", self._options.host_id)

    def drain(self) -> None:
        """Take no more, finish what runs within the grace period, then leave. A repeat changes nothing."""
        if "host" in self._leave_by:
            return
        log.info("host %s drains: %d tasks run", self._options.host_id, self._session.active)
        if self._stub is not None and not self._session.draining:
            self._telling = asyncio.create_task(self._tell_of_drain(self._stub))
        self._drain_until("host", self._now() + self._options.drain_grace_secs)

    # Connection

    async def _stay_connected(self) -> None:
        tries = 0
        while not (self._session.draining and not self._session.active and not self._session.holds_leases):
            began = self._now()
            try:
                await self._connect()
            except grpc.aio.AioRpcError as failed:
                error = error_from_rpc(failed)
                if error.code == "conflict" and error.details.get("cause") == "deregistered":
                    log.warning(
                        "host %s was deregistered: it stops what runs and registers anew", self._options.host_id
                    )
                    self._handlers.stop(self._session.deregistered())
                elif error.code in FINAL_ERRORS:
                    raise error from failed
                else:
                    self._note(error)
            except (_Broken, TimeoutError) as broken:
                self._note(TaskyardError(str(broken) or "no answer"))
            else:
                return
            tries = 0 if self._now() - began > STEADY_SECS else tries
            await self._pause(tries)
            tries += 1

    async def _connect(self) -> None:
        """Hold one stream until the host has left by it. Raises `AioRpcError`, `_Broken` or TimeoutError if it breaks.

        Handlers go on all the same.
        """
        # A channel that failed waits before it connects again; a new one does not.
        async with open_channel(self._options.address, self._options.credentials) as channel:
            stub: RuntimeHostServiceAsyncStub = RuntimeHostServiceStub(channel)
            call: Stream = stub.Connect(metadata=self._metadata)
            try:
                welcome = await self._greet(call)
                self._stub = stub
                await self._hold(call, welcome)
            finally:
                self._stub = None
                self._session.broken(self._now())
                call.cancel()
            await self._deregister(stub)

    async def _greet(self, call: Stream) -> Welcome:
        sent_at = self._now()
        async with asyncio.timeout(WELCOME_SECS):
            # If it has ended already, reading tells why.
            with contextlib.suppress(asyncio.InvalidStateError):
                await call.write(ConnectRequest(hello=self._hello()))
            first = await call.read()
        if not isinstance(first, ConnectResponse) or not first.HasField("welcome"):
            raise _Broken("the server closed the stream")
        welcome = first.welcome
        self._handlers.stop(self._session.welcomed(welcome, sent_at))
        self._acknowledged_at = sent_at
        log.info(
            "host %s %s %s (session %s)",
            self._options.host_id,
            "is back at" if self._was_connected else "connected to",
            self._options.address,
            welcome.session,
        )
        if welcome.lost:
            log.warning("%d leases were lost while the host was away", len(welcome.lost))
        self._was_connected, self._trouble = True, None
        return welcome

    async def _hold(self, call: Stream, welcome: Welcome) -> None:
        self._beat_due = False
        interval, lease_secs = welcome.heartbeat_interval_ms / 1000, float(welcome.lease_secs)
        reader = asyncio.create_task(self._read(call))
        writer = asyncio.create_task(self._write(call))
        heart = asyncio.create_task(self._beat(interval, lease_secs))
        parts = (reader, writer, heart)
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            if writer.done() and not writer.exception():
                # It has half-closed, or met the end of the stream; the reader learns how it ended.
                await asyncio.wait({reader}, timeout=CLOSE_SECS)
            for part in parts:
                if part.done():
                    part.result()
            if not (writer.done() and writer.result()):
                raise _Broken("the server closed the stream")
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    async def _read(self, call: Stream) -> None:
        session = self._session
        while isinstance(message := await call.read(), ConnectResponse):
            match message.WhichOneof("message"):
                case "assignments":
                    for assignment in message.assignments.assignments:
                        session.assigned(assignment)
                case "report_results":
                    self._handlers.stop(session.answered(message.report_results))
                case "heartbeat_ack":
                    self._acknowledged_at = self._now()
                    self._handlers.stop(session.acknowledged(message.heartbeat_ack))
                case "cancellations":
                    self._cancel(message.cancellations)
                case "drain":
                    self._drained(message.drain)
            self._more.set()

    async def _write(self, call: Stream) -> bool:
        """Write what there is to say. Answers True once it has half-closed, False if the stream has ended before."""
        session = self._session
        try:
            while True:
                self._more.clear()
                if self._beat_due:
                    self._beat_due = False
                    await call.write(session.heartbeat(self._now(), self._figures()))
                messages = session.turn()
                for message in messages:
                    await call.write(message)
                    # What lay in a buffer while the process stood still may be over before it begins.
                    self._handlers.stop(session.expired(self._now()))
                    self._handlers.begin(session.written(message))
                if not messages:
                    if session.draining and session.is_finished:
                        await call.done_writing()
                        return True
                    await self._more.wait()
        except asyncio.InvalidStateError:
            return False

    async def _beat(self, interval: float, lease_secs: float) -> None:
        """Have a heartbeat written each interval. Raises `_Broken` when none was answered for as long as a lease."""
        while True:
            due = self._now() + interval
            await asyncio.sleep(interval)
            now = self._now()
            if now - due > interval:
                log.warning("heartbeat late by %.1f s: a handler blocks the event loop", now - due)
            if now - self._acknowledged_at > interval + lease_secs:
                raise _Broken(f"no heartbeat was answered for {now - self._acknowledged_at:.1f} s")
            self._beat_due = True
            self._more.set()

    async def _expire_leases(self) -> None:
        while True:
            await asyncio.sleep(EXPIRY_LOOK_SECS)
            self._handlers.stop(self._session.expired(self._now()))

    async def _pause(self, tries: int) -> None:
        """Wait before the next try: exponential backoff with full jitter, cut short when the host is told to drain."""
        most = MAX_DELAY_WITH_LEASES_SECS if self._session.holds_leases else MAX_DELAY_SECS
        delay = random.uniform(0, min(most, FIRST_DELAY_SECS * 2 ** min(tries, 10)))
        began, was_draining = self._now(), self._session.draining
        while (left := began + delay - self._now()) > 0 and self._session.draining == was_draining:
            self._more.clear()
            try:
                async with asyncio.timeout(left):
                    await self._more.wait()
            except TimeoutError:
                return

    # Leaving

    def _cancel(self, cancellations: Cancellations) -> None:
        for cancellation in cancellations.cancellations:
            log.info("task %s is to be stopped: %s", cancellation.task_id, cancellation.message or "no reason given")
            self._handlers.stop(self._session.cancelled(cancellation))

    def _drained(self, drain: Drain) -> None:
        log.info("host %s is told to drain: %s", self._options.host_id, drain.reason or "no reason given")
        if drain.reconnect:
            # Nothing new comes on this stream, and what runs then is stopped by the server. After it there is another.
            return
        end = float("inf")
        if drain.HasField("deadline"):
            secs = drain.deadline.ToNanoseconds() / 1e9 - time.time()
            end = self._now() + max(0.0, secs) + DRAIN_SLACK_SECS
        self._drain_until("server", end)

    def _drain_until(self, who: str, end: float) -> None:
        self._session.drain()
        self._leave_by[who] = end
        if self._leaving is not None:
            self._leaving.cancel()
        self._leaving = asyncio.create_task(self._leave(min(self._leave_by.values())))
        self._more.set()

    async def _leave(self, end: float) -> None:
        """Interrupt what still runs at `end`, and leave without waiting for ever."""
        if end == float("inf"):
            return
        await asyncio.sleep(end - self._now())
        if self._session.active:
            log.warning("%d tasks still run: they are interrupted and given back", self._session.active)
        self._handlers.stop_all()
        await asyncio.sleep(INTERRUPT_SECS)
        log.warning("host %s leaves without waiting for %d handlers", self._options.host_id, self._session.active)
        if self._staying is not None:
            self._staying.cancel()

    async def _tell_of_drain(self, stub: "RuntimeHostServiceAsyncStub") -> None:
        """Have the server hand out nothing more, also for the credit that it still has."""
        request = DrainHostRequest(host_id=self._options.host_id)
        try:
            await stub.DrainHost(request, metadata=self._metadata, timeout=CLOSE_SECS)
        except grpc.aio.AioRpcError as failed:
            # What comes all the same is given back at once.
            log.debug("the server was not told of the drain: %s", failed.details())

    async def _deregister(self, stub: "RuntimeHostServiceAsyncStub") -> None:
        """A host that has left in order is not looked for any more."""
        request = DeregisterHostRequest(host_id=self._options.host_id)
        try:
            await stub.DeregisterHost(request, metadata=self._metadata, timeout=CLOSE_SECS)
        except grpc.aio.AioRpcError as failed:
            log.debug("the host stays registered: %s", failed.details())

    # Words

    def _hello(self) -> Hello:
        options = self._options
        return Hello(
            host_id=options.host_id,
            instance=self._instance,
            display_name=options.display_name,
            capabilities=options.capabilities,
            slots=options.slots,
            leases=self._session.held(),
            project=options.project,
            actions=self._actions.names,
            labels=options.labels,
            lease_secs=options.lease_secs,
            machine=self._figures(),
        )

    def _figures(self) -> Machine | None:
        return None if self._machine is None else self._machine.look(self._session.active)

    def _note(self, error: TaskyardError) -> None:
        """Say once what keeps the host from its server."""
        if error.code == self._trouble:
            return
        self._trouble = error.code
        options = self._options
        if error.code == "already_exists":
            log.warning("host %s: another instance holds this id; trying until it is gone", options.host_id)
        elif self._was_connected:
            log.warning("host %s lost its connection, trying on: %s", options.host_id, error.reason)
        else:
            log.warning("host %s: no server at %s yet, trying on: %s", options.host_id, options.address, error.reason)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
