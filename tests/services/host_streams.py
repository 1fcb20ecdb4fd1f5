"""A server under test for hosts and agents, and host streams to it over a real socket."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
from google.protobuf.struct_pb2 import Value

from taskyard.v1 import (
    artifact_pb2_grpc,
    child_pb2_grpc,
    event_pb2_grpc,
    input_pb2_grpc,
    lease_pb2,
    lease_pb2_grpc,
    output_pb2_grpc,
    park_pb2_grpc,
    runtime_host_pb2_grpc,
    step_pb2_grpc,
    task_pb2,
    task_pb2_grpc,
)
from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1.task_pb2 import Task
from taskyard_server.conversion.task_encoding import encode_event
from taskyard_server.core.limits import Limits
from taskyard_server.engine.engine import Engine
from taskyard_server.interceptors.admission import CallAdmission
from taskyard_server.interceptors.calls import CallInterceptor, CallTracer
from taskyard_server.services.artifacts import ArtifactService
from taskyard_server.services.children import ChildService
from taskyard_server.services.events import EventService
from taskyard_server.services.hosts import RuntimeHostService
from taskyard_server.services.inputs import InputService
from taskyard_server.services.leases import LeaseService
from taskyard_server.services.output import OutputService
from taskyard_server.services.parks import ParkService
from taskyard_server.services.steps import StepService
from taskyard_server.services.task_watches import TaskWatches
from taskyard_server.services.tasks import TaskService
from taskyard_server.store.objects import Objects
from taskyard_server.store.port import Store
from tests.engines import running_engine, settled

CONNECT = "/taskyard.v1.RuntimeHostService/Connect"


class HostStream:
    """The client side of one host stream. Each message that it reads must be the one that the test expects."""

    def __init__(self, call: grpc.aio.StreamStreamCall, host_id: str) -> None:
        self.call = call
        self.host_id = host_id
        self.welcome: pb.Welcome | None = None
        self._sequences = itertools.count(1)

    # Sending

    async def send(self, **message: Any) -> None:
        await self.call.write(pb.ConnectRequest(**message))

    async def hello(self, instance: str = "i", **fields: Any) -> pb.Welcome:
        await self.send(hello=pb.Hello(**{"host_id": self.host_id, "instance": instance, **fields}))
        self.welcome = await self.receive("welcome")
        return self.welcome

    async def credit(self, count: int) -> None:
        await self.send(credit=pb.Credit(count=count))

    async def heartbeat(self, *held: Any, **fields: Any) -> pb.HeartbeatAck:
        """Send a heartbeat that lists leases. Its acknowledgement must be the next message."""
        sequence = next(self._sequences)
        await self.send(heartbeat=pb.Heartbeat(sequence=sequence, leases=map(held_lease, held), **fields))
        ack = await self.receive("heartbeat_ack")
        assert ack.sequence == sequence
        return ack

    async def report(self, *reports: pb.Report) -> list[pb.ReportResult]:
        """Send reports in one message. Their results must be the next message."""
        await self.send(reports=pb.Reports(reports=reports))
        results = list((await self.receive("report_results")).results)
        assert len(results) == len(reports)
        return results

    async def report_one(self, assignment: Any, **event: Any) -> str:
        """Send one report. Returns the state of the task after it, or the code of the refusal."""
        (result,) = await self.report(report(assignment, **event))
        return result.error.code if result.HasField("error") else Task.State.Name(result.state)

    async def leave(self) -> None:
        """Half-close the stream, which must end with OK."""
        await self.call.done_writing()
        assert await self.call.read() is grpc.aio.EOF
        assert await self.call.code() == grpc.StatusCode.OK

    # Receiving

    async def read_message(self) -> pb.ConnectResponse:
        message = await self.call.read()
        assert message is not grpc.aio.EOF, (await self.call.code(), await self.call.details())
        return message

    async def receive(self, kind: str) -> Any:
        """The next message, which must be of this kind."""
        message = await self.read_message()
        assert message.WhichOneof("message") == kind, message
        return getattr(message, kind)

    async def tasks(self, count: int) -> list[lease_pb2.Assignment]:
        """The next `count` assignments, in any number of messages."""
        assignments: list[lease_pb2.Assignment] = []
        while len(assignments) < count:
            received = (await self.receive("assignments")).assignments
            assert received, "an empty message"
            assignments += received
        assert len(assignments) == count
        return assignments

    async def task(self) -> lease_pb2.Assignment:
        (assignment,) = await self.tasks(1)
        return assignment

    async def cancellation(self) -> pb.Cancellation:
        """The next message, which must hold one cancellation."""
        (cancellation,) = (await self.receive("cancellations")).cancellations
        return cancellation

    async def assert_quiet(self) -> None:
        """Check that no message is pending: it would arrive before the acknowledgement of a heartbeat."""
        await self.heartbeat()

    async def read_to_end(self) -> None:
        """Read until the stream ends. An error is raised, for the fixture `refused`."""
        while await self.call.read() is not grpc.aio.EOF:
            pass


class ServerUnderTest:
    """The server under test, with its `engine` and the calls of hosts and agents."""

    def __init__(
        self, engine: Engine, channel: grpc.aio.Channel, clock: Any, port: int, watches: TaskWatches | None = None
    ) -> None:
        self.engine = engine
        self._watches = watches
        self.channel = channel
        self.clock = clock
        self._streams: list[HostStream] = []
        """Each that was opened: grpc cancels a call that nobody holds."""
        self.address = f"127.0.0.1:{port}"
        self.hosts = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel)
        self.leases = lease_pb2_grpc.LeaseServiceStub(channel)
        self.tasks = task_pb2_grpc.TaskServiceStub(channel)
        self.output = output_pb2_grpc.OutputServiceStub(channel)
        self.artifacts = artifact_pb2_grpc.ArtifactServiceStub(channel)
        self.inputs = input_pb2_grpc.InputServiceStub(channel)
        self.parks = park_pb2_grpc.ParkServiceStub(channel)
        self.events = event_pb2_grpc.EventServiceStub(channel)
        self.steps = step_pb2_grpc.StepServiceStub(channel)
        self.children = child_pb2_grpc.ChildServiceStub(channel)

    # Calls of hosts

    def stream(self, host_id: str = "host", metadata: Any = None) -> HostStream:
        """A new stream without a hello. It stays open until the test closes it, or the server under test is over."""
        stream = HostStream(self.hosts.Connect(metadata=metadata), host_id)
        self._streams.append(stream)
        return stream

    async def connect(self, host_id: str = "host", credit: int = 0, metadata: Any = None, **hello: Any) -> HostStream:
        """A stream after its welcome, with credit."""
        stream = self.stream(host_id, metadata)
        await stream.hello(**hello)
        if credit:
            await stream.credit(credit)
            await stream.assert_quiet()
        return stream

    def register(self, host_id: str = "host", **fields: Any) -> grpc.aio.UnaryUnaryCall:
        return self.hosts.RegisterHost(pb.RegisterHostRequest(host_id=host_id, **fields))

    def drain(self, host_id: str = "host") -> grpc.aio.UnaryUnaryCall:
        return self.hosts.DrainHost(pb.DrainHostRequest(host_id=host_id))

    def deregister(self, host_id: str = "host") -> grpc.aio.UnaryUnaryCall:
        return self.hosts.DeregisterHost(pb.DeregisterHostRequest(host_id=host_id))

    async def host(self, host_id: str = "host", metadata: Any = None) -> pb.RuntimeHost | None:
        """The host in the listing of hosts, or None."""
        listing = await self.hosts.ListHosts(pb.ListHostsRequest(), metadata=metadata)
        return next((host for host in listing.hosts if host.id == host_id), None)

    async def live_leases(self) -> list[tuple[str, str, int]]:
        """The task, host and token of each live lease."""
        listing = await self.leases.ListLeases(lease_pb2.ListLeasesRequest())
        return [(lease.task_id, lease.host_id, lease.fencing_token) for lease in listing.leases]

    # Calls of agents

    async def submit(self, metadata: Any = None, **fields: Any) -> str:
        request = task_pb2.SubmitTaskRequest(**{"agent_id": "ann", "action": "click", **fields})
        return str((await self.tasks.SubmitTask(request, metadata=metadata)).task_id)

    async def submit_many(self, count: int, **fields: Any) -> list[str]:
        """Submit `count` tasks in one message. Returns their ids."""
        tasks = [task_pb2.SubmitTaskRequest(**{"agent_id": "ann", "action": "click", **fields}) for _ in range(count)]
        call = self.tasks.SubmitTasks(iter([task_pb2.SubmitTasksRequest(tasks=tasks)]))
        (response,) = [response async for response in call]
        return [outcome.accepted.task_id for outcome in response.outcomes]

    async def get(self, task_id: str, metadata: Any = None) -> Task:
        return await self.tasks.GetTask(task_pb2.GetTaskRequest(task_id=task_id), metadata=metadata)

    async def state(self, task_id: str, metadata: Any = None) -> str:
        return Task.State.Name((await self.get(task_id, metadata)).state)

    def cancel(self, task_id: str) -> grpc.aio.UnaryUnaryCall:
        return self.tasks.CancelTask(task_pb2.CancelTaskRequest(task_id=task_id))

    # State

    async def advance(self, secs: float) -> None:
        """Move the clock of the engine on, and run what comes due."""
        await settled(self.engine)
        self.clock.now += secs
        await settled(self.engine)

    def leftovers(self) -> dict[str, int]:
        """Counts of the objects kept for streams and waiting claims; empty once all have ended."""
        counts = {"watchers": 0, "sessions": 0, "claims": 0, "groups": 0, "offers": 0, "stops": 0}
        if self._watches is not None:
            counts["watchers"] = len(self._watches._open)
        for state in self.engine._namespaces:
            counts["sessions"] += len(state.sessions)
            counts["claims"] += len(state.claims)
            counts["groups"] += len(list(state.scheduler._life.offers))
            counts["offers"] += sum(len(host.offers) + (host.stream is not None) for host in state.scheduler.hosts)
            counts["stops"] += len(state.scheduler._life.grants._stops)
        return {name: count for name, count in counts.items() if count}


@asynccontextmanager
async def serving(
    clock: Any = None,
    max_payload_bytes: int = 262_144,
    store: Store | None = None,
    admission: CallAdmission | None = None,
    tracer: CallTracer | None = None,
    **limits: Any,
) -> AsyncIterator[ServerUnderTest]:
    """A server with the given limits. The defaults are raised for tests with many tasks."""
    raised = ("max_inflight", "max_per_agent_inflight", "max_queue_size", "max_per_agent")
    defaults: dict[str, Any] = dict.fromkeys(raised, 100_000)
    async with AsyncExitStack() as cleanup:
        raised = Limits(**{"default_deadline_secs": 100_000.0, **defaults, **limits})
        engine = await cleanup.enter_async_context(
            running_engine(raised, clock, store=store, objects=Objects("memory:///"))
        )
        logs = engine.event_logs(encode_event)
        engine.subscribe(logs)
        server = grpc.aio.server(
            interceptors=(CallInterceptor(admission, tracer=tracer),), options=(("grpc.so_reuseport", 0),)
        )
        hosts, leases = RuntimeHostService(engine, max_payload_bytes), LeaseService(engine, max_payload_bytes)
        watches = TaskWatches(engine, logs)
        tasks = TaskService(engine, max_payload_bytes, watches)
        runtime_host_pb2_grpc.add_RuntimeHostServiceServicer_to_server(hosts, server)
        lease_pb2_grpc.add_LeaseServiceServicer_to_server(leases, server)
        task_pb2_grpc.add_TaskServiceServicer_to_server(tasks, server)
        output_pb2_grpc.add_OutputServiceServicer_to_server(OutputService(engine), server)
        artifact_pb2_grpc.add_ArtifactServiceServicer_to_server(ArtifactService(engine), server)
        input_pb2_grpc.add_InputServiceServicer_to_server(InputService(engine), server)
        park_pb2_grpc.add_ParkServiceServicer_to_server(ParkService(engine), server)
        event_pb2_grpc.add_EventServiceServicer_to_server(EventService(engine), server)
        step_pb2_grpc.add_StepServiceServicer_to_server(StepService(engine, max_payload_bytes), server)
        child_pb2_grpc.add_ChildServiceServicer_to_server(ChildService(engine, max_payload_bytes), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        cleanup.push_async_callback(server.stop, None)
        cleanup.push_async_callback(engine.admin.close)
        options = (("grpc.use_local_subchannel_pool", 1),)
        channel = await cleanup.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}", options))
        yield ServerUnderTest(engine, channel, clock, port, watches)


def held_lease(lease_like: Any) -> pb.HeldLease:
    """The task and token of a lease, an assignment or a tuple of both."""
    if isinstance(lease_like, tuple):
        return pb.HeldLease(task_id=lease_like[0], fencing_token=lease_like[1])
    lease = lease_like.lease if isinstance(lease_like, lease_pb2.Assignment) else lease_like
    return pb.HeldLease(task_id=lease.task_id, fencing_token=lease.fencing_token)


def report(assignment: Any, **event: Any) -> pb.Report:
    """A report on a lease or an assignment: `started=True`, `completed=Value(...)`, `failed="error"`, ..."""
    lease = held_lease(assignment)
    message = pb.Report(task_id=lease.task_id, fencing_token=lease.fencing_token)
    for name, value in event.items():
        match name:
            case "started":
                message.started.SetInParent()
            case "released":
                message.released.SetInParent()
            case "completed":
                message.completed.SetInParent()
                if isinstance(value, pb.TaskCompleted):
                    message.completed.CopyFrom(value)
                elif isinstance(value, Value):
                    message.completed.result.CopyFrom(value)
            case "failed" if isinstance(value, pb.TaskFailed):
                message.failed.CopyFrom(value)
            case "failed":
                message.failed.error = value
            case "progress" | "parked":
                getattr(message, name).CopyFrom(value)
            case _:
                setattr(message, name, value)
    return message


async def run_loop(count: int = 10) -> None:
    """Run the event loop for some turns."""
    for _ in range(count):
        await asyncio.sleep(0)
