"""One caller cannot harm the others: by not reading, by dying with thousands of streams, by malformed headers."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import grpc
import httpx
import pytest

from taskyard.v1 import task_pb2, task_pb2_grpc
from taskyard_server.gateway.gateway import Gateway
from tests.gateway.gateways import SECS, connection_to
from tests.gateway.http2 import Http2
from tests.gateway.scripted_server import Tasks

pytestmark = [pytest.mark.gate("stalls and floods of real connections"), pytest.mark.asyncio(loop_scope="module")]


async def test_watchers_that_do_not_read_stall_nobody(tasks: Tasks, gateway: Gateway, rest: httpx.AsyncClient) -> None:
    async def stalled() -> int:
        """Wait until the server can send no more; how much it has sent."""
        before = -1
        while tasks.flooded > before:
            before = tasks.flooded
            await asyncio.sleep(0.5)
        return before

    host, _, port = gateway.address.rpartition(":")
    async with AsyncExitStack() as stack:
        for _ in range(12):
            _, writer = await asyncio.open_connection(host, int(port), limit=1)
            stack.callback(writer.close)
            writer.write(b"GET /tasks:watch?cursor=flood HTTP/1.1\r\nhost: localhost\r\n\r\n")
        async with asyncio.timeout(SECS):
            assert await stalled() > 0
        assert (await rest.get("/tasks/tsk_1")).status_code == 200


async def test_a_caller_that_drops_thousands_of_streams_takes_nobody_along(
    gateway: Gateway, native: "task_pb2_grpc.TaskServiceAsyncStub"
) -> None:
    async def ping(call: Any) -> None:
        await call.write(task_pb2.SubmitTasksRequest(tasks=[task_pb2.SubmitTaskRequest(agent_id="a")]))
        assert len((await call.read()).outcomes) == 1

    async with asyncio.timeout(3 * SECS):
        bystander = native.SubmitTasks()
        await ping(bystander)
        own_connection = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(gateway.address, own_connection) as channel:
            stub = task_pb2_grpc.TaskServiceStub(channel)
            calls = [stub.SubmitTasks() for _ in range(3_000)]
            await asyncio.gather(*map(ping, calls))
            for call in calls:
                call.cancel()
        # As many round trips as it takes for the resets to get through.
        for _ in range(200):
            await ping(bystander)
        bystander.cancel()


GET_TASK = "/taskyard.v1.TaskService/GetTask"
GRPC = (("content-type", "application/grpc"), ("te", "trailers"))
MESSAGE = b"\0\0\0\0\3\n\1x"
"""A request for the task x."""


@pytest.mark.parametrize(
    "malformed",
    [
        ("grpc-timeout", "soon"),
        ("grpc-timeout", "123456789S"),
        ("grpc-encoding", "zip"),
        ("grpc-previous-rpc-attempts", "x"),
        ("grpc-retry-pushback-ms", "x"),
        ("grpc-status", "x"),
        ("grpc-internal-encoding-request", "x"),
        ("x-mine-bin", "!"),
    ],
    ids="=".join,
)
async def test_a_malformed_header_breaks_no_call_of_others(
    gateway: Gateway, native: "task_pb2_grpc.TaskServiceAsyncStub", malformed: tuple[str, str]
) -> None:
    """grpc remembers that it could not read a header, for all later calls on the connection that all share."""
    async with connection_to(gateway) as (reader, writer):
        http2 = Http2(reader, writer)
        await http2.request("POST", GET_TASK, (*GRPC, malformed), MESSAGE)
        await http2.request("POST", GET_TASK, GRPC, MESSAGE, trailers=[malformed])
        await http2.request("GET", "/tasks/x", [malformed])
        await http2.request("GET", "/tasks/x", trailers=[malformed])
    request, metadata = task_pb2.GetTaskRequest(task_id="x"), (("x-mine-bin", b"1"),)
    for secs in (SECS, SECS + 1):
        answer = native.GetTask(request, timeout=secs, metadata=metadata, compression=grpc.Compression.Gzip)
        assert (await answer).task_id == "x"
