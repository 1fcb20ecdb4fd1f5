"""The ceilings of streams through a server: tasks to hosts, and events to watchers.

    python bench/bare_streams.py --grpc HOST:PORT --no-gateway [--watched]

Submitted tasks go to the hosts of their action, oldest first, as their credit allows, and with `--watched` to the
watchers as events of submission. What tasks say goes to those who follow them (bare_output.py). The server holds a list
and nothing else: no interceptor, state, time limit, fairness or log. Each message has the fields and the size of
Taskyard's and is built in the cheapest way. A message of a host is answered in the call that reads it, and as the host
asks for: with a result for each report, or with a count of the accepted ones, which the message of its next tasks takes
along.
"""

import argparse
import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Mapping
from typing import Any

import grpc
import uvloop
from bare import accepted, now, numbers, outcomes, task_id
from bare_output import WINDOW_BYTES, Followers
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import lease_pb2, output_pb2, task_pb2
from taskyard.v1 import runtime_host_pb2 as host_pb2

ASSIGNMENTS_A_MESSAGE = 50
"""The number that Taskyard dispatches in a message."""
LEASE_SECS = 60
CURSOR = "MzQzYjEzZjUwNTFiZTkyYi4xMC5k%08d"
BOOKMARK = task_pb2.WatchTasksResponse(bookmark=True, cursor=CURSOR % 0).SerializeToString()


class Host:
    """The stream of a host: its credit, and one write at a time."""

    def __init__(self, context: Any) -> None:
        self.host_id = ""
        self.credit = 0
        self.counts = False
        """True if accepted reports are counted."""
        self.accepted = 0
        """Accepted reports that are not answered yet, where they are counted."""
        self._context = context
        self._writing = asyncio.Lock()

    async def send(self, message: host_pb2.ConnectResponse) -> None:
        async with self._writing:
            await self._context.write(message)


class TaskQueue:
    """The tasks that no host has, and the hosts that have credit left."""

    def __init__(self) -> None:
        self.tasks: deque[task_pb2.SubmitTaskRequest] = deque()
        self.idle: deque[Host] = deque()
        self._woken: set[asyncio.Task[None]] = set()

    def add(self, tasks: Any) -> None:
        """Queue these tasks, and dispatch them to hosts with credit."""
        self.tasks.extend(tasks)
        expected = len(self.tasks)
        while self.idle and expected > 0:
            host = self.idle.popleft()
            expected -= host.credit
            woken = asyncio.create_task(self.dispatch(host))
            self._woken.add(woken)
            woken.add_done_callback(self._ended)

    def leave(self, host: Host) -> None:
        """Dispatch nothing more to a host that has left."""
        host.credit = 0
        if host in self.idle:
            self.idle.remove(host)

    def _ended(self, woken: asyncio.Task[None]) -> None:
        self._woken.discard(woken)
        # A host may leave during a write, when the load generator has finished.
        if not woken.cancelled():
            woken.exception()

    async def dispatch(self, host: Host) -> None:
        """Assign as many tasks to a host as its credit allows. With credit left, it waits for more."""
        while count := min(host.credit, len(self.tasks), ASSIGNMENTS_A_MESSAGE):
            host.credit -= count
            message = assignments(host.host_id, [self.tasks.popleft() for _ in range(count)])
            if host.accepted:
                message.accepted_reports, host.accepted = host.accepted, 0
            await host.send(message)
        if host.credit and host not in self.idle:
            self.idle.append(host)


