"""Fixtures of the service tests: a server on a free port, its clients, and clocks that tests control."""

import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
import structlog
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from taskyard.v1 import (
    agent_pb2_grpc,
    batch_pb2,
    batch_pb2_grpc,
    limit_pb2_grpc,
    namespace_pb2_grpc,
    operation_pb2_grpc,
    schedule_pb2_grpc,
    stats_pb2,
    stats_pb2_grpc,
    target_pb2,
    target_pb2_grpc,
    task_pb2,
    task_pb2_grpc,
)
from taskyard_server.conversion.submissions import no_default_retry
from taskyard_server.conversion.task_encoding import encode_event
from taskyard_server.core.figures.demand import Pool
from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.leases import Lease
from taskyard_server.core.limits import Limits
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.event_log import EventLogs
from taskyard_server.engine.recent_events import NO_COMMIT, Bounds
from taskyard_server.engine.virtual_clock import VirtualClock
from taskyard_server.interceptors.calls import CallInterceptor
from taskyard_server.metrics.samples import Samples
from taskyard_server.metrics.snapshots import Snapshots
from taskyard_server.services.agents import AgentService
from taskyard_server.services.batches import BatchService
from taskyard_server.services.limits import LimitService
from taskyard_server.services.namespaces import NamespaceService
from taskyard_server.services.operations import OperationService
from taskyard_server.services.schedules import ScheduleService
from taskyard_server.services.stats import StatsService
from taskyard_server.services.targets import TargetService
from taskyard_server.services.task_watches import TaskWatches
from taskyard_server.services.tasks import TaskService
from taskyard_server.settings.config import SchedulerSettings
from taskyard_server.store.figures import StoreFigures
from taskyard_server.webhooks.webhooks import WebhookCounts
from tests import reporting
from tests.engines import running_engine
from tests.live import live
from tests.services.host_streams import ServerUnderTest, serving
from tests.waiting import until

BY_REST = (("x-taskyard-rest", "1"),)


@dataclass(frozen=True)
class Refused:
    """The error that a call ended with, as its caller sees it."""

    status: grpc.StatusCode
    message: str
    trailers: dict[str, str | bytes]

    @property
    def details(self) -> status_pb2.Status:
        """The `google.rpc.Status` of the error."""
        return status_pb2.Status.FromString(self.trailers["grpc-status-details-bin"])

    @property
    def info(self) -> error_details_pb2.ErrorInfo:
        """The `google.rpc.ErrorInfo` that every error carries as its first detail."""
        info = error_details_pb2.ErrorInfo()
        assert self.details.details[0].Unpack(info)
        return info

    @property
    def code(self) -> str:
        """The error code, as REST spells it."""
        return self.info.reason.lower()

    @property
    def retry_after_secs(self) -> float | None:
        """The delay in `google.rpc.RetryInfo`; None without one."""
        retry = error_details_pb2.RetryInfo()
        if any(detail.Unpack(retry) for detail in self.details.details):
            return retry.retry_delay.ToTimedelta().total_seconds()
        return None

    @property
    def rest_body(self) -> dict[str, Any]:
        """The body that the gateway sends to REST callers."""
        return json.loads(self.trailers["x-error-json"])


async def _refused(call: Awaitable[Any]) -> Refused:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    error = raised.value
    return Refused(error.code(), error.details() or "", dict(tuple(error.trailing_metadata())))


