"""A server with the calls of hosts, on a clock that stands still."""

from contextlib import AsyncExitStack

import grpc
import pytest

from taskyard.v1 import lease_pb2, lease_pb2_grpc, runtime_host_pb2, runtime_host_pb2_grpc, task_pb2, task_pb2_grpc
from taskyard.v1.task_pb2 import Task
from taskyard_server.conversion.task_encoding import encode_event
from taskyard_server.core.limits import Limits
from taskyard_server.interceptors.calls import CallInterceptor
from taskyard_server.services.hosts import RuntimeHostService
from taskyard_server.services.leases import LeaseService
from taskyard_server.services.task_watches import TaskWatches
from taskyard_server.services.tasks import TaskService
from tests.engines import running_engine, settled


class HostApi:
    """A client of a server with host, lease and task services, for the calls of hosts."""

    def __init__(self, engine, clock, channel):
        self.engine = engine
        self.clock = clock
        self.hosts = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel)
        self.leases = lease_pb2_grpc.LeaseServiceStub(channel)
        self.tasks = task_pb2_grpc.TaskServiceStub(channel)

    async def register(self, host_id="host", metadata=None, **fields):
        request = runtime_host_pb2.RegisterHostRequest(host_id=host_id, **fields)
        return (await self.hosts.RegisterHost(request, metadata=metadata)).host

    def heartbeat_call(self, host_id="host", metadata=None, **fields):
        request = runtime_host_pb2.HeartbeatHostRequest(host_id=host_id, **fields)
        return self.hosts.HeartbeatHost(request, metadata=metadata)

    async def heartbeat(self, host_id="host", **fields):
        return (await self.heartbeat_call(host_id, **fields)).host

    def deregister(self, host_id="host", metadata=None):
        return self.hosts.DeregisterHost(runtime_host_pb2.DeregisterHostRequest(host_id=host_id), metadata=metadata)

    def drain(self, host_id="host", **fields):
        return self.hosts.DrainHost(runtime_host_pb2.DrainHostRequest(host_id=host_id, **fields))

    def list_hosts(self, metadata=None, **fields):
        return self.hosts.ListHosts(runtime_host_pb2.ListHostsRequest(**fields), metadata=metadata)

    async def get_host(self, host_id="host"):
        """The host from the listing, which does not count as a heartbeat."""
        (host,) = [host for host in (await self.list_hosts()).hosts if host.id == host_id]
        return host

    def claim(self, host_id="host", metadata=None, **fields):
        return self.leases.ClaimTask(lease_pb2.ClaimTaskRequest(host_id=host_id, **fields), metadata=metadata)

    async def submit(self, metadata=None, **fields):
        request = task_pb2.SubmitTaskRequest(**{"agent_id": "ann", "action": "click", **fields})
        return (await self.tasks.SubmitTask(request, metadata=metadata)).task_id

    async def get(self, task_id, metadata=None):
        return await self.tasks.GetTask(task_pb2.GetTaskRequest(task_id=task_id), metadata=metadata)

    async def state(self, task_id):
        return Task.State.Name((await self.get(task_id)).state)

    async def advance(self, secs):
        """Move the clock on, and run what comes due."""
        await settled(self.engine)
        self.clock.now += secs
        await settled(self.engine)


@pytest.fixture
async def start_api(clock):
    """Starts a server with the given limits on a clock that stands still."""
    async with AsyncExitStack() as cleanup:

        async def start(**limits):
            raised = Limits(**{"default_deadline_secs": 100_000.0, **limits})
            engine = await cleanup.enter_async_context(running_engine(raised, clock))
            server = grpc.aio.server(interceptors=(CallInterceptor(),))
            watches = TaskWatches(engine, engine.event_logs(encode_event))
            task_pb2_grpc.add_TaskServiceServicer_to_server(TaskService(engine, 262_144, watches), server)
            lease_pb2_grpc.add_LeaseServiceServicer_to_server(LeaseService(engine, 262_144), server)
            runtime_host_pb2_grpc.add_RuntimeHostServiceServicer_to_server(RuntimeHostService(engine, 262_144), server)
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            cleanup.push_async_callback(server.stop, None)
            channel = await cleanup.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
            return HostApi(engine, clock, channel)

        yield start


@pytest.fixture
async def api(start_api):
    """A server with the default limits."""
    return await start_api()
