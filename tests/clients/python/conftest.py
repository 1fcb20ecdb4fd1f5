"""Fixtures of the client tests: a real server that can be stopped and started, and a proxy that can be cut."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest

from taskyard import Client, Host
from taskyard.v1 import (
    artifact_pb2_grpc,
    batch_pb2_grpc,
    input_pb2_grpc,
    namespace_pb2_grpc,
    output_pb2,
    output_pb2_grpc,
    runtime_host_pb2_grpc,
    schedule_pb2_grpc,
    stats_pb2_grpc,
    step_pb2_grpc,
    target_pb2_grpc,
    task_pb2,
    task_pb2_grpc,
)
from taskyard_server.conversion.output import encoder, new_chunks
from taskyard_server.conversion.task_encoding import encode_event
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.leases import Lease
from taskyard_server.core.limits import Limits
from taskyard_server.engine.engine import Engine
from taskyard_server.interceptors.calls import CallInterceptor
from taskyard_server.metrics.samples import Samples
from taskyard_server.metrics.snapshots import Snapshots
from taskyard_server.services.artifacts import ArtifactService
from taskyard_server.services.batches import BatchService
from taskyard_server.services.hosts import RuntimeHostService
from taskyard_server.services.inputs import InputService
from taskyard_server.services.namespaces import NamespaceService
from taskyard_server.services.output import OutputService
from taskyard_server.services.schedules import ScheduleService
from taskyard_server.services.stats import StatsService
from taskyard_server.services.steps import StepService
from taskyard_server.services.targets import TargetService
from taskyard_server.services.task_watches import TaskWatches
from taskyard_server.services.tasks import TaskService
from taskyard_server.settings.config import SchedulerSettings
from taskyard_server.store.objects import Objects
from taskyard_server.store.port import Store
from taskyard_server.webhooks.webhooks import WebhookCounts
from tests import reporting
from tests.engines import running_engine
from tests.live import live
from tests.ports import free_port
from tests.waiting import until

MAX_PAYLOAD_BYTES = 2_000_000


class WatchedTasks(TaskService):
    """The real service. It records what its streams carry, and can withhold its answers."""

    def __init__(self, engine: Engine, watches: TaskWatches, max_payload_bytes: int) -> None:
        super().__init__(engine, max_payload_bytes, watches)
        self.messages: list[list[str]] = []
        self.streams = 0
        self.mute = False
        self.arrived = asyncio.Event()
        self.watched: list[task_pb2.WatchTasksRequest] = []

    async def SubmitTasks(self, request_iterator, context):  # noqa: N802
        self.streams += 1

        async def recorded():
            async for request in request_iterator:
                self.messages.append([task.action for task in request.tasks])
                self.arrived.set()
                yield request

        await super().SubmitTasks(recorded(), MuteContext(context, self))

    async def WatchTasks(self, request, context):  # noqa: N802
        self.watched.append(request)
        await super().WatchTasks(request, context)


class WatchedArtifacts(ArtifactService):
    """The real service. It records what comes, and breaks where a test wants it.

    Attributes:
        parts: The offsets and bytes of the parts that were taken, in order.
        offsets: Where readers have begun.
        answering: Called when a part is taken and its answer is about to be sent.
        sending: Called before each piece that a reader is to get.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.parts: list[tuple[int, int]] = []
        self.offsets: list[int] = []
        self.answering: Callable[[], Awaitable[None]] | None = None
        self.sending: Callable[[], Awaitable[None]] | None = None

    async def AttachArtifact(self, request, context):  # noqa: N802
        return await self._taken(request, await super().AttachArtifact(request, context))

    async def UploadArtifact(self, request, context):  # noqa: N802
        return await self._taken(request, await super().UploadArtifact(request, context))

    async def ReadArtifact(self, request, context):  # noqa: N802
        async for body in self._sent(request, super().ReadArtifact(request, context)):
            yield body

    async def FetchArtifact(self, request, context):  # noqa: N802
        async for body in self._sent(request, super().FetchArtifact(request, context)):
            yield body

    async def _taken(self, request, answer):
        self.parts.append((int(request.offset), len(request.content.data)))
        if self.answering is not None:
            await self.answering()
        return answer

    async def _sent(self, request, bodies):
        self.offsets.append(int(request.offset))
        async for body in bodies:
            if self.sending is not None:
                await self.sending()
            yield body


