"""SubmitTasks (DESIGN, Submitting fast): many tasks over one stream, admitted one by one."""

import asyncio

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1.task_pb2 import SubmitTaskRequest, SubmitTasksRequest, SubmitTasksResponse, Task

METHOD = "/taskyard.v1.TaskService/SubmitTasks"


def ask(**fields):
    """One task of a message, with an agent and an action unless a test names them."""
    return SubmitTaskRequest(**{"agent_id": "ann", "action": "click", **fields})


def message(*tasks):
    return SubmitTasksRequest(tasks=tasks)


async def exchange(api, *messages, metadata=None):
    """Send all messages, half-close, and read all answers."""
    call = api.tasks.SubmitTasks(iter(messages), metadata=metadata)
    return [answer async for answer in call]


async def outcomes(api, *tasks, metadata=None):
    """The outcomes of one message."""
    (answer,) = await exchange(api, message(*tasks), metadata=metadata)
    return list(answer.outcomes)


def verdicts(answer):
    """For each outcome `accepted`, or the code of its error."""
    return [each.error.code if each.HasField("error") else each.WhichOneof("outcome") for each in answer]


async def ids(api, **filters):
    return [task.task_id for task in (await api.list_tasks(**filters)).tasks]


# Order


async def test_each_message_is_answered_in_order_and_each_task_in_its_place(api):
    sizes = [3, 1, 0, 5, 2]
    messages = [
        message(*(ask(action=f"a-{number}-{place}") for place in range(size))) for number, size in enumerate(sizes)
    ]
    answers = await exchange(api, *messages)
    assert [len(answer.outcomes) for answer in answers] == sizes
    accepted = [each.accepted.task_id for answer in answers for each in answer.outcomes]
    listed = (await api.list_tasks()).tasks
    assert [task.task_id for task in listed] == accepted
    assert [task.action for task in listed] == [task.action for each in messages for task in each.tasks]


async def test_an_accepted_task_is_answered_as_by_submit_task(api):
    alone = await api.submit()
    (outcome,) = await outcomes(api, ask())
    assert outcome.accepted.DESCRIPTOR is alone.DESCRIPTOR
    assert outcome.accepted.task_id.startswith("tsk_")
    assert Task.State.Name(outcome.accepted.state) == "queued"
    assert (alone.position, outcome.accepted.position) == (1, 2)
    assert outcome.accepted.created_at == (await api.get(outcome.accepted.task_id)).created_at
    assert not outcome.HasField("rejected_task_id")


