"""Servers that demand TLS, client certificates or tokens, and say which tokens they were sent."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest

from taskyard.v1 import task_pb2 as pb
from taskyard.v1.task_pb2_grpc import TaskServiceServicer, add_TaskServiceServicer_to_server
from tests.certificates import Authority
from tests.waiting import until


class Doorkeeper(TaskServiceServicer):
    """Serves calls with one of `tokens`, or all where that is None. `seen` are the tokens that it was sent."""

    def __init__(self) -> None:
        self.tokens: set[str] | None = None
        self.seen: list[str] = []
        self.code = grpc.StatusCode.UNAUTHENTICATED
        self.expired = asyncio.Event()
        """Ends the streams and waits."""
        self.ended = asyncio.Event()
        """Ends the task that is waited for."""
        self.address = ""
        self._writing = asyncio.Lock()

    async def admitted(self, count: int) -> None:
        """Wait until so many calls have come."""
        await until(lambda: len(self.seen) >= count)

    async def _admit(self, context: Any) -> None:
        authorization = dict(context.invocation_metadata()).get("authorization", "")
        self.seen.append(authorization.removeprefix("Bearer "))
        if self.tokens is not None and self.seen[-1] not in self.tokens:
            await context.abort(self.code, "this token is not known")

    async def GetTask(self, request: pb.GetTaskRequest, context: Any) -> pb.Task:  # noqa: N802
        await self._admit(context)
        return _task(request.task_id)

    async def WaitTask(self, request: pb.WaitTaskRequest, context: Any) -> pb.WaitTaskResponse:  # noqa: N802
        await self._admit(context)
        await self._until_expired(context, self.ended.wait())
        return pb.WaitTaskResponse(ended=True, task=_task(request.task_id))

    async def SubmitTask(self, request: pb.SubmitTaskRequest, context: Any) -> pb.SubmitTaskResponse:  # noqa: N802
        del request
        await self._admit(context)
        return pb.SubmitTaskResponse(task_id="large", state=pb.Task.queued)

    async def SubmitTasks(self, request_iterator: Any, context: Any) -> None:  # noqa: N802
        await self._admit(context)
        await self._until_expired(context, self._accept(request_iterator, context))

    async def WatchTasks(self, request: pb.WatchTasksRequest, context: Any) -> None:  # noqa: N802
        await self._admit(context)
        event = pb.TaskEvent(kind=pb.TaskEvent.changed, task=_task(f"after-{request.cursor}"))
        event.occurred_at.FromDatetime(datetime.now(UTC))
        await context.write(pb.WatchTasksResponse(events=[event], cursor=str(len(self.seen))))
        await self._until_expired(context, asyncio.Event().wait())

    async def _accept(self, requests: Any, context: Any) -> None:
        async for request in requests:
            accepted = [pb.SubmitTaskResponse(task_id=task.action, state=pb.Task.queued) for task in request.tasks]
            outcomes = [pb.SubmitOutcome(accepted=each) for each in accepted]
            async with self._writing:
                await context.write(pb.SubmitTasksResponse(outcomes=outcomes))

    async def _until_expired(self, context: Any, work: Any) -> None:
        working, expiring = asyncio.ensure_future(work), asyncio.ensure_future(self.expired.wait())
        try:
            await asyncio.wait({working, expiring}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # grpc cannot end a call whose first write was cancelled: its client, which may have read it, would wait.
            async with self._writing:
                working.cancel()
            expiring.cancel()
        if self.expired.is_set():
            self.expired.clear()
            await context.abort(self.code, "this token has expired")


def _task(task_id: str) -> pb.Task:
    task = pb.Task(task_id=task_id, state=pb.Task.queued, agent_id="ann", action="click")
    task.created_at.FromDatetime(datetime.now(UTC))
    return task


Serve = Callable[..., Awaitable[Doorkeeper]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts a server, at 127.0.0.1, with these credentials of gRPC."""
    async with AsyncExitStack() as ends:

        async def started(credentials: grpc.ServerCredentials | None = None) -> Doorkeeper:
            keeper, server = Doorkeeper(), grpc.aio.server()
            add_TaskServiceServicer_to_server(keeper, server)
            at = "127.0.0.1:0"
            port = server.add_secure_port(at, credentials) if credentials else server.add_insecure_port(at)
            keeper.address = f"127.0.0.1:{port}"
            await server.start()
            ends.push_async_callback(server.stop, None)
            return keeper

        yield started


@pytest.fixture(scope="session")
def authority() -> Authority:
    """The authority of servers and clients."""
    return Authority()


@pytest.fixture
def with_tls(authority: Authority) -> Callable[..., grpc.ServerCredentials]:
    """Makes credentials of a server, with a leaf of this authority; `asks` for client certificates or not."""

    def made(asks: bool = False, **leaf: Any) -> grpc.ServerCredentials:
        own = authority.leaf(**leaf)
        return grpc.ssl_server_credentials([(own.key, own.cert)], authority.cert if asks else None, asks)

    return made
