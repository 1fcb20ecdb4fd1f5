"""The spans of calls, and the traces that begin with them (docs/rules.md, Telemetry)."""

import grpc
import pytest
from opentelemetry.trace import SpanKind, StatusCode

from taskyard.v1 import batch_pb2, lease_pb2, runtime_host_pb2, task_pb2
from tests.telemetry.conftest import CALLER, NOT_RECORDED, RECORDED, TRACE, ids, parent, traceparent

HELLO = runtime_host_pb2.Hello(host_id="other", instance="1")
SUBMIT = "taskyard.v1.TaskService/SubmitTask"


def task(**fields):
    return task_pb2.SubmitTaskRequest(agent_id="ann", action="crawl", **fields)


def by(context):
    return (("traceparent", context),)


async def shown(server, answer):
    return (await server.tasks.GetTask(task_pb2.GetTaskRequest(task_id=answer.task_id))).traceparent


async def test_a_call_that_its_caller_records_has_a_span_which_is_the_parent_of_its_task(server, sink):
    answer = await server.tasks.SubmitTask(task(), metadata=by(RECORDED))
    (span,) = sink.spans
    assert (span.name, span.kind) == (SUBMIT, SpanKind.SERVER)
    assert (ids(span)[0], parent(span)) == (TRACE, CALLER)
    assert await shown(server, answer) == traceparent(span)
    assert dict(span.attributes) == {
        "rpc.system": "grpc",
        "rpc.service": "taskyard.v1.TaskService",
        "rpc.method": "SubmitTask",
        "rpc.grpc.status_code": 0,
        "taskyard.namespace": "default",
    }


async def test_a_call_that_its_caller_does_not_record_has_none(server, sink):
    answer = await server.tasks.SubmitTask(task(), metadata=by(NOT_RECORDED))
    assert await shown(server, answer) == NOT_RECORDED
    assert sink.spans == []


async def test_without_a_caller_that_decides_nothing_is_traced_if_the_ratio_is_none(server, sink):
    answer = await server.tasks.SubmitTask(task())
    assert await shown(server, answer) == ""
    assert sink.spans == []


async def test_a_task_with_a_trace_of_its_own_is_below_its_sender_as_its_call_is(server, sink):
    answer = await server.tasks.SubmitTask(task(traceparent=RECORDED))
    (span,) = sink.spans
    assert (ids(span)[0], parent(span)) == (TRACE, CALLER)
    assert await shown(server, answer) == RECORDED


@pytest.mark.parametrize("ratio", [1.0])
async def test_a_call_without_a_trace_begins_one(server, sink):
    answer = await server.tasks.SubmitTask(task())
    (span,) = sink.named(SUBMIT)
    assert parent(span) is None
    assert await shown(server, answer) == traceparent(span)


@pytest.mark.parametrize("ratio", [1.0])
async def test_the_tasks_of_a_batch_are_below_its_call(server, sink):
    request = batch_pb2.SubmitBatchRequest(agent_id="ann", tasks=[batch_pb2.BatchTask(action="crawl")] * 2)
    answer = await server.batches.SubmitBatch(request)
    (span,) = sink.named("taskyard.v1.BatchService/SubmitBatch")
    assert [await shown(server, each) for each in answer.tasks] == [traceparent(span)] * 2


@pytest.mark.parametrize("ratio", [1.0])
async def test_each_task_of_a_stream_begins_a_trace_unless_it_has_one(server, sink):
    stream = server.tasks.SubmitTasks()
    await stream.write(task_pb2.SubmitTasksRequest(tasks=[task(), task(), task(traceparent=NOT_RECORDED)]))
    outcomes = (await stream.read()).outcomes
    await stream.done_writing()
    assert await stream.read() is grpc.aio.EOF
    begun = sink.named("taskyard.v1.TaskService/SubmitTasks")
    given = [await shown(server, outcome.accepted) for outcome in outcomes]
    assert given == [*map(traceparent, begun), NOT_RECORDED]
    assert len({ids(span)[0] for span in begun}) == 2


@pytest.mark.parametrize("ratio", [1.0])
@pytest.mark.parametrize("fields", [{}, {"token_limit": 100}], ids=["common", "with a budget"])
async def test_a_repeat_on_a_stream_is_one_though_each_time_begins_a_trace(server, fields):
    made = []
    for _ in range(2):
        stream = server.tasks.SubmitTasks()
        request = task(idempotency_key="k", **fields)
        await stream.write(task_pb2.SubmitTasksRequest(tasks=[request]))
        made.append((await stream.read()).outcomes[0].accepted.task_id)
        await stream.done_writing()
    assert made[0] == made[1] != ""


async def test_a_refused_call_has_its_code_and_is_an_error_where_the_server_is_at_fault(server, sink):
    with pytest.raises(grpc.aio.AioRpcError):
        await server.tasks.SubmitTask(task_pb2.SubmitTaskRequest(agent_id="ann"), metadata=by(RECORDED))
    (span,) = sink.spans
    assert span.attributes["error.type"] == "bad_request"
    assert span.attributes["rpc.grpc.status_code"] == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert span.status.status_code is StatusCode.UNSET


async def test_claims_and_streams_hand_out_the_trace_context_of_the_attempt(server):
    for _ in range(3):
        await server.tasks.SubmitTask(task(traceparent=RECORDED))
    await server.hosts.RegisterHost(runtime_host_pb2.RegisterHostRequest(host_id="host"))
    one = await server.leases.ClaimTask(lease_pb2.ClaimTaskRequest(host_id="host"))
    many = await server.leases.ClaimTasks(lease_pb2.ClaimTasksRequest(host_id="host", max_tasks=1))
    stream = server.hosts.Connect()
    await stream.write(runtime_host_pb2.ConnectRequest(hello=HELLO))
    await stream.write(runtime_host_pb2.ConnectRequest(credit=runtime_host_pb2.Credit(count=1)))
    message = await stream.read()
    while not message.HasField("assignments"):
        message = await stream.read()
    handed = [one.task, many.assignments[0].task, message.assignments.assignments[0].task]
    assert len({each.traceparent for each in handed}) == 3
    assert {each.traceparent.split("-")[1] for each in handed} == {TRACE}
    assert CALLER not in {each.traceparent.split("-")[2] for each in handed}
    stream.cancel()
