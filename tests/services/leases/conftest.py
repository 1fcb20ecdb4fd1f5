"""A server with its lease calls, and a host that may run every task."""

from contextlib import AsyncExitStack

import grpc
import pytest

from taskyard.v1 import lease_pb2 as pb
from taskyard.v1 import (
    lease_pb2_grpc,
    runtime_host_pb2,
    runtime_host_pb2_grpc,
    stats_pb2,
    stats_pb2_grpc,
    task_pb2,
    task_pb2_grpc,
)
from taskyard.v1.task_pb2 import Task
from taskyard_server.conversion.task_encoding import encode_event
from taskyard_server.core.limits import Limits
from taskyard_server.interceptors.calls import CallInterceptor
from taskyard_server.metrics.samples import Samples
from taskyard_server.metrics.snapshots import Snapshots
from taskyard_server.services.hosts import RuntimeHostService
from taskyard_server.services.leases import LeaseService
from taskyard_server.services.stats import StatsService
from taskyard_server.services.task_watches import TaskWatches
from taskyard_server.services.tasks import TaskService
from taskyard_server.settings.config import SchedulerSettings
from taskyard_server.webhooks.webhooks import WebhookCounts
from tests.engines import running_engine, settled


class LeaseApi:
    """A client of a server with task, host, lease and stats services, for the calls of hosts."""

    def __init__(self, engine, clock, channel):
        self.engine = engine
        self.clock = clock
        self.hosts = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel)
        self.leases = lease_pb2_grpc.LeaseServiceStub(channel)
        self.stats_stub = stats_pb2_grpc.StatsServiceStub(channel)
        self.tasks = task_pb2_grpc.TaskServiceStub(channel)

    def register(self, host_id="host"):
        return self.hosts.RegisterHost(runtime_host_pb2.RegisterHostRequest(host_id=host_id))

    def claim(self, host_id="host", metadata=None, **fields):
        return self.leases.ClaimTask(pb.ClaimTaskRequest(host_id=host_id, **fields), metadata=metadata)

    def claim_many(self, count, host_id="host", **fields):
        return self.leases.ClaimTasks(pb.ClaimTasksRequest(host_id=host_id, max_tasks=count, **fields))

    def list_leases(self, host_id=None, **fields):
        return self.leases.ListLeases(pb.ListLeasesRequest(host_id=host_id, **fields))

    def report(self, call, lease, metadata=None, **fields):
        """A report on a claimed lease. `fields` can override the host, task or token."""
        request = getattr(pb, f"{call}Request")
        lease_fields = {"host_id": "host", "task_id": lease.task_id, "fencing_token": lease.fencing_token}
        return getattr(self.leases, call)(request(**{**lease_fields, **fields}), metadata=metadata)

    async def submit(self, **fields):
        request = task_pb2.SubmitTaskRequest(**{"agent_id": "ann", "action": "click", **fields})
        return (await self.tasks.SubmitTask(request)).task_id

    async def get(self, task_id):
        return await self.tasks.GetTask(task_pb2.GetTaskRequest(task_id=task_id))

    async def state(self, task_id):
        return Task.State.Name((await self.get(task_id)).state)

    async def cancel(self, task_id):
        await self.tasks.CancelTask(task_pb2.CancelTaskRequest(task_id=task_id))

    async def late_reports(self):
        return (await self.stats_stub.GetStats(stats_pb2.GetStatsRequest())).metrics.late_reports

    async def advance(self, secs):
        """Move the clock on, and run what comes due."""
        await settled(self.engine)
        self.clock.now += secs
        await settled(self.engine)


@pytest.fixture
async def start_api():
    """Starts a server with the given limits and clock, and registers a host that may run every task."""
    async with AsyncExitStack() as cleanup:

        async def start(clock=None, **limits):
            raised = Limits(**{"default_deadline_secs": 100_000.0, **limits})
            engine = await cleanup.enter_async_context(running_engine(raised, clock))
            server = grpc.aio.server(interceptors=(CallInterceptor(),))
            watches = TaskWatches(engine, engine.event_logs(encode_event))
            task_pb2_grpc.add_TaskServiceServicer_to_server(TaskService(engine, 262_144, watches), server)
            stats = StatsService(
                engine, Snapshots(engine, lambda: 60.0), Samples(engine), lambda _: WebhookCounts(), SchedulerSettings()
            )
            stats_pb2_grpc.add_StatsServiceServicer_to_server(stats, server)
            lease_pb2_grpc.add_LeaseServiceServicer_to_server(LeaseService(engine, 262_144), server)
            runtime_host_pb2_grpc.add_RuntimeHostServiceServicer_to_server(RuntimeHostService(engine, 262_144), server)
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            cleanup.push_async_callback(server.stop, None)
            channel = await cleanup.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
            api = LeaseApi(engine, clock, channel)
            await api.register()
            return api

        yield start


@pytest.fixture
async def api(start_api, clock):
    """A server with the default limits on a clock that stands still."""
    return await start_api(clock)


@pytest.fixture
async def real_time_api(start_api):
    """A server with the default limits in real time."""
    return await start_api()