class Watchers:
    """The streams that get events: by agent, and under the empty name those that watch all agents."""

    def __init__(self) -> None:
        self._of: defaultdict[str, list[asyncio.Queue[bytes]]] = defaultdict(list)
        self._last = 0

    async def watch(self, request: task_pb2.WatchTasksRequest, _: Any) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        others = self._of[request.agent_id]
        others.append(queue)
        try:
            yield BOOKMARK
            while True:
                message = await queue.get()
                # Messages that are queued together are sent together, as Taskyard does: encoded messages may be joined.
                while not queue.empty():
                    message += queue.get_nowait()
                yield message
        finally:
            others.remove(queue)

    def publish(self, request: task_pb2.SubmitTasksRequest) -> None:
        """Send the events of all tasks to the watchers of all agents, and those of each agent to its watchers."""
        self._publish("", request.tasks)
        for task in request.tasks:
            self._publish(task.agent_id, (task,))

    def _publish(self, agent: str, tasks: Any) -> None:
        queues = self._of.get(agent)
        if queues:
            self._last += 1
            message = events(tasks, self._last)
            for queue in queues:
                queue.put_nowait(message)


class BareHosts:
    """RuntimeHostService.Connect."""

    def __init__(self, queues: Mapping[str, TaskQueue], followers: Followers) -> None:
        self._queues = queues
        self._followers = followers

    async def connect(self, requests: AsyncIterator[host_pb2.ConnectRequest], context: Any) -> None:
        host = Host(context)
        hello = (await anext(requests)).hello
        host.host_id, host.counts = hello.host_id, hello.counts_accepted
        welcome = host_pb2.Welcome(
            session="ses_0",
            heartbeat_interval_ms=20_000,
            lease_secs=LEASE_SECS,
            counts_accepted=host.counts,
            output_bytes=WINDOW_BYTES,
        )
        await host.send(host_pb2.ConnectResponse(welcome=welcome))
        queue = self._queues[hello.actions[0]]
        try:
            await self._serve(host, queue, requests)
        finally:
            queue.leave(host)

    async def _serve(self, host: Host, queue: TaskQueue, requests: AsyncIterator[host_pb2.ConnectRequest]) -> None:
        async for request in requests:
            kind = request.WhichOneof("message")
            if kind == "reports":
                await self._take(host, queue, request.reports)
            elif kind == "output":
                await host.send(self._followers.take(request.output))
            elif kind == "credit":
                host.credit += request.credit.count
                await queue.dispatch(host)
            else:
                ack = host_pb2.HeartbeatAck(sequence=request.heartbeat.sequence)
                await host.send(host_pb2.ConnectResponse(heartbeat_ack=ack))

    async def _take(self, host: Host, queue: TaskQueue, reports: host_pb2.Reports) -> None:
        if not host.counts:
            await host.send(results(len(reports.reports)))
            return
        host.accepted += len(reports.reports)
        host.credit += reports.credit
        await queue.dispatch(host)
        if host.accepted:
            # No tasks went out that could have taken the count along.
            count, host.accepted = host.accepted, 0
            await host.send(host_pb2.ConnectResponse(accepted_reports=count))


class BareTasks:
    """The calls of TaskService that submit tasks, which go to the hosts, or to the watchers if there are any."""

    def __init__(self, queues: Mapping[str, TaskQueue], watchers: Watchers | None) -> None:
        self._queues = queues
        self._watchers = watchers

    async def submit(self, _request: task_pb2.SubmitTaskRequest, _context: Any) -> task_pb2.SubmitTaskResponse:
        return accepted()

    async def submit_stream(
        self, requests: AsyncIterator[task_pb2.SubmitTasksRequest], _context: Any
    ) -> AsyncIterator[task_pb2.SubmitTasksResponse]:
        async for request in requests:
            if self._watchers is None:
                self._queues[request.tasks[0].action].add(request.tasks)
            else:
                self._watchers.publish(request)
            yield outcomes(len(request.tasks))