class Api:
    """A client of the server under test, and its `engine`."""

    def __init__(self, engine: Engine, watches: TaskWatches, channel: grpc.aio.Channel) -> None:
        self.engine = engine
        self.watches = watches
        self.channel = channel
        self.tasks = task_pb2_grpc.TaskServiceStub(channel)
        self.batches = batch_pb2_grpc.BatchServiceStub(channel)
        self.operations = operation_pb2_grpc.OperationServiceStub(channel)
        self.stats_stub = stats_pb2_grpc.StatsServiceStub(channel)
        self.target_stub = target_pb2_grpc.TargetServiceStub(channel)
        self.schedules = schedule_pb2_grpc.ScheduleServiceStub(channel)
        self.namespaces = namespace_pb2_grpc.NamespaceServiceStub(channel)

    # Calls of agents

    def submit(self, metadata: Any = None, **fields: Any) -> grpc.aio.UnaryUnaryCall:
        """SubmitTask, with defaults for the required fields."""
        request = task_pb2.SubmitTaskRequest(**{"agent_id": "ann", "action": "click", **fields})
        return self.tasks.SubmitTask(request, metadata=metadata)

    def get(self, task_id: str, metadata: Any = None) -> grpc.aio.UnaryUnaryCall:
        return self.tasks.GetTask(task_pb2.GetTaskRequest(task_id=task_id), metadata=metadata)

    def list_tasks(self, metadata: Any = None, **fields: Any) -> grpc.aio.UnaryUnaryCall:
        return self.tasks.ListTasks(task_pb2.ListTasksRequest(**fields), metadata=metadata)

    def cancel(self, task_id: str, metadata: Any = None, **fields: Any) -> grpc.aio.UnaryUnaryCall:
        return self.tasks.CancelTask(task_pb2.CancelTaskRequest(task_id=task_id, **fields), metadata=metadata)

    def pause(self, task_id: str, metadata: Any = None, **fields: Any) -> grpc.aio.UnaryUnaryCall:
        return self.tasks.PauseTask(task_pb2.PauseTaskRequest(task_id=task_id, **fields), metadata=metadata)

    def resume(self, task_id: str, metadata: Any = None, **fields: Any) -> grpc.aio.UnaryUnaryCall:
        return self.tasks.ResumeTask(task_pb2.ResumeTaskRequest(task_id=task_id, **fields), metadata=metadata)

    def resolve(self, task_id: str, metadata: Any = None, **fields: Any) -> grpc.aio.UnaryUnaryCall:
        return self.tasks.ResolveTask(task_pb2.ResolveTaskRequest(task_id=task_id, **fields), metadata=metadata)

    def list_targets(self, metadata: Any = None, **fields: Any) -> grpc.aio.UnaryUnaryCall:
        return self.target_stub.ListTargets(target_pb2.ListTargetsRequest(**fields), metadata=metadata)

    def resume_target_task(self, target: str, task_id: str, metadata: Any = None) -> grpc.aio.UnaryUnaryCall:
        request = target_pb2.ResumeTargetTaskRequest(target=target, task_id=task_id)
        return self.target_stub.ResumeTargetTask(request, metadata=metadata)

    def wait(self, task_id: str, **fields: Any) -> grpc.aio.UnaryUnaryCall:
        return self.tasks.WaitTask(task_pb2.WaitTaskRequest(task_id=task_id, **fields))

    def watch(self, metadata: Any = None, **fields: Any) -> grpc.aio.UnaryStreamCall:
        return self.tasks.WatchTasks(task_pb2.WatchTasksRequest(**fields), metadata=metadata)

    def submit_batch(self, *tasks: batch_pb2.BatchTask, metadata: Any = None, **fields: Any) -> grpc.aio.UnaryUnaryCall:
        """SubmitBatch, with a default agent."""
        request = batch_pb2.SubmitBatchRequest(**{"agent_id": "ann", "tasks": tasks, **fields})
        return self.batches.SubmitBatch(request, metadata=metadata)

    def stats(self, metadata: Any = None) -> grpc.aio.UnaryUnaryCall:
        return self.stats_stub.GetStats(stats_pb2.GetStatsRequest(), metadata=metadata)

    # Commands of a host

    async def claim(self, count: int = 1) -> list[Lease]:
        """Claim up to `count` tasks for a host that may run every task."""
        await self.engine.hosts.register("default", "host", None, HostProfile(), show=live)
        return await self.engine.leases.claim("default", "host", count, show=live)

    async def run_one(self) -> Lease:
        """Claim and start the only claimable task."""
        (lease,) = await self.claim()
        await self.start(lease)
        return lease

    async def report_tokens(self, lease: Lease, tokens: int) -> None:
        """Report the tokens that the attempt has used."""
        await reporting.progress(self.engine, "default", "host", lease.task.id, lease.token, None, tokens)

    async def start(self, lease: Lease) -> None:
        await reporting.start(self.engine, "default", "host", lease.task.id, lease.token)

    async def complete(self, lease: Lease, result: Message | None = None) -> None:
        encoded = None if result is None else result.SerializeToString()
        await reporting.complete(self.engine, "default", "host", lease.task.id, lease.token, encoded)

    async def fail(self, lease: Lease, error: str = "broken") -> None:
        await reporting.fail(self.engine, "default", "host", lease.task.id, lease.token, error)


