"""Inputs and outputs of typed actions, which the server keeps as they are (docs/rules.md, Payloads)."""

import grpc
import pytest
from google.protobuf.struct_pb2 import Struct

from taskyard.v1.batch_pb2 import BatchTask, GetBatchRequest
from taskyard.v1.schedule_pb2 import CreateScheduleRequest, GetScheduleRequest, TaskTemplate, TriggerScheduleRequest
from taskyard.v1.task_pb2 import Payload, SubmitTaskRequest, SubmitTasksRequest
from taskyard_server.conversion.payload import MAX_DEPTH
from tests import reporting

EXACT = Payload(data=b"[9007199254740993]")
ENCODED = Payload(data=b"\x00\xff", encoding="fernet")


def nested(levels: int) -> bytes:
    return b"[" * levels + b'{"]":1}' + b"]" * levels


def text_params(length: int) -> Struct:
    params = Struct()
    params["text"] = "x" * length
    return params


# What comes back


@pytest.mark.parametrize("given", [EXACT, ENCODED, Payload(encoding="empty"), Payload(data=b"null")])
async def test_an_input_comes_back_byte_by_byte(api, given):
    assert (await api.get((await api.submit(input=given)).task_id)).input == given


async def test_it_may_stand_beside_params(api):
    task = await api.get((await api.submit(input=EXACT, params=text_params(1))).task_id)
    assert (task.input, task.params) == (EXACT, text_params(1))


async def test_it_comes_with_tasks_of_batches_and_streams(api):
    batch = await api.submit_batch(BatchTask(action="click", input=EXACT))
    shown = await api.batches.GetBatch(GetBatchRequest(batch_id=batch.batch_id))
    assert shown.tasks[0].input == EXACT
    task = SubmitTaskRequest(agent_id="ann", action="click", input=ENCODED)
    (answer,) = [each async for each in api.tasks.SubmitTasks(iter([SubmitTasksRequest(tasks=[task])]))]
    assert (await api.get(answer.outcomes[0].accepted.task_id)).input == ENCODED


async def test_it_comes_with_the_tasks_of_a_schedule(api):
    template = TaskTemplate(agent_id="ann", action="click", input=EXACT, run_timeout_ms=1500)
    create = CreateScheduleRequest(schedule_id="s", interval="1h", task=template)
    first = await api.schedules.CreateSchedule(create)
    assert await api.schedules.CreateSchedule(create) == first, "a repeat is recognized"
    shown = (await api.schedules.GetSchedule(GetScheduleRequest(schedule_id="s"))).schedule.task
    assert (shown.input, shown.run_timeout_ms) == (EXACT, 1500)
    fired = (await api.schedules.TriggerSchedule(TriggerScheduleRequest(schedule_id="s"))).trigger
    task = await api.get(fired.task_id)
    assert (task.input, task.run_timeout_ms) == (EXACT, 1500)


async def test_an_output_is_shown_and_told_to_watches_whereas_an_input_is_not_told(api):
    task_id = (await api.submit(input=EXACT)).task_id
    (lease,) = await api.claim()
    watch = api.watch(task_ids=[task_id], until_ended=True, include_current=True)
    events = [await watch.read(), await watch.read()]
    await reporting.complete(
        api.engine, "default", "host", task_id, lease.token, None, output=ENCODED.SerializeToString()
    )
    while (message := await watch.read()) is not grpc.aio.EOF:
        events.append(message)
    told = [event.task for message in events for event in message.events]
    assert told[-1].output == ENCODED
    assert not any(task.HasField("input") for task in told)
    assert (await api.get(task_id)).output == ENCODED


