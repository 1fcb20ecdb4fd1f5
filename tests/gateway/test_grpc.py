"""gRPC through the gateway: callers get just what the server sends."""

import asyncio

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from taskyard.v1 import task_pb2, task_pb2_grpc
from taskyard_server.gateway.gateway import Gateway
from tests.gateway.gateways import SECS

pytestmark = pytest.mark.asyncio(loop_scope="module")

REST_LIMIT = 1_048_576


async def test_errors_arrive_whole(native: "task_pb2_grpc.TaskServiceAsyncStub") -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await native.GetTask(task_pb2.GetTaskRequest(task_id="held"), timeout=SECS)
    error = refusal.value
    assert (error.code(), error.details()) == (grpc.StatusCode.FAILED_PRECONDITION, 'é "\\\n\x01 \U0001f600')
    status = rpc_status.from_call(error)
    assert status is not None
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.reason, info.domain) == ("conflict", "taskyard")
    assert {key for key, _ in error.trailing_metadata()} == {"grpc-status-details-bin", "date", "server"}


async def test_headers_arrive_whole(native: "task_pb2_grpc.TaskServiceAsyncStub") -> None:
    call = native.SubmitTask(task_pb2.SubmitTaskRequest(agent_id="hinted"), timeout=SECS)
    headers = [*await call.initial_metadata()]
    assert ("x-hint", "early") in headers
    assert not any(key == "x-http-status" for key, _ in headers)
    assert (await call).task_id == "tsk_1"


async def test_messages_have_no_limit_of_1_mib(native: "task_pb2_grpc.TaskServiceAsyncStub") -> None:
    request = task_pb2.SubmitTaskRequest(agent_id="a", callback_url="x" * 2 * REST_LIMIT)
    assert (await native.SubmitTask(request, timeout=SECS)).task_id == "tsk_1"


async def test_messages_of_a_stream_are_not_held_back(native: "task_pb2_grpc.TaskServiceAsyncStub") -> None:
    async with asyncio.timeout(SECS):
        call = native.SubmitTasks()
        for number in range(5):
            task = task_pb2.SubmitTaskRequest(agent_id=f"a{number}", callback_url="x" * (REST_LIMIT // 2))
            await call.write(task_pb2.SubmitTasksRequest(tasks=[task]))
            answer = await call.read()
            assert isinstance(answer, task_pb2.SubmitTasksResponse)
            assert [outcome.rejected_task_id for outcome in answer.outcomes] == [f"a{number}"]
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF


async def test_an_unknown_method_gets_a_grpc_answer(gateway: Gateway) -> None:
    async with grpc.aio.insecure_channel(gateway.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await channel.unary_unary("/taskyard.v1.TaskService/Nothing")(b"", timeout=SECS)
    assert (refusal.value.code(), refusal.value.details()) == (grpc.StatusCode.UNIMPLEMENTED, "Method not found!")


async def test_too_large_headers_get_a_grpc_answer(native: "task_pb2_grpc.TaskServiceAsyncStub") -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await native.GetTask(task_pb2.GetTaskRequest(), metadata=(("x-mine", "x" * 70_000),), timeout=SECS)
    assert "{" not in (refusal.value.details() or "")