class Clock(VirtualClock):
    """A clock that stands still until a test moves it. It starts at the current time, which real deadlines need.

    It starts at a whole second: what is due comes with the next tick of the timers, and where that begins must not hang
    on when the test runs. The engine alone goes by the clock. What the event loop, gRPC and the limits of a test wait
    for goes by the machine's.
    """

    def __init__(self) -> None:
        super().__init__(float(int(time.time())))

    @property
    def now(self) -> float:
        """The time. Where a test sets it, what is due then happens in the next turn of the event loop."""
        return self()

    @now.setter
    def now(self, at: float) -> None:
        self._now = at
        self.ring()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def start_api() -> AsyncIterator[Callable[..., Awaitable[Api]]]:
    """Starts a server for an engine, or for a new one with the given limits and clock."""
    async with AsyncExitStack() as cleanup:

        async def start(
            engine: Any = None,
            clock: Clock | None = None,
            max_payload_bytes: int = 262_144,
            max_batch_size: int = 50,
            bookmark_secs: float = 15,
            bounds: Bounds | None = None,
            default_retry: Callable[[str], RetryPolicy | None] = no_default_retry,
            store: StoreFigures | None = None,
            **limits: Any,
        ) -> Api:
            if engine is None:
                engine = await cleanup.enter_async_context(running_engine(Limits(**limits), clock))
            if isinstance(engine, Engine):
                logs = engine.event_logs(encode_event, bounds, clock)
                engine.subscribe(logs)
                engine.namespaces.subscribe(logs.deleted)
            else:
                logs = EventLogs(encode_event, clock or time.time, lambda _: NO_COMMIT, lambda *_: True, bounds)
            watches = TaskWatches(engine, logs, bookmark_secs)
            server = grpc.aio.server(interceptors=(CallInterceptor(),))
            task_pb2_grpc.add_TaskServiceServicer_to_server(
                TaskService(engine, max_payload_bytes, watches, default_retry), server
            )
            batches = BatchService(engine, max_batch_size, max_payload_bytes, default_retry)
            batch_pb2_grpc.add_BatchServiceServicer_to_server(batches, server)
            target_pb2_grpc.add_TargetServiceServicer_to_server(TargetService(engine), server)
            limit_pb2_grpc.add_LimitServiceServicer_to_server(LimitService(engine), server)
            agent_pb2_grpc.add_AgentServiceServicer_to_server(AgentService(engine), server)
            operations = OperationService(engine, max_payload_bytes)
            operation_pb2_grpc.add_OperationServiceServicer_to_server(operations, server)
            schedules = ScheduleService(engine, max_payload_bytes, default_retry)
            schedule_pb2_grpc.add_ScheduleServiceServicer_to_server(schedules, server)
            if isinstance(engine, Engine):
                namespace_pb2_grpc.add_NamespaceServiceServicer_to_server(NamespaceService(engine), server)
            snapshots = Snapshots(engine, lambda: 60.0)
            pools: list[Pool] = []
            webhook_counts: defaultdict[str, WebhookCounts] = defaultdict(WebhookCounts)
            samples = Samples(engine)
            if isinstance(engine, Engine):
                engine.namespaces.subscribe(samples.deleted)
            stats = StatsService(
                engine, snapshots, samples, webhook_counts.__getitem__, SchedulerSettings(), store, lambda: pools
            )
            stats_pb2_grpc.add_StatsServiceServicer_to_server(stats, server)
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            cleanup.push_async_callback(server.stop, None)
            channel = await cleanup.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
            api = Api(engine, watches, channel)
            api.snapshots = snapshots
            api.samples = samples
            api.pools = pools
            api.webhook_counts = webhook_counts
            return api

        yield start


@pytest.fixture
async def api(start_api: Callable[..., Awaitable[Api]]) -> Api:
    """A server with the default limits."""
    return await start_api()


@pytest.fixture
def refused() -> Callable[[Awaitable[Any]], Awaitable[Refused]]:
    """Awaits a call that must fail, and returns its error."""
    return _refused


@pytest.fixture
def eventually() -> Callable[[Callable[[], Awaitable[Any]], Callable[[Any], bool]], Awaitable[Any]]:
    """Repeats a call until its result satisfies a condition."""

    async def poll(call: Callable[[], Awaitable[Any]], is_done: Callable[[Any], bool]) -> Any:
        return await until(call, is_done)

    return poll


@pytest.fixture
def headers() -> Callable[[grpc.aio.Call], Awaitable[dict[str, Any]]]:
    """Reads the initial metadata of a call."""

    async def read(call: grpc.aio.Call) -> dict[str, Any]:
        return dict(tuple(await call.initial_metadata()))

    return read


@pytest.fixture
def log_lines() -> Iterator[list[Any]]:
    """The lines logged during the test, as dicts."""
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture
def by_rest() -> tuple[tuple[str, str], ...]:
    """The metadata that the gateway adds to calls of REST callers."""
    return BY_REST


@pytest.fixture
async def start_server() -> AsyncIterator[Callable[..., Awaitable[ServerUnderTest]]]:
    """Starts a server for host streams with the given limits and clock."""
    async with AsyncExitStack() as cleanup:

        async def start(clock: Clock | None = None, **settings: Any) -> ServerUnderTest:
            return await cleanup.enter_async_context(serving(clock, **settings))

        yield start


@pytest.fixture
async def server(start_server: Callable[..., Awaitable[ServerUnderTest]], clock: Clock) -> ServerUnderTest:
    """A server for host streams on a clock that stands still."""
    return await start_server(clock)