def handlers(watched: bool) -> tuple[grpc.GenericRpcHandler, ...]:
    """The handlers of all calls. Watches send encoded messages, as Taskyard does."""
    queues, watchers, followers = defaultdict[str, TaskQueue](TaskQueue), Watchers(), Followers()
    tasks = BareTasks(queues, watchers if watched else None)
    task_calls: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "SubmitTask": grpc.unary_unary_rpc_method_handler(
            tasks.submit, task_pb2.SubmitTaskRequest.FromString, task_pb2.SubmitTaskResponse.SerializeToString
        ),
        "SubmitTasks": grpc.stream_stream_rpc_method_handler(
            tasks.submit_stream, task_pb2.SubmitTasksRequest.FromString, task_pb2.SubmitTasksResponse.SerializeToString
        ),
        "WatchTasks": grpc.unary_stream_rpc_method_handler(watchers.watch, task_pb2.WatchTasksRequest.FromString),
    }
    host_calls: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Connect": grpc.stream_stream_rpc_method_handler(
            BareHosts(queues, followers).connect,
            host_pb2.ConnectRequest.FromString,
            host_pb2.ConnectResponse.SerializeToString,
        )
    }
    output_calls: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "ReadOutput": grpc.unary_stream_rpc_method_handler(followers.read, output_pb2.ReadOutputRequest.FromString)
    }
    return (
        grpc.method_handlers_generic_handler("taskyard.v1.TaskService", task_calls),
        grpc.method_handlers_generic_handler("taskyard.v1.RuntimeHostService", host_calls),
        grpc.method_handlers_generic_handler("taskyard.v1.OutputService", output_calls),
    )


def assignments(host_id: str, tasks: list[task_pb2.SubmitTaskRequest]) -> host_pb2.ConnectResponse:
    message = host_pb2.ConnectResponse()
    at = now()
    end = Timestamp(seconds=at.seconds + LEASE_SECS, nanos=at.nanos)
    # The common fields are set once and copied.
    common = lease_pb2.Assignment(
        lease=lease_pb2.Lease(
            host_id=host_id, claimed_at=at, expires_at=end, fencing_token=1, lease_secs=LEASE_SECS
        ),
        task=task_pb2.Task(
            priority=0, state=task_pb2.Task.assigned, deadline=end, created_at=at, host_id=host_id
        ),
    )  # fmt: skip
    add = message.assignments.assignments.add
    for submitted in tasks:
        assignment = add()
        assignment.CopyFrom(common)
        task = assignment.task
        number = next(numbers)
        assignment.lease.task_id = task.task_id = task_id(number)
        task.position = number
        task.agent_id, task.action = submitted.agent_id, submitted.action
        task.params.CopyFrom(submitted.params)
        task.labels.MergeFrom(submitted.labels)
    return message


def results(count: int) -> host_pb2.ConnectResponse:
    message = host_pb2.ConnectResponse()
    add = message.report_results.results.add
    for _ in range(count):
        add().state = task_pb2.Task.done
    return message


def events(tasks: Any, cursor: int) -> bytes:
    """An encoded message of submission events for some tasks, like Taskyard's without their params."""
    message = task_pb2.WatchTasksResponse(cursor=CURSOR % cursor)
    at = now()
    end = Timestamp(seconds=at.seconds + LEASE_SECS, nanos=at.nanos)
    common = task_pb2.TaskEvent(
        kind=task_pb2.TaskEvent.submitted,
        occurred_at=at,
        task=task_pb2.Task(priority=0, state=task_pb2.Task.queued, deadline=end, created_at=at),
    )
    add = message.events.add
    for submitted in tasks:
        event = add()
        event.CopyFrom(common)
        task = event.task
        number = next(numbers)
        task.task_id, task.position = task_id(number), number
        task.agent_id, task.action = submitted.agent_id, submitted.action
        task.labels.MergeFrom(submitted.labels)
    return message.SerializeToString()


async def serve(address: str, watched: bool) -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(handlers(watched))
    server.add_insecure_port(address)
    await server.start()
    await server.wait_for_termination()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grpc", required=True, metavar="HOST:PORT")
    parser.add_argument("--no-gateway", action="store_true", required=True)
    parser.add_argument("--watched", action="store_true", help="tell the watchers, and no host, what is submitted")
    given = parser.parse_args()
    uvloop.run(serve(given.grpc, given.watched))


if __name__ == "__main__":
    main()
