"""The host stream as hosts see it: a server with what hosts and agents need, and streams to it over a real socket."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
from google.protobuf.struct_pb2 import Value

from taskyard.v1 import lease_pb2, lease_pb2_grpc, runtime_host_pb2_grpc, task_pb2, task_pb2_grpc
from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1.task_pb2 import Task
from taskyard_server.conversion.task_encoding import encode_event
from taskyard_server.core.limits import Limits
from taskyard_server.engine.event_log import EventLogs
from taskyard_server.engine.memory.engine import MemoryEngine
from taskyard_server.interceptors.calls import CallInterceptor
from taskyard_server.services.hosts import RuntimeHostService
from taskyard_server.services.leases import LeaseService
from taskyard_server.services.task_watches import TaskWatches
from taskyard_server.services.tasks import TaskService

CONNECT = "/taskyard.v1.RuntimeHostService/Connect"


class HostStream:
    """One stream of one host. What it is told is read one message at a time, and must be what the test expects."""

    def __init__(self, call: grpc.aio.StreamStreamCall, host_id: str) -> None:
        self.call = call
        self.host_id = host_id
        self.welcome: pb.Welcome | None = None
        self._sequences = itertools.count(1)

    # What it says

    async def say(self, **message: Any) -> None:
        await self.call.write(pb.ConnectRequest(**message))

    async def hello(self, instance: str = "i", **fields: Any) -> pb.Welcome:
        await self.say(hello=pb.Hello(**{"host_id": self.host_id, "instance": instance, **fields}))
        self.welcome = await self.hear("welcome")
        return self.welcome

    async def credit(self, count: int) -> None:
        await self.say(credit=pb.Credit(count=count))

    async def beat(self, *held: Any, **fields: Any) -> pb.HeartbeatAck:
        """A heartbeat that lists these leases or assignments; its answer must be the next message."""
        sequence = next(self._sequences)
        await self.say(heartbeat=pb.Heartbeat(sequence=sequence, leases=map(named, held), **fields))
        ack = await self.hear("heartbeat_ack")
        assert ack.sequence == sequence
        return ack

    async def report(self, *reports: pb.Report) -> list[pb.ReportResult]:
        """Reports in one message; its answer must be the next one."""
        await self.say(reports=pb.Reports(reports=reports))
        results = list((await self.hear("report_results")).results)
        assert len(results) == len(reports)
        return results

    async def told(self, of: Any, **event: Any) -> str:
        """One report; the state that the task has by it, or the code of the refusal."""
        (result,) = await self.report(report(of, **event))
        return result.error.code if result.HasField("error") else Task.State.Name(result.state)

    async def leave(self) -> None:
        """Half-close, and see the stream end well."""
        await self.call.done_writing()
        assert await self.call.read() is grpc.aio.EOF
        assert await self.call.code() == grpc.StatusCode.OK

    # What it hears

    async def next(self) -> pb.ConnectResponse:
        answer = await self.call.read()
        assert answer is not grpc.aio.EOF, (await self.call.code(), await self.call.details())
        return answer

    async def hear(self, what: str) -> Any:
        """The next message, which must be of this kind."""
        answer = await self.next()
        assert answer.WhichOneof("message") == what, answer
        return getattr(answer, what)

    async def tasks(self, count: int) -> list[lease_pb2.Assignment]:
        """So many tasks, in as many messages as the server makes of them."""
        assignments: list[lease_pb2.Assignment] = []
        while len(assignments) < count:
            some = (await self.hear("assignments")).assignments
            assert some, "an empty message"
            assignments += some
        assert len(assignments) == count
        return assignments

    async def task(self) -> lease_pb2.Assignment:
        (assignment,) = await self.tasks(1)
        return assignment

    async def cancellation(self) -> pb.Cancellation:
        """One cancellation, alone in its message."""
        (cancellation,) = (await self.hear("cancellations")).cancellations
        return cancellation

    async def is_quiet(self) -> None:
        """Nothing is on its way: what was, would come before the answer to a heartbeat."""
        await self.beat()

    async def end(self) -> None:
        """Read to the end, which must be an error; for the fixture `refused`."""
        while await self.call.read() is not grpc.aio.EOF:
            pass


class Yard:
    """A server under test, as its hosts and agents see it. `engine` is what stands behind it."""

    def __init__(
        self, engine: MemoryEngine, channel: grpc.aio.Channel, clock: Any, port: int, watches: TaskWatches | None = None
    ) -> None:
        self.engine = engine
        self._watches = watches
        self.channel = channel
        self.clock = clock
        self.address = f"127.0.0.1:{port}"
        self.hosts = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel)
        self.leases = lease_pb2_grpc.LeaseServiceStub(channel)
        self.tasks = task_pb2_grpc.TaskServiceStub(channel)

    # As a host

    def stream(self, host_id: str = "host", metadata: Any = None) -> HostStream:
        """A stream on which nothing was said yet."""
        return HostStream(self.hosts.Connect(metadata=metadata), host_id)

    async def connect(self, host_id: str = "host", credit: int = 0, metadata: Any = None, **hello: Any) -> HostStream:
        """A stream that was welcomed."""
        stream = self.stream(host_id, metadata)
        await stream.hello(**hello)
        if credit:
            await stream.credit(credit)
            await stream.is_quiet()
        return stream

    def register(self, host_id: str = "host", **fields: Any) -> grpc.aio.UnaryUnaryCall:
        return self.hosts.RegisterHost(pb.RegisterHostRequest(host_id=host_id, **fields))

    def drain(self, host_id: str = "host") -> grpc.aio.UnaryUnaryCall:
        return self.hosts.DrainHost(pb.DrainHostRequest(host_id=host_id))

    def deregister(self, host_id: str = "host") -> grpc.aio.UnaryUnaryCall:
        return self.hosts.DeregisterHost(pb.DeregisterHostRequest(host_id=host_id))

    async def host(self, host_id: str = "host", metadata: Any = None) -> pb.RuntimeHost | None:
        """The host as the listing shows it; None if it does not."""
        listing = await self.hosts.ListHosts(pb.ListHostsRequest(), metadata=metadata)
        return next((host for host in listing.hosts if host.id == host_id), None)

    async def leased(self) -> list[tuple[str, str, int]]:
        """Task, host and token of all live leases."""
        listing = await self.leases.ListLeases(lease_pb2.ListLeasesRequest())
        return [(lease.task_id, lease.host_id, lease.fencing_token) for lease in listing.leases]

    # As an agent

    async def submit(self, metadata: Any = None, **fields: Any) -> str:
        request = task_pb2.SubmitTaskRequest(**{"agent_id": "ann", "action": "click", **fields})
        return str((await self.tasks.SubmitTask(request, metadata=metadata)).task_id)

    async def submit_many(self, count: int, **fields: Any) -> list[str]:
        """So many tasks in one message."""
        asked = [task_pb2.SubmitTaskRequest(**{"agent_id": "ann", "action": "click", **fields}) for _ in range(count)]
        (answer,) = [
            answer async for answer in self.tasks.SubmitTasks(iter([task_pb2.SubmitTasksRequest(tasks=asked)]))
        ]
        return [outcome.accepted.task_id for outcome in answer.outcomes]

    async def get(self, task_id: str, metadata: Any = None) -> Task:
        return await self.tasks.GetTask(task_pb2.GetTaskRequest(task_id=task_id), metadata=metadata)

    async def state(self, task_id: str, metadata: Any = None) -> str:
        return Task.State.Name((await self.get(task_id, metadata)).state)

    def cancel(self, task_id: str) -> grpc.aio.UnaryUnaryCall:
        return self.tasks.CancelTask(task_pb2.CancelTaskRequest(task_id=task_id))

    # What is left behind

    async def pass_time(self, secs: float) -> None:
        """Let time pass for the engine and the loop, where both go by the clock that stands still."""
        self.clock.now += secs
        await turns()

    def leftovers(self) -> dict[str, int]:
        """What is kept for streams, and for claims that wait; nothing once all are gone."""
        left = {"watchers": 0, "sessions": 0, "claims": 0, "groups": 0, "offers": 0, "stops": 0}
        if self._watches is not None:
            left["watchers"] = len(self._watches._open)
        for yard in self.engine._namespaces:
            left["sessions"] += len(yard.sessions)
            left["claims"] += len(yard.claims)
            left["groups"] += len(list(yard.scheduler._life.offers))
            left["offers"] += sum(len(host.offers) + (host.stream is not None) for host in yard.scheduler.hosts)
            left["stops"] += len(yard.scheduler._life.grants._stops)
        return {what: count for what, count in left.items() if count}


@asynccontextmanager
async def serving(clock: Any = None, max_payload_bytes: int = 262_144, **limits: Any) -> AsyncIterator[Yard]:
    """A server with these limits, where defaults are too small for tests with many tasks."""
    counts = ("max_inflight", "max_per_agent_inflight", "max_queue_size", "max_per_agent")
    room: dict[str, Any] = dict.fromkeys(counts, 100_000)
    async with AsyncExitStack() as ends:
        engine = MemoryEngine(Limits(**{"default_deadline_secs": 100_000.0, **room, **limits}), clock)
        logs = EventLogs(encode_event, engine.now)
        engine.subscribe(logs)
        server = grpc.aio.server(interceptors=(CallInterceptor(),), options=(("grpc.so_reuseport", 0),))
        hosts, leases = RuntimeHostService(engine, max_payload_bytes), LeaseService(engine, max_payload_bytes)
        watches = TaskWatches(engine, logs)
        tasks = TaskService(engine, max_payload_bytes, watches)
        runtime_host_pb2_grpc.add_RuntimeHostServiceServicer_to_server(hosts, server)
        lease_pb2_grpc.add_LeaseServiceServicer_to_server(leases, server)
        task_pb2_grpc.add_TaskServiceServicer_to_server(tasks, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        ends.push_async_callback(server.stop, None)
        ends.push_async_callback(engine.admin.close)
        options = (("grpc.use_local_subchannel_pool", 1),)
        channel = await ends.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}", options))
        yield Yard(engine, channel, clock, port, watches)


def named(held: Any) -> pb.HeldLease:
    """A lease by what its holder knows of it."""
    if isinstance(held, tuple):
        return pb.HeldLease(task_id=held[0], fencing_token=held[1])
    lease = held.lease if isinstance(held, lease_pb2.Assignment) else held
    return pb.HeldLease(task_id=lease.task_id, fencing_token=lease.fencing_token)


def report(of: Any, **event: Any) -> pb.Report:
    """A report on a lease or an assignment: `started=True`, `completed=Value(...)`, `failed="why"`, ..."""
    lease = named(of)
    whole = pb.Report(task_id=lease.task_id, fencing_token=lease.fencing_token)
    for name, value in event.items():
        match name:
            case "started":
                whole.started.SetInParent()
            case "released":
                whole.released.SetInParent()
            case "completed":
                whole.completed.SetInParent()
                if isinstance(value, Value):
                    whole.completed.result.CopyFrom(value)
            case "failed":
                whole.failed.error = value
            case "progress":
                whole.progress.CopyFrom(value)
            case _:
                setattr(whole, name, value)
    return whole


async def turns(count: int = 10) -> None:
    """Let what was begun in this loop go on."""
    for _ in range(count):
        await asyncio.sleep(0)
