"""SubmitTasks (docs/rules.md, Submission streams): many tasks over one stream, admitted separately."""

import asyncio

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1.task_pb2 import SubmitTaskRequest, SubmitTasksRequest, SubmitTasksResponse, Task
from tests.waiting import LIMIT_SECS

METHOD = "/taskyard.v1.TaskService/SubmitTasks"


def task_request(**fields):
    """One task of a message, with defaults for the required fields."""
    return SubmitTaskRequest(**{"agent_id": "ann", "action": "click", **fields})


def message(*tasks):
    return SubmitTasksRequest(tasks=tasks)


async def exchange(api, *messages, metadata=None):
    """Send all messages, half-close, and read all responses."""
    call = api.tasks.SubmitTasks(iter(messages), metadata=metadata)
    return [response async for response in call]


async def outcomes(api, *tasks, metadata=None):
    """The outcomes of one message."""
    (response,) = await exchange(api, message(*tasks), metadata=metadata)
    return list(response.outcomes)


def results(outcome_list):
    """`accepted` or the code of the error, for each outcome."""
    return [
        outcome.error.code if outcome.HasField("error") else outcome.WhichOneof("outcome") for outcome in outcome_list
    ]


async def ids(api, **filters):
    return [task.task_id for task in (await api.list_tasks(**filters)).tasks]


# Order


async def test_responses_and_outcomes_are_in_the_order_of_messages_and_tasks(api):
    sizes = [3, 1, 0, 5, 2]
    messages = [
        message(*(task_request(action=f"a-{number}-{index}") for index in range(size)))
        for number, size in enumerate(sizes)
    ]
    responses = await exchange(api, *messages)
    assert [len(response.outcomes) for response in responses] == sizes
    accepted = [outcome.accepted.task_id for response in responses for outcome in response.outcomes]
    listed = (await api.list_tasks()).tasks
    assert [task.task_id for task in listed] == accepted
    assert [task.action for task in listed] == [task.action for outcome in messages for task in outcome.tasks]


async def test_an_accepted_task_has_the_response_of_submit_task(api):
    single = await api.submit()
    (outcome,) = await outcomes(api, task_request())
    assert outcome.accepted.DESCRIPTOR is single.DESCRIPTOR
    assert outcome.accepted.task_id.startswith("tsk_")
    assert Task.State.Name(outcome.accepted.state) == "queued"
    assert (single.position, outcome.accepted.position) == (1, 2)
    assert outcome.accepted.created_at == (await api.get(outcome.accepted.task_id)).created_at
    assert not outcome.HasField("rejected_task_id")


async def test_all_fields_of_a_task_are_kept(api):
    deadline = Timestamp(seconds=int(api.engine.now()) + 500)
    request = task_request(
        tab_id="tab",
        ref="e14",
        params=Struct(fields={"text": Value(string_value="hi")}),
        priority=-3,
        deadline=deadline,
        callback_url="https://example.com/cb",
        project="p",
        requires=["gpu"],
        labels={"a": "b"},
        idempotency_key="key",
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )
    (outcome,) = await outcomes(api, request)
    task = await api.get(outcome.accepted.task_id)
    for field, value in request.ListFields():
        assert getattr(task, field.name) == value, field.name


async def test_one_message_can_hold_tasks_of_several_agents(api):
    await outcomes(api, task_request(agent_id="ann"), task_request(agent_id="bob"), task_request(agent_id="ann"))
    assert [len(await ids(api, agent_id=agent)) for agent in ("ann", "bob")] == [2, 1]


async def test_the_metadata_of_the_call_sets_the_namespace_and_the_trace_context(api):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    metadata = (("taskyard-namespace", "other"), ("traceparent", trace))
    (outcome,) = await outcomes(api, task_request(), metadata=metadata)
    assert not await ids(api)
    assert await ids(api, metadata=metadata[:1]) == [outcome.accepted.task_id]
    assert (await api.get(outcome.accepted.task_id, metadata=metadata[:1])).traceparent == trace


# Refusals


def nested_object():
    value = Value(number_value=1)
    for _ in range(31):
        value = Value(struct_value=Struct(fields={"in": value}))
    return value.struct_value


INVALID = {
    "no agent": (task_request(agent_id=""), "bad_request"),
    "no action": (task_request(action=""), "bad_request"),
    "a deadline in the past": (task_request(deadline=Timestamp(seconds=1)), "bad_request"),
    "a callback that is not a URL": (task_request(callback_url="ftp://x"), "bad_request"),
    "an invalid trace context": (task_request(traceparent="x"), "bad_request"),
    "params too large": (task_request(params=Struct(fields={"x": Value(string_value="x" * 262_144)})), "too_large"),
    "params too deep": (task_request(params=nested_object()), "bad_request"),
}


@pytest.mark.parametrize("case", INVALID)
async def test_a_refusal_affects_neither_other_tasks_nor_the_stream(api, case):
    invalid, code = INVALID[case]
    first, second = await exchange(api, message(task_request(), invalid, task_request()), message(task_request()))
    assert results(first.outcomes) == ["accepted", code, "accepted"]
    assert results(second.outcomes) == ["accepted"]
    assert first.outcomes[1].error.error
    assert not first.outcomes[1].HasField("rejected_task_id")
    assert len(await ids(api)) == 3


async def test_a_malformed_option_is_refused_in_its_outcome(api):
    response = await outcomes(
        api, task_request(target="a\nb"), task_request(retry_policy={"max_attempts": 0}), task_request(target="t")
    )
    assert [outcome.error.error for outcome in response] == [
        "target: must not hold control characters",
        "retryPolicy.maxAttempts: must be at least 1",
        "",
    ]