async def test_all_fields_of_a_task_arrive(api):
    deadline = Timestamp(seconds=int(api.engine.now()) + 500)
    given = ask(
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
    (outcome,) = await outcomes(api, given)
    task = await api.get(outcome.accepted.task_id)
    for field, value in given.ListFields():
        assert getattr(task, field.name) == value, field.name


async def test_one_message_may_carry_tasks_of_any_agents(api):
    await outcomes(api, ask(agent_id="ann"), ask(agent_id="bob"), ask(agent_id="ann"))
    assert [len(await ids(api, agent_id=agent)) for agent in ("ann", "bob")] == [2, 1]


async def test_the_namespace_and_the_trace_are_those_of_the_calls_metadata(api):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    metadata = (("taskyard-namespace", "other"), ("traceparent", trace))
    (outcome,) = await outcomes(api, ask(), metadata=metadata)
    assert not await ids(api)
    assert await ids(api, metadata=metadata[:1]) == [outcome.accepted.task_id]
    assert (await api.get(outcome.accepted.task_id, metadata=metadata[:1])).traceparent == trace


# Refusals


def deep():
    value = Value(number_value=1)
    for _ in range(31):
        value = Value(struct_value=Struct(fields={"in": value}))
    return value.struct_value


BAD = {
    "no agent": (ask(agent_id=""), "bad_request"),
    "no action": (ask(action=""), "bad_request"),
    "a deadline in the past": (ask(deadline=Timestamp(seconds=1)), "bad_request"),
    "a callback that is no URL": (ask(callback_url="ftp://x"), "bad_request"),
    "a trace that is none": (ask(traceparent="x"), "bad_request"),
    "params too large": (ask(params=Struct(fields={"x": Value(string_value="x" * 262_144)})), "too_large"),
    "params too deep": (ask(params=deep()), "bad_request"),
}


@pytest.mark.parametrize("what", BAD)
async def test_a_refusal_touches_neither_its_neighbours_nor_the_stream(api, what):
    bad, code = BAD[what]
    first, second = await exchange(api, message(ask(), bad, ask()), message(ask()))
    assert verdicts(first.outcomes) == ["accepted", code, "accepted"]
    assert verdicts(second.outcomes) == ["accepted"]
    assert first.outcomes[1].error.error
    assert not first.outcomes[1].HasField("rejected_task_id")
    assert len(await ids(api)) == 3


async def test_a_malformed_option_is_an_outcome_too(api):
    answer = await outcomes(api, ask(target="a\nb"), ask(retry_policy={"max_attempts": 0}), ask(target="t"))
    assert [each.error.error for each in answer] == [
        "target: must not hold control characters",
        "retryPolicy.maxAttempts: must be at least 1",
        "",
    ]


async def test_a_refused_task_is_told_as_submit_task_tells_it(api, refused, by_rest):
    alone = await refused(api.submit(agent_id="", metadata=by_rest))
    (outcome,) = await outcomes(api, ask(agent_id=""))
    assert {"code": outcome.error.code, "error": outcome.error.error} == alone.rest_body


async def test_a_task_for_which_there_is_no_room_names_the_task_that_is_kept(start_api):
    api = await start_api(max_queue_size=2)
    answer = await outcomes(api, *[ask(action=f"a{number}") for number in range(4)])
    assert verdicts(answer) == ["accepted", "accepted", "queue_full", "queue_full"]
    assert answer[2].rejected_task_id != answer[3].rejected_task_id
    for place in (2, 3):
        task = await api.get(answer[place].rejected_task_id)
        assert (Task.State.Name(task.state), task.action) == ("rejected", f"a{place}")
        assert task.error == answer[place].error.error == "rejected: global queue full"
        assert answer[place].error.retryable
        assert MessageToDict(answer[place].error.details) == {
            "agentId": "ann",
            "queued": 2,
            "maxQueue": 2,
            "maxPerAgent": 100,
        }


async def test_admission_is_task_by_task(start_api):
    api = await start_api(max_per_agent=1)
    answer = await outcomes(api, ask(), ask(), ask(agent_id="bob"), ask(agent_id=""), ask(agent_id="cid"))
    assert verdicts(answer) == ["accepted", "queue_full", "accepted", "bad_request", "accepted"]
    assert answer[1].error.error == "rejected: agent queue full"


async def test_room_that_is_made_between_two_messages_is_used(start_api):
    api = await start_api(max_queue_size=1)
    call = api.tasks.SubmitTasks()
    await call.write(message(ask(), ask()))
    first = await call.read()
    assert verdicts(first.outcomes) == ["accepted", "queue_full"]
    await api.claim()
    await call.write(message(ask()))
    assert verdicts((await call.read()).outcomes) == ["accepted"]
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK


async def test_while_draining_each_task_is_unavailable_and_may_be_tried_again(api):
    api.engine.admin.drain()
    answer = await outcomes(api, ask(), ask())
    assert verdicts(answer) == ["unavailable", "unavailable"]
    assert all(each.error.retryable for each in answer)
    assert not await ids(api)


# The stream


async def test_an_empty_message_is_answered_by_an_empty_one(api):
    first, second, third = await exchange(api, message(), message(ask()), message())
    assert (first, third) == (SubmitTasksResponse(), SubmitTasksResponse())
    assert verdicts(second.outcomes) == ["accepted"]


async def test_a_stream_without_messages_ends_well(api):
    call = api.tasks.SubmitTasks()
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK


async def test_an_answer_comes_before_the_next_message_is_sent(api):
    call = api.tasks.SubmitTasks()
    for _ in range(3):
        await call.write(message(ask()))
        async with asyncio.timeout(5):
            assert verdicts((await call.read()).outcomes) == ["accepted"]
    await call.done_writing()
    assert await call.code() is grpc.StatusCode.OK


async def test_many_messages_are_taken_before_any_answer_is_read(start_api):
    api = await start_api(max_queue_size=20_000, max_per_agent=20_000)
    call = api.tasks.SubmitTasks()
    for number in range(200):
        await call.write(message(*(ask(action=f"{number}/{place}") for place in range(20))))
    await call.done_writing()
    answers = [answer async for answer in call]
    assert [len(answer.outcomes) for answer in answers] == [20] * 200
    positions = [each.accepted.position for answer in answers for each in answer.outcomes]
    assert positions == list(range(1, 4001))
    assert (await api.stats()).metrics.tasks_submitted == 4000


async def test_streams_at_the_same_time_do_not_mix(start_api):
    api = await start_api(max_queue_size=20_000, max_per_agent=20_000)
    names = [f"agent-{number}" for number in range(8)]
    answers = await asyncio.gather(*(exchange(api, *[message(*[ask(agent_id=name)] * 5)] * 20) for name in names))
    for name, answered in zip(names, answers, strict=True):
        mine = [each.accepted.task_id for answer in answered for each in answer.outcomes]
        assert mine == await ids(api, agent_id=name)
        assert len(mine) == 100


@pytest.mark.parametrize("garbage", [b"\xff\xff\xff", b"\x0a\x05\x0a"])
async def test_a_malformed_message_ends_the_stream_and_what_came_before_stays(api, garbage):
    call = api.channel.stream_stream(METHOD)()
    await call.write(message(ask()).SerializeToString())
    answer = SubmitTasksResponse.FromString(await call.read())
    assert verdicts(answer.outcomes) == ["accepted"]
    await call.write(garbage)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call.read()
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert await ids(api) == [answer.outcomes[0].accepted.task_id]
    assert verdicts(await outcomes(api, ask())) == ["accepted"]


async def test_a_malformed_first_message_ends_the_stream(api):
    call = api.channel.stream_stream(METHOD)()
    await call.write(b"\xff\xff\xff")
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call.read()
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert not await ids(api)


async def test_a_namespace_that_is_none_ends_the_stream(api):
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await exchange(api, message(ask()), metadata=(("taskyard-namespace", "no/such"),))
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_caller_that_goes_away_leaves_what_was_accepted(api, eventually):
    call = api.tasks.SubmitTasks()
    await call.write(message(ask(), ask()))
    await call.read()
    call.cancel()
    assert len(await eventually(lambda: ids(api), len)) == 2
    assert verdicts(await outcomes(api, ask())) == ["accepted"]