class WatchedSteps(StepService):
    """The real service. It records what comes, and breaks where a test wants it.

    Attributes:
        recorded: The names of the steps that were sent, in order.
        fetches: How often the steps of earlier runs were asked for.
        answering: Called when a step is kept and its answer is about to be sent.
    """

    def __init__(self, engine: Engine, max_payload_bytes: int) -> None:
        super().__init__(engine, max_payload_bytes)
        self.recorded: list[str] = []
        self.fetches = 0
        self.answering: Callable[[], Awaitable[None]] | None = None

    async def RecordStep(self, request, context):  # noqa: N802
        answer = await super().RecordStep(request, context)
        self.recorded.append(request.name)
        if self.answering is not None:
            await self.answering()
        return answer

    async def FetchSteps(self, request, context):  # noqa: N802
        self.fetches += 1
        return await super().FetchSteps(request, context)


class MuteContext:
    """The context of a call, which writes nothing while its service is mute."""

    def __init__(self, context: Any, service: WatchedTasks) -> None:
        self._context = context
        self._service = service

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def write(self, answer: Any) -> None:
        if self._service.mute:
            await asyncio.Event().wait()
        await self._context.write(answer)


class Server:
    """One engine behind a port that is served or not. `service` records what its streams carry."""

    def __init__(self, engine: Engine, max_payload_bytes: int = MAX_PAYLOAD_BYTES) -> None:
        self.engine = engine
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        logs = engine.event_logs(encode_event)
        engine.subscribe(logs)
        engine.namespaces.subscribe(logs.deleted)
        self.watches = TaskWatches(engine, logs)
        self.samples = Samples(engine)
        self.service = WatchedTasks(engine, self.watches, max_payload_bytes)
        self.artifacts = WatchedArtifacts(engine)
        self.steps = WatchedSteps(engine, max_payload_bytes)
        self.hosts = RuntimeHostService(engine, max_payload_bytes)
        self._serving: grpc.aio.Server | None = None

    async def start(self) -> None:
        options = (
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", 8 * 1024 * 1024),
        )
        server = grpc.aio.server(interceptors=(CallInterceptor(),), options=options)
        task_pb2_grpc.add_TaskServiceServicer_to_server(self.service, server)
        batch_pb2_grpc.add_BatchServiceServicer_to_server(BatchService(self.engine, 50, MAX_PAYLOAD_BYTES), server)
        stats_pb2_grpc.add_StatsServiceServicer_to_server(
            StatsService(
                self.engine,
                Snapshots(self.engine, lambda: 60.0),
                self.samples,
                lambda _: WebhookCounts(),
                SchedulerSettings(),
            ),
            server,
        )
        output_pb2_grpc.add_OutputServiceServicer_to_server(OutputService(self.engine), server)
        artifact_pb2_grpc.add_ArtifactServiceServicer_to_server(self.artifacts, server)
        step_pb2_grpc.add_StepServiceServicer_to_server(self.steps, server)
        runtime_host_pb2_grpc.add_RuntimeHostServiceServicer_to_server(self.hosts, server)
        input_pb2_grpc.add_InputServiceServicer_to_server(InputService(self.engine), server)
        target_pb2_grpc.add_TargetServiceServicer_to_server(TargetService(self.engine), server)
        schedule_pb2_grpc.add_ScheduleServiceServicer_to_server(ScheduleService(self.engine, MAX_PAYLOAD_BYTES), server)
        namespace_pb2_grpc.add_NamespaceServiceServicer_to_server(NamespaceService(self.engine), server)
        server.add_insecure_port(self.address)
        await server.start()
        self._serving = server

    async def stop(self) -> None:
        if self._serving is not None:
            await self._serving.stop(None)
            self._serving = None

    async def made(self, namespace: str = "default") -> int:
        """The number of tasks that were accepted so far."""
        return (await self.engine.admin.stats(namespace)).counters.submitted

    # As a host

    async def claim(self, count: int = 1) -> list[Lease]:
        """Assign up to `count` tasks to a host that runs everything."""
        await self.engine.hosts.register("default", "host", None, HostProfile(), show=live)
        return await self.engine.leases.claim("default", "host", count, show=live)

    async def claim_soon(self) -> Lease:
        """Assign one task as soon as there is one."""
        return (await until(self.claim))[0]

    async def run(self) -> Lease:
        """Assign one task and start it."""
        (lease,) = await self.claim()
        await reporting.start(self.engine, "default", "host", lease.task.id, lease.token)
        return lease

    async def complete(self, lease: Lease, result: bytes | None = None) -> None:
        await reporting.complete(self.engine, "default", "host", lease.task.id, lease.token, result)

    async def say(self, lease: Lease, number: int, *texts: str, channel: str = "") -> None:
        """Say chunks, the first of which has this number under its lease."""
        chunks = [output_pb2.NewChunk(channel=channel, text=text) for text in texts]
        said = output_pb2.LeaseOutput(task_id=lease.task.id, fencing_token=lease.token, number=number, chunks=chunks)
        all_chunks = [new_chunks(said)]
        taken = await self.engine.output.append("default", "host", all_chunks, encoder(all_chunks))
        assert await taken == [number + len(texts) - 1]

    async def use(self, lease: Lease, tokens: int) -> None:
        """Report the tokens that this attempt has used so far."""
        await reporting.progress(self.engine, "default", "host", lease.task.id, lease.token, None, tokens)

    async def fail(self, lease: Lease, error: str) -> None:
        await reporting.fail(self.engine, "default", "host", lease.task.id, lease.token, error)


