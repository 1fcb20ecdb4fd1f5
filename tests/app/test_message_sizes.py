"""A message over 4 MiB is `too_large` over every RPC, in the documented shape (docs/rules.md, Sizes)."""

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from taskyard.v1 import batch_pb2, runtime_host_pb2, task_pb2
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub

LIMIT = 4 * 1024 * 1024


def code_and_reason(error):
    (details,) = [value for key, value in error.trailing_metadata() if key == "grpc-status-details-bin"]
    status = status_pb2.Status.FromString(details)
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    return error.code(), info.reason


@pytest.fixture
async def server(up):
    return await up()


def submission(size):
    return task_pb2.SubmitTaskRequest(agent_id="ann", action="a" * (size - 16))


async def test_a_call_over_the_limit_is_too_large(server):
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await server.tasks.SubmitTask(submission(LIMIT + 1_000))
    assert code_and_reason(refused.value) == (grpc.StatusCode.INVALID_ARGUMENT, "TOO_LARGE")
    assert str(LIMIT) in refused.value.details()


async def test_a_call_just_below_the_limit_is_read(server):
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await server.tasks.SubmitTask(submission(LIMIT - 1_000))
    assert code_and_reason(refused.value) == (grpc.StatusCode.INVALID_ARGUMENT, "BAD_REQUEST")
    assert refused.value.details().startswith("action: ")


async def test_a_message_of_a_submission_stream_over_the_limit_ends_the_stream(server):
    stream = server.tasks.SubmitTasks()
    await stream.write(task_pb2.SubmitTasksRequest(tasks=[submission(LIMIT + 1_000)]))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stream.read()
    assert code_and_reason(refused.value) == (grpc.StatusCode.INVALID_ARGUMENT, "TOO_LARGE")


async def test_the_welcome_of_a_host_says_the_limit_that_holds(server):
    stream = RuntimeHostServiceStub(server.channel).Connect()
    await stream.write(runtime_host_pb2.ConnectRequest(hello=runtime_host_pb2.Hello(host_id="h", instance="i")))
    assert (await stream.read()).welcome.max_message_bytes == LIMIT
    report = runtime_host_pb2.Report(task_id="t" * LIMIT, fencing_token=1)
    await stream.write(runtime_host_pb2.ConnectRequest(reports=runtime_host_pb2.Reports(reports=[report])))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stream.read()
    assert code_and_reason(refused.value) == (grpc.StatusCode.INVALID_ARGUMENT, "TOO_LARGE")


async def test_a_batch_over_the_limit_makes_no_task(server):
    tasks = [batch_pb2.BatchTask(action="a" * 100_000) for _ in range(50)]
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await server.channel.unary_unary(
            "/taskyard.v1.BatchService/SubmitBatch",
            request_serializer=batch_pb2.SubmitBatchRequest.SerializeToString,
            response_deserializer=batch_pb2.SubmitBatchResponse.FromString,
        )(batch_pb2.SubmitBatchRequest(agent_id="ann", tasks=tasks))
    assert code_and_reason(refused.value) == (grpc.StatusCode.INVALID_ARGUMENT, "TOO_LARGE")
    assert (await server.tasks.ListTasks(task_pb2.ListTasksRequest())).count == 0
