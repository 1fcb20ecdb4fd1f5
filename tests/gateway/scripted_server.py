"""A gRPC server whose answers are chosen by the task id, the agent or the filter of the request."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from taskyard.v1 import (
    lease_pb2,
    lease_pb2_grpc,
    stats_pb2,
    stats_pb2_grpc,
    task_pb2,
    task_pb2_grpc,
)

Context = grpc.aio.ServicerContext[Any, Any]


async def refuse(
    context: Context, status: grpc.StatusCode, code: str, text: str, http: str | None = None, **more: object
) -> None:
    """End a call as the server's error interceptor does."""
    info = any_pb2.Any()
    info.Pack(error_details_pb2.ErrorInfo(reason=code, domain="taskyard"))
    details = status_pb2.Status(code=status.value[0], message=text, details=[info])
    metadata: list[tuple[str, str | bytes]] = [("grpc-status-details-bin", details.SerializeToString())]
    if dict(context.invocation_metadata() or ()).get("x-taskyard-rest") == "1":
        metadata.append(("x-error-json", json.dumps({"code": code, "error": text, **more})))
        if http is not None:
            metadata.append(("x-http-status", http))
    await context.abort(status, text, tuple(metadata))


class Tasks(task_pb2_grpc.TaskServiceServicer):
    """Answers by the task id, the agent or the filter."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.flooded = 0

    async def SubmitTask(self, request: task_pb2.SubmitTaskRequest, context: Context) -> task_pb2.SubmitTaskResponse:  # noqa: N802
        await context.send_initial_metadata((("x-hint", "early"),) if request.agent_id == "hinted" else ())
        if request.agent_id == "late":
            await refuse(context, grpc.StatusCode.FAILED_PRECONDITION, "conflict", "too late", "409")
        return task_pb2.SubmitTaskResponse(task_id="tsk_1", state=task_pb2.Task.queued, position=0)

    async def GetTask(self, request: task_pb2.GetTaskRequest, context: Context) -> task_pb2.Task:  # noqa: N802
        match request.task_id:
            case "lost":
                await refuse(context, grpc.StatusCode.NOT_FOUND, "not_found", "task not found")
            case "held":
                await refuse(context, grpc.StatusCode.FAILED_PRECONDITION, "conflict", 'é "\\\n\x01 \U0001f600', "409")
            case "full":
                details = {"queued": 1000}
                await refuse(
                    context,
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    "queue_full",
                    "rejected: global queue full",
                    retryable=True,
                    details=details,
                )
            case "limited":
                await refuse(
                    context,
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    "too_many_requests",
                    'too many: "retryAfterMs": 99000',
                    "429",
                    details={"retryAfterMs": 1_001},
                )
            case "long":
                await refuse(context, grpc.StatusCode.NOT_FOUND, "not_found", "x" * 2000)
            case "plain":
                await context.abort(grpc.StatusCode.NOT_FOUND, 'no "task" \\ \x01 é')
            case "crash":
                raise RuntimeError("secret")
            case "never":
                await asyncio.Event().wait()
            case "huge":
                return task_pb2.Task(task_id="huge", error="x" * 68_000_000)
            case "metadata":
                sent = [(key, str(value)) for key, value in context.invocation_metadata() or ()]
                return task_pb2.Task(task_id="metadata", error=json.dumps(sent))
        return task_pb2.Task(task_id=request.task_id)

    async def ListTasks(self, request: task_pb2.ListTasksRequest, context: Context) -> task_pb2.ListTasksResponse:  # noqa: N802
        if request.state == "done":
            return task_pb2.ListTasksResponse(tasks=[task_pb2.Task(task_id="tsk_1")], count=1)
        await context.send_initial_metadata((("x-rest-empty", "tasks"),))
        return task_pb2.ListTasksResponse(count=None if request.state == "failed" else 0)

    async def WatchTasks(  # noqa: N802
        self, request: task_pb2.WatchTasksRequest, context: Context
    ) -> AsyncIterator[task_pb2.WatchTasksResponse]:
        if request.cursor == "old":
            await refuse(context, grpc.StatusCode.OUT_OF_RANGE, "cursor_expired", "cursor expired", "410")
        try:
            yield task_pb2.WatchTasksResponse(cursor="1")
            while request.cursor == "flood":
                yield task_pb2.WatchTasksResponse(cursor="x" * 100_000)
                self.flooded += 1
            yield task_pb2.WatchTasksResponse(cursor="2")
            await asyncio.Event().wait()
        finally:
            self.left.set()

    async def SubmitTasks(  # noqa: N802
        self, requests: AsyncIterator[task_pb2.SubmitTasksRequest], _: Context
    ) -> AsyncIterator[task_pb2.SubmitTasksResponse]:
        async for request in requests:
            outcomes = [task_pb2.SubmitOutcome(rejected_task_id=task.agent_id) for task in request.tasks]
            yield task_pb2.SubmitTasksResponse(outcomes=outcomes)


class Stats(stats_pb2_grpc.StatsServiceServicer):
    """Nothing happened so far."""

    async def GetStats(self, *_: object) -> stats_pb2.GetStatsResponse:  # noqa: N802
        return stats_pb2.GetStatsResponse(queue=stats_pb2.QueueStats())


class Leases(lease_pb2_grpc.LeaseServiceServicer):
    """One task for anyone, and no leases."""

    async def ClaimTask(self, *_: object) -> lease_pb2.ClaimTaskResponse:  # noqa: N802
        return lease_pb2.ClaimTaskResponse(
            claimed=True, task_id="tsk_1", fencing_token=1, task=task_pb2.Task(task_id="tsk_1", agent_id="a")
        )

    async def ListLeases(self, *_: object) -> lease_pb2.ListLeasesResponse:  # noqa: N802
        return lease_pb2.ListLeasesResponse()


@asynccontextmanager
async def scripted_server(port: int = 0) -> AsyncIterator[tuple[Tasks, str]]:
    """Such a server on this port, or a free one, and its address."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    tasks = Tasks()
    task_pb2_grpc.add_TaskServiceServicer_to_server(tasks, server)
    stats_pb2_grpc.add_StatsServiceServicer_to_server(Stats(), server)
    lease_pb2_grpc.add_LeaseServiceServicer_to_server(Leases(), server)
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield tasks, f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