# What is refused


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (Payload(), "input.data: must be JSON in UTF-8 without an encoding: "),
        (Payload(data=b"{'a': 1}"), "input.data: must be JSON in UTF-8 without an encoding: "),
        (Payload(data=b"NaN"), "input.data: must be JSON in UTF-8 without an encoding: "),
        (Payload(data=b'"\xff"'), "input.data: must be JSON in UTF-8 without an encoding: "),
        (Payload(data=b"1 2"), "input.data: must be JSON in UTF-8 without an encoding: "),
        (Payload(data=nested(MAX_DEPTH)), f"input.data: must not nest deeper than {MAX_DEPTH} levels"),
        (Payload(data=b"[" * 100_000), f"input.data: must not nest deeper than {MAX_DEPTH} levels"),
        (Payload(data=b"1", encoding=" "), "input.encoding: must not be blank"),
        (Payload(data=b"1", encoding="x" * 65), "input.encoding: must be at most 64 characters"),
        (Payload(data=b"1", encoding="a\nb"), "input.encoding: must not hold control characters"),
    ],
)
async def test_an_input_that_is_wrong_is_refused_by_name(api, refused, given, problem):
    refusal = await refused(api.submit(input=given))
    assert refusal.code == "bad_request"
    assert refusal.message.startswith(problem)
    assert not (await api.list_tasks()).tasks


async def test_in_a_batch_the_place_is_named_too(api, refused):
    refusal = await refused(api.submit_batch(BatchTask(action="click"), BatchTask(action="click", input=Payload())))
    assert refusal.message.startswith("tasks[1].input.data: must be JSON")


async def test_json_may_nest_as_deep_as_params_and_brackets_in_texts_do_not_count(api):
    for data in (nested(MAX_DEPTH - 1), b'"%s"' % (b"[" * 1000)):
        assert (await api.submit(input=Payload(data=data))).task_id


async def test_params_and_input_share_one_limit(start_api, refused):
    params = text_params(10)
    api = await start_api(max_payload_bytes=params.ByteSize() + EXACT.ByteSize())
    await api.submit(params=params, input=EXACT)
    refusal = await refused(api.submit(params=text_params(11), input=EXACT))
    assert refusal.code == "too_large"
    limit = params.ByteSize() + EXACT.ByteSize()
    assert refusal.message == f"input: must be at most {limit} bytes together with params, is {limit + 1}"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"run_timeout_ms": 0}, "runTimeoutMs: must be at least 1"),
        ({"parent_id": " "}, "parentId: must not be blank"),
        ({"parent_id": "x" * 1025}, "parentId: must be at most 1024 characters"),
    ],
)
async def test_a_run_timeout_and_a_parent_are_checked(api, refused, fields, problem):
    refusal = await refused(api.submit(**fields))
    assert (refusal.code, refusal.message) == ("bad_request", problem)


# Repeats under a key


async def key_of(api, refused, **fields):
    """Submit under one key; the id of the task, or the code of the refusal."""
    call = api.submit(idempotency_key="k", **fields)
    try:
        return (await call).task_id
    except Exception:
        return (await refused(call)).code


async def test_a_repeat_has_the_same_input(api, refused):
    first = await key_of(api, refused, input=EXACT)
    assert await key_of(api, refused, input=Payload(data=EXACT.data, encoding="")) == first
    assert await key_of(api, refused, input=Payload(data=b"[1]")) == "already_exists"
    assert await key_of(api, refused) == "already_exists"


async def test_what_a_codec_made_is_not_compared_since_it_may_differ_each_time(api, refused):
    first = await key_of(api, refused, input=Payload(data=b"1", encoding="fernet"))
    assert await key_of(api, refused, input=Payload(data=b"2", encoding="fernet")) == first
    assert await key_of(api, refused, input=Payload(data=b"1", encoding="other")) == "already_exists"


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ({"run_timeout_ms": 1}, {"run_timeout_ms": 2}),
        ({"parent_id": "a"}, {"parent_id": "b"}),
        ({"parent_id": "a"}, {}),
    ],
)
async def test_a_repeat_has_the_same_run_timeout_and_parent(api, refused, first, other):
    await key_of(api, refused, **first)
    assert await key_of(api, refused, **other) == "already_exists"