async def test_a_refused_task_has_the_error_of_submit_task(api, refused, by_rest):
    single = await refused(api.submit(agent_id="", metadata=by_rest))
    (outcome,) = await outcomes(api, task_request(agent_id=""))
    assert {"code": outcome.error.code, "error": outcome.error.error} == single.rest_body


async def test_a_task_rejected_by_a_full_queue_is_kept_and_named(start_api):
    api = await start_api(max_queue_size=2)
    response = await outcomes(api, *[task_request(action=f"a{number}") for number in range(4)])
    assert results(response) == ["accepted", "accepted", "queue_full", "queue_full"]
    assert response[2].rejected_task_id != response[3].rejected_task_id
    for index in (2, 3):
        task = await api.get(response[index].rejected_task_id)
        assert (Task.State.Name(task.state), task.action) == ("rejected", f"a{index}")
        assert task.error == response[index].error.error == "rejected: global queue full"
        assert response[index].error.retryable
        assert MessageToDict(response[index].error.details) == {
            "agentId": "ann",
            "queued": 2,
            "maxQueue": 2,
            "maxPerAgent": 100,
        }


async def test_tasks_are_admitted_separately(start_api):
    api = await start_api(max_per_agent=1)
    response = await outcomes(
        api,
        task_request(),
        task_request(),
        task_request(agent_id="bob"),
        task_request(agent_id=""),
        task_request(agent_id="cid"),
    )
    assert results(response) == ["accepted", "queue_full", "accepted", "bad_request", "accepted"]
    assert response[1].error.error == "rejected: agent queue full"


async def test_a_place_freed_between_two_messages_is_used(start_api):
    api = await start_api(max_queue_size=1)
    call = api.tasks.SubmitTasks()
    await call.write(message(task_request(), task_request()))
    first = await call.read()
    assert results(first.outcomes) == ["accepted", "queue_full"]
    await api.claim()
    await call.write(message(task_request()))
    assert results((await call.read()).outcomes) == ["accepted"]
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK


async def test_while_draining_each_task_is_unavailable_and_retryable(api):
    api.engine.admin.drain()
    response = await outcomes(api, task_request(), task_request())
    assert results(response) == ["unavailable", "unavailable"]
    assert all(outcome.error.retryable for outcome in response)
    assert not await ids(api)


# The stream


async def test_an_empty_message_has_an_empty_response(api):
    first, second, third = await exchange(api, message(), message(task_request()), message())
    assert (first, third) == (SubmitTasksResponse(), SubmitTasksResponse())
    assert results(second.outcomes) == ["accepted"]


async def test_a_stream_without_messages_ends_with_ok(api):
    call = api.tasks.SubmitTasks()
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK


async def test_a_response_does_not_wait_for_the_next_message(api):
    call = api.tasks.SubmitTasks()
    for _ in range(3):
        await call.write(message(task_request()))
        async with asyncio.timeout(LIMIT_SECS):
            assert results((await call.read()).outcomes) == ["accepted"]
    await call.done_writing()
    assert await call.code() is grpc.StatusCode.OK


async def test_many_messages_are_accepted_before_a_response_is_read(start_api):
    api = await start_api(max_queue_size=20_000, max_per_agent=20_000)
    call = api.tasks.SubmitTasks()
    for number in range(200):
        await call.write(message(*(task_request(action=f"{number}/{index}") for index in range(20))))
    await call.done_writing()
    responses = [response async for response in call]
    assert [len(response.outcomes) for response in responses] == [20] * 200
    positions = [outcome.accepted.position for response in responses for outcome in response.outcomes]
    assert positions == list(range(1, 4001))
    assert (await api.stats()).metrics.tasks_submitted == 4000


async def test_concurrent_streams_are_isolated(start_api):
    api = await start_api(max_queue_size=20_000, max_per_agent=20_000)
    names = [f"agent-{number}" for number in range(8)]
    responses = await asyncio.gather(
        *(exchange(api, *[message(*[task_request(agent_id=name)] * 5)] * 20) for name in names)
    )
    for name, agent_responses in zip(names, responses, strict=True):
        task_ids = [outcome.accepted.task_id for response in agent_responses for outcome in response.outcomes]
        assert task_ids == await ids(api, agent_id=name)
        assert len(task_ids) == 100


@pytest.mark.parametrize("garbage", [b"\xff\xff\xff", b"\x0a\x05\x0a"])
async def test_a_malformed_message_ends_the_stream_and_earlier_tasks_stay(api, garbage):
    call = api.channel.stream_stream(METHOD)()
    await call.write(message(task_request()).SerializeToString())
    response = SubmitTasksResponse.FromString(await call.read())
    assert results(response.outcomes) == ["accepted"]
    await call.write(garbage)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call.read()
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert await ids(api) == [response.outcomes[0].accepted.task_id]
    assert results(await outcomes(api, task_request())) == ["accepted"]


async def test_a_malformed_first_message_ends_the_stream(api):
    call = api.channel.stream_stream(METHOD)()
    await call.write(b"\xff\xff\xff")
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call.read()
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert not await ids(api)


async def test_an_invalid_namespace_ends_the_stream(api):
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await exchange(api, message(task_request()), metadata=(("taskyard-namespace", "no/such"),))
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_accepted_tasks_stay_after_the_call_is_cancelled(api, eventually):
    call = api.tasks.SubmitTasks()
    await call.write(message(task_request(), task_request()))
    await call.read()
    call.cancel()
    assert len(await eventually(lambda: ids(api), len)) == 2
    assert results(await outcomes(api, task_request())) == ["accepted"]
