"""A stream that is asked for by HEAD, at the server: it ends before its first message, and refusals stay refusals."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from taskyard.v1 import task_pb2 as pb
from taskyard.v1 import task_pb2_grpc
from taskyard_server.core.errors import BadRequest
from taskyard_server.interceptors.calls import CallInterceptor
from tests.waiting import LIMIT_SECS

BY_REST = (("x-taskyard-rest", "1"), ("x-envoy-original-path", "/tasks:watch"))
BY_HEAD = (*BY_REST, ("x-taskyard-head", "1"))
FIRST = pb.WatchTasksResponse(cursor="1")


class Writing(task_pb2_grpc.TaskServiceServicer):
    """Writes one message and waits."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def WatchTasks(self, request: pb.WatchTasksRequest, context: Any) -> None:  # noqa: N802
        if request.cursor == "old":
            raise BadRequest("cursor: is old")
        try:
            await context.write(FIRST)
            await asyncio.Event().wait()
        finally:
            self.left.set()


class Yielding(Writing):
    """The same as a generator."""

    async def WatchTasks(  # noqa: N802
        self, request: pb.WatchTasksRequest, context: Any
    ) -> AsyncIterator[pb.WatchTasksResponse]:
        del context
        if request.cursor == "old":
            raise BadRequest("cursor: is old")
        try:
            yield FIRST
            await asyncio.Event().wait()
        finally:
            self.left.set()


@asynccontextmanager
async def calling(servicer: Writing) -> "AsyncIterator[task_pb2_grpc.TaskServiceAsyncStub]":
    server = grpc.aio.server(interceptors=(CallInterceptor(),))
    task_pb2_grpc.add_TaskServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with asyncio.timeout(LIMIT_SECS), grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield task_pb2_grpc.TaskServiceStub(channel)
    finally:
        await server.stop(None)


both_kinds = pytest.mark.parametrize("kind", [Writing, Yielding])


@both_kinds
async def test_a_stream_ends_before_its_first_message(kind: type[Writing]) -> None:
    servicer = kind()
    async with calling(servicer) as stub:
        call = stub.WatchTasks(pb.WatchTasksRequest(), metadata=BY_HEAD)
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK
        await servicer.left.wait()


@both_kinds
async def test_a_refusal_is_one_still(kind: type[Writing]) -> None:
    async with calling(kind()) as stub:
        call = stub.WatchTasks(pb.WatchTasksRequest(cursor="old"), metadata=BY_HEAD)
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert await call.details() == "cursor: is old"


@both_kinds
@pytest.mark.parametrize("metadata", [(), BY_REST])
async def test_every_other_call_gets_its_messages(kind: type[Writing], metadata: tuple[tuple[str, str], ...]) -> None:
    async with calling(kind()) as stub:
        call = stub.WatchTasks(pb.WatchTasksRequest(), metadata=metadata)
        assert await call.read() == FIRST
        call.cancel()


@both_kinds
async def test_a_stream_is_held_against_its_target_as_every_call_is(kind: type[Writing]) -> None:
    async with calling(kind()) as stub:
        metadata = (("x-taskyard-rest", "1"), ("x-envoy-original-path", "/tasks:watch?cursor=1&cursor=1"))
        call = stub.WatchTasks(pb.WatchTasksRequest(), metadata=metadata)
        assert await call.details() == "cursor: is given more than once"