class Wire:
    """A TCP proxy to a server. `cut` aborts all connections, with the data on them."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []
        self.address = ""

    async def open(self, ends: AsyncExitStack) -> None:
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        ends.callback(self.cut)
        ends.callback(server.close)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def lead_to(self, server: Server) -> None:
        """Forward to another server from now on."""
        self._port = server.port
        self.cut()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.transport.abort()
            return
        self._writers += [writer, far_writer]
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.close()


@pytest.fixture
async def open_server() -> AsyncIterator[Callable[..., Awaitable[Server]]]:
    """Starts a server with these limits, perhaps with this store, and with artifacts if there are objects for them.

    Other limits are the documented ones.
    """
    async with AsyncExitStack() as ends:

        async def start(
            store: Store | None = None,
            objects: Objects | None = None,
            max_payload_bytes: int = MAX_PAYLOAD_BYTES,
            **limits: Any,
        ) -> Server:
            engine = await ends.enter_async_context(running_engine(Limits(**limits), store=store, objects=objects))
            server = Server(engine, max_payload_bytes)
            await server.start()
            ends.push_async_callback(server.stop)
            return server

        yield start


@pytest.fixture
async def server(open_server: Callable[..., Awaitable[Server]]) -> Server:
    """A server with room for many tasks."""
    return await open_server(max_queue_size=20_000, max_per_agent=20_000)


@pytest.fixture
async def open_client() -> AsyncIterator[Callable[..., Client]]:
    """Opens clients of an agent and closes them at the end of the test."""
    async with AsyncExitStack() as ends:

        def opened(server: Server | Wire, **options: Any) -> Client:
            client = Client(server.address, **{"agent_id": "ann", **options})
            ends.push_async_callback(client.close)
            return client

        yield opened


@pytest.fixture
async def client(server: Server, open_client: Callable[..., Client]) -> Client:
    """A client of the server."""
    return open_client(server)


@pytest.fixture
async def wire(server: Server) -> AsyncIterator[Wire]:
    """A proxy to the server that can be cut."""
    async with AsyncExitStack() as ends:
        wire = Wire(server.port)
        await wire.open(ends)
        yield wire


@pytest.fixture
async def begin() -> AsyncIterator[Callable[..., Host]]:
    """Runs a host with a handler of the action `work` at a server, until the test is over."""
    running: list[asyncio.Task[None]] = []

    def begin(server: Any, handler: Callable[..., Any], runs_in: Any = None, **options: Any) -> Host:
        host = Host(server.address, "host", machine_figures=False, **options)
        host.action("work", runs_in=runs_in)(handler)
        running.append(asyncio.create_task(host.run()))
        return host

    yield begin
    for each in running:
        each.cancel()
    await asyncio.gather(*running, return_exceptions=True)
