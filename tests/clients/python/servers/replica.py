"""A server among several that do the same work, which can be dead, hang, refuse, or be killed in mid-call."""

import asyncio
from typing import Any

import grpc

from taskyard.v1 import task_pb2 as pb
from taskyard.v1.task_pb2_grpc import TaskServiceServicer, add_TaskServiceServicer_to_server
from taskyard_server.conversion.submit_requests import TaskRequest
from taskyard_server.core.errors import Conflict, NotFound, NotOwner, Unavailable
from taskyard_server.interceptors.calls import CallInterceptor

TIMEOUT_SECS = 10.0


class Replica(TaskServiceServicer):
    """One server. `calls` are the methods that came, in order; those that were refused at the door too.

    Attributes:
        strays: How many calls more it refuses, since another server owns the namespace.
        is_down: Whether it answers `unavailable`.
        hangs: Whether it never answers.
        ends: Whether it ends streams of submissions without an answer, and without a reason.
        dies: Whether the next call is the last that it sees.
        made: The idempotency keys of the tasks that were submitted here.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.strays = 0
        self.is_down = False
        self.hangs = False
        self.ends = False
        self.dies = False
        self.made: list[str] = []
        self.state = pb.Task.queued
        self.cursors: list[str] = []
        self.more = asyncio.Event()
        """Has each watch show another event."""
        self.port = 0
        self._server: Any = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self, port: int = 0, credentials: grpc.ServerCredentials | None = None) -> None:
        self._server = grpc.aio.server(interceptors=(CallInterceptor(),), options=[("grpc.so_reuseport", 0)])
        add_TaskServiceServicer_to_server(self, self._server)
        at = f"127.0.0.1:{port}"
        self.port = (
            self._server.add_insecure_port(at) if credentials is None else self._server.add_secure_port(at, credentials)
        )
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)

    async def _admit(self, name: str) -> None:
        self.calls.append(name)
        if self.strays:
            self.strays -= 1
            raise NotOwner("other")
        if self.is_down:
            raise Unavailable("it is down")
        if self.hangs:
            await asyncio.Event().wait()

    async def _may_die(self) -> None:
        """Everything was done, and then the server is killed before it has answered."""
        if self.dies:
            self._killed = asyncio.create_task(self.stop())
            await asyncio.Event().wait()

    async def GetTask(self, request: pb.GetTaskRequest, context: Any) -> pb.Task:  # noqa: N802
        del context
        await self._admit("GetTask")
        await self._may_die()
        return pb.Task(task_id=request.task_id, state=self.state)

    async def WaitTask(self, request: pb.WaitTaskRequest, context: Any) -> pb.WaitTaskResponse:  # noqa: N802
        del context
        await self._admit("WaitTask")
        return pb.WaitTaskResponse(ended=True, task=pb.Task(task_id=request.task_id, state=pb.Task.done))

    async def CancelTask(self, request: pb.CancelTaskRequest, context: Any) -> pb.CancelTaskResponse:  # noqa: N802
        del context
        await self._admit("CancelTask")
        if self.state == pb.Task.cancelled:
            raise Conflict(f"{request.task_id} is cancelled")
        await self._may_die()
        return pb.CancelTaskResponse(task_id=request.task_id, status=pb.Task.cancelled)

    async def ResumeTask(self, request: pb.ResumeTaskRequest, context: Any) -> pb.ResumeTaskResponse:  # noqa: N802
        await self._admit("ResumeTask")
        if request.task_id == "tsk_none":
            raise NotFound("there is no such task")
        del context
        await self._may_die()
        return pb.ResumeTaskResponse(task_id=request.task_id, status=pb.Task.queued)

    async def SubmitTask(self, request: TaskRequest, context: Any) -> pb.SubmitTaskResponse:  # type: ignore[override]  # noqa: N802
        del context
        await self._admit("SubmitTask")
        return pb.SubmitTaskResponse(task_id=request.parsed.action, state=pb.Task.queued)

    async def SubmitTasks(self, request_iterator: Any, context: Any) -> None:  # noqa: N802
        await self._admit("SubmitTasks")
        if self.ends:
            return
        async for message in request_iterator:
            tasks = message.parsed.tasks
            self.made += [task.idempotency_key for task in tasks]
            await self._may_die()
            accepted = [pb.SubmitTaskResponse(task_id=task.action, state=pb.Task.queued) for task in tasks]
            outcomes = [pb.SubmitOutcome(accepted=each) for each in accepted]
            await context.write(pb.SubmitTasksResponse(outcomes=outcomes))

    async def WatchTasks(self, request: pb.WatchTasksRequest, context: Any) -> None:  # noqa: N802
        self.cursors.append(request.cursor)
        await self._admit("WatchTasks")
        event = pb.TaskEvent(
            kind=pb.TaskEvent.submitted, task=pb.Task(task_id=f"tsk_{self.port}", state=pb.Task.queued)
        )
        await context.write(pb.WatchTasksResponse(events=[event], cursor=f"c{self.port}"))
        await self.more.wait()
        await context.write(pb.WatchTasksResponse(events=[event], cursor=f"c{self.port}"))
        await asyncio.Event().wait()
