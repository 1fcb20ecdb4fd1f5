"""Idempotency keys (docs/rules.md, Idempotency): a repeated submission returns the first task."""

import grpc
import pytest
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1.batch_pb2 import BatchTask, GetBatchRequest
from taskyard.v1.task_pb2 import Parent, SubmitTaskRequest, SubmitTasksRequest, Task, Unique
from tests.cases import every_case

KEY = "key-1"

# The three ways to submit. Each returns the id of the task, or the code of its refusal.


async def by_submit_task(api, **fields):
    try:
        response = await api.submit(idempotency_key=KEY, **fields)
    except grpc.aio.AioRpcError as error:
        return error.code().name.lower()
    return response.task_id


async def by_submit_batch(api, agent_id="ann", callback_url=None, **fields):
    task = BatchTask(**{"action": "click", "idempotency_key": KEY, **fields})
    response = await api.submit_batch(task, agent_id=agent_id, callback_url=callback_url)
    (outcome,) = response.tasks
    return outcome.error.code if outcome.HasField("error") else outcome.task_id


async def by_submit_tasks(api, **fields):
    (outcome,) = await submit_over_a_stream(api, **fields)
    return outcome.error.code if outcome.HasField("error") else outcome.accepted.task_id


async def submit_over_a_stream(api, **fields):
    task = SubmitTaskRequest(**{"agent_id": "ann", "action": "click", "idempotency_key": KEY, **fields})
    call = api.tasks.SubmitTasks(iter([SubmitTasksRequest(tasks=[task])]))
    (response,) = [response async for response in call]
    return response.outcomes


METHODS = [by_submit_task, by_submit_batch, by_submit_tasks]


def struct(order):
    """An object on two levels, with its keys in a given order."""
    pairs = [("a", Value(number_value=1)), ("b", Value(string_value="x")), ("c", Value(null_value=0))]
    inner = Struct()
    outer = Struct()
    for place in order:
        name, value = pairs[place]
        inner.fields[name].CopyFrom(value)
    outer.fields["list"].list_value.values.add().struct_value.CopyFrom(inner)
    for place in order:
        name, value = pairs[place]
        outer.fields[name].CopyFrom(value)
    return outer


@pytest.mark.parametrize("resubmit", METHODS)
@pytest.mark.parametrize("first", METHODS)
async def test_the_same_key_of_an_agent_returns_the_first_task_by_every_method(api, first, resubmit):
    task_id = await first(api)
    assert task_id.startswith("tsk_")
    assert [await resubmit(api) for _ in range(3)] == [task_id] * 3
    assert len((await api.list_tasks()).tasks) == 1


@pytest.mark.parametrize("resubmit", METHODS)
@pytest.mark.parametrize("first", METHODS)
async def test_a_task_with_all_fields_is_the_same_by_every_method(api, first, resubmit):
    body = {
        "tab_id": "tab",
        "ref": "e1",
        "params": struct([0, 1, 2]),
        "priority": 2,
        "deadline": Timestamp(seconds=int(api.engine.now()) + 500, nanos=5),
        "callback_url": "https://example.com/cb",
        "project": "p",
        "requires": ["gpu"],
        "labels": {"a": "1", "b": "2"},
        "target": "shop",
        "concurrency_keys": ["site:a", "site:b"],
        "unique_key": "night",
        "on_target_failure": "continue",
        "parent_id": "tsk_1",
    }
    task_id = await first(api, **body)
    again = {
        "params": struct([2, 0, 1]),
        "labels": {"b": "2", "a": "1"},
        "concurrency_keys": ["site:b", "site:a", "site:b"],
        "unique_while": Unique.live,
        "on_conflict": Unique.existing,
        "on_parent_end": Parent.keep,
    }
    assert await resubmit(api, **{**body, **again}) == task_id


@pytest.mark.parametrize("resubmit", METHODS)
async def test_the_same_key_of_another_agent_is_another_task(api, resubmit):
    task_id = await by_submit_task(api)
    other = await resubmit(api, agent_id="bob")
    assert other.startswith("tsk_")
    assert other != task_id


async def test_the_same_key_in_another_namespace_is_another_task(api):
    metadata = (("taskyard-namespace", "other"),)
    here = (await api.submit(idempotency_key=KEY)).task_id
    there = (await api.submit(idempotency_key=KEY, metadata=metadata)).task_id
    assert here != there


async def test_another_key_is_another_task(api):
    responses = [await api.submit(idempotency_key=key) for key in ("a", "b", "A", "a ")]
    assert len({response.task_id for response in responses}) == 4


@pytest.mark.parametrize("key", [None, ""])
async def test_each_submission_without_a_key_is_another_task(api, key):
    responses = [await api.submit(idempotency_key=key) for _ in range(3)]
    assert len({response.task_id for response in responses}) == 3


async def test_the_key_is_shown_on_the_task(api):
    keyed, plain = await api.submit(idempotency_key=KEY), await api.submit()
    assert (await api.get(keyed.task_id)).idempotency_key == KEY
    assert not (await api.get(plain.task_id)).HasField("idempotency_key")


# Different tasks

DIFFERENT_FIELDS = [
    {"action": "type"},
    {"tab_id": "tab"},
    {"ref": "e2"},
    {"params": Struct(fields={"x": Value(number_value=2)})},
    {"priority": 1},
    {"callback_url": "https://example.com/cb"},
    {"project": "p"},
    {"requires": ["gpu"]},
    {"labels": {"a": "b"}},
    {"concurrency_keys": ["site:a"]},
    {"unique_key": "night"},
    {"unique_key": "night", "on_conflict": Unique.reject},
    {"target": "shop", "on_target_failure": "block"},
    {"selector": "#btn"},
    {"parent_id": "tsk_1", "on_parent_end": Parent.cancel},
]


@every_case("resubmit", METHODS)
@every_case("change", DIFFERENT_FIELDS, ids=lambda change: next(iter(change)))
async def test_the_same_key_with_a_different_task_already_exists(api, resubmit, change):
    task_id = await by_submit_task(api)
    assert await resubmit(api, **change) == "already_exists"
    assert await resubmit(api) == task_id
    assert len((await api.list_tasks()).tasks) == 1


async def test_a_used_key_is_refused_as_already_exists(api, refused, by_rest):
    await api.submit(idempotency_key=KEY)
    refusal = await refused(api.submit(idempotency_key=KEY, action="type", metadata=by_rest))
    assert refusal.status is grpc.StatusCode.ALREADY_EXISTS
    assert refusal.trailers["x-http-status"] == "409"
    assert refusal.rest_body["code"] == "already_exists"
    assert "idempotencyKey" in refusal.rest_body["error"]


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
async def test_the_order_of_keys_in_params_does_not_matter(api, order):
    task_id = await by_submit_task(api, params=struct([0, 1, 2]))
    assert await by_submit_task(api, params=struct(order)) == task_id


async def test_the_order_of_the_encoded_params_does_not_matter(api):
    one = Struct(fields={"a": Value(number_value=1)}).SerializeToString()
    two = Struct(fields={"b": Value(number_value=2)}).SerializeToString()
    prefix = SubmitTaskRequest(agent_id="ann", action="click", idempotency_key=KEY).SerializeToString()

    def raw(params):
        return prefix + bytes([0x2A, len(params)]) + params

    submit = api.channel.unary_unary("/taskyard.v1.TaskService/SubmitTask")
    assert await submit(raw(one + two)) == await submit(raw(two + one))


async def test_the_order_of_a_list_matters(api):
    def params(*numbers):
        params_struct = Struct()
        params_struct.fields["list"].list_value.values.extend(Value(number_value=number) for number in numbers)
        return params_struct

    await by_submit_task(api, params=params(1, 2))
    assert await by_submit_task(api, params=params(2, 1)) == "already_exists"


# Responses to repeated submissions


@pytest.mark.parametrize("resubmit", METHODS)
@pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
async def test_a_repeated_submission_returns_the_first_task_also_after_its_end(api, resubmit, end):
    task_id = await by_submit_task(api)
    if end == "cancel":
        await api.cancel(task_id)
    else:
        (lease,) = await api.claim()
        await getattr(api, end)(lease)
    ended = await api.get(task_id)
    assert await resubmit(api) == task_id
    assert await api.get(task_id) == ended


async def test_a_repeated_submission_returns_the_current_state_and_first_position_of_the_task(api):
    first = await api.submit(idempotency_key=KEY)
    await api.submit()
    leases = await api.claim(2)
    responses = []
    await api.start(leases[0])
    responses.append(await api.submit(idempotency_key=KEY))
    await api.complete(leases[0])
    responses.append(await api.submit(idempotency_key=KEY))
    responses.append((await submit_over_a_stream(api))[0].accepted)
    assert [Task.State.Name(response.state) for response in responses] == ["running", "done", "done"]
    assert {response.position for response in responses} == {first.position}
    assert {response.created_at.ToNanoseconds() for response in responses} == {first.created_at.ToNanoseconds()}


async def test_a_repeated_submission_is_accepted_after_its_deadline(start_api, clock):
    api = await start_api(clock=clock)
    body = {"deadline": Timestamp(seconds=int(clock.now) + 30)}
    task_id = await by_submit_task(api, **body)
    await api.claim()
    clock.now += 40
    assert [await resubmit(api, **body) for resubmit in METHODS] == [task_id] * 3


async def test_a_repeated_submission_is_accepted_when_the_queue_is_full(start_api):
    api = await start_api(max_queue_size=1)
    task_id = await by_submit_task(api)
    assert [await resubmit(api) for resubmit in METHODS] == [task_id] * 3
    assert (await api.stats()).metrics.tasks_rejected == 0


async def test_repeated_submissions_are_accepted_while_draining(api, refused):
    task_id = await by_submit_task(api)
    api.engine.admin.drain()
    assert [await resubmit(api) for resubmit in METHODS] == [task_id] * 3
    assert (await refused(api.submit(idempotency_key="new"))).code == "unavailable"
    assert (await refused(api.submit(idempotency_key=KEY, action="type"))).code == "already_exists"


async def test_a_batch_with_a_new_task_is_unavailable_while_draining(api, refused):
    await by_submit_task(api)
    api.engine.admin.drain()
    tasks = [BatchTask(action="click", idempotency_key=KEY), BatchTask(action="click")]
    assert (await refused(api.submit_batch(*tasks))).code == "unavailable"


async def test_counters_count_a_repeated_submission_once(api):
    for resubmit in METHODS * 2:
        await resubmit(api)
    stats = await api.stats()
    assert stats.metrics.tasks_submitted == 1
    assert stats.metrics.agents["ann"].submitted == 1
    assert stats.queue.total_queued == 1
    assert stats.queue.agent_counts == {"ann": 1}


# When a key can be used again


@pytest.mark.parametrize("resubmit", METHODS)
async def test_a_rejected_task_does_not_use_its_key(start_api, resubmit):
    api = await start_api(max_queue_size=1)
    await api.submit()
    assert await by_submit_task(api) == "resource_exhausted"
    assert await by_submit_tasks(api, action="type") == "queue_full"
    await api.claim()
    task_id = await resubmit(api)
    assert task_id.startswith("tsk_")
    assert Task.State.Name((await api.get(task_id)).state) == "queued"
    assert await resubmit(api) == task_id


@pytest.mark.parametrize("resubmit", METHODS)
async def test_an_invalid_submission_does_not_use_its_key(api, refused, resubmit):
    await refused(api.submit(idempotency_key=KEY, deadline=Timestamp(seconds=1)))
    assert (await resubmit(api)).startswith("tsk_")


@pytest.mark.parametrize("resubmit", METHODS)
async def test_the_key_of_an_evicted_task_can_be_used_again(start_api, resubmit):
    api = await start_api(max_retained_tasks=1)
    task_id = await by_submit_task(api)
    await api.cancel(task_id)
    assert await resubmit(api) == task_id
    await api.cancel((await api.submit()).task_id)
    other = await resubmit(api, action="type")
    assert other.startswith("tsk_")
    assert other != task_id
    assert await resubmit(api, action="type") == other


async def test_a_key_can_be_used_again_after_the_ttl_of_its_task(start_api, eventually):
    api = await start_api(result_ttl_secs=0.05)
    task_id = await by_submit_task(api)
    await api.cancel(task_id)
    await eventually(lambda: api.list_tasks(), lambda response: not response.tasks)
    assert await by_submit_task(api) != task_id


@pytest.mark.parametrize("resubmit", METHODS)
@pytest.mark.parametrize("first", METHODS)
async def test_a_key_may_be_known_longer_than_its_task_by_every_method(start_api, eventually, first, resubmit):
    api = await start_api(result_ttl_secs=0.05, idempotency_secs=600)
    task_id = await first(api)
    await api.cancel(task_id)
    await eventually(lambda: api.list_tasks(), lambda response: not response.tasks)
    assert await resubmit(api) == task_id
    assert await resubmit(api, action="type") == "already_exists"
    assert not (await api.list_tasks()).tasks


async def test_the_answer_about_a_task_that_has_left_memory_is_the_one_about_it_as_it_ended(start_api, eventually):
    api = await start_api(result_ttl_secs=0.05, idempotency_secs=600)
    await api.submit()
    await api.submit(idempotency_key=KEY)
    task_id = await by_submit_task(api)
    await api.cancel(task_id)
    ended = await api.submit(idempotency_key=KEY)
    await eventually(lambda: api.list_tasks(state="cancelled"), lambda response: not response.tasks)
    assert await api.submit(idempotency_key=KEY) == ended
    assert (await submit_over_a_stream(api))[0].accepted == ended
    batch = await api.submit_batch(BatchTask(action="click", idempotency_key=KEY))
    assert (batch.tasks[0].task_id, batch.tasks[0].state, batch.tasks[0].position) == (task_id, ended.state, 2)
    assert batch.submitted == 1


async def test_evicting_a_rejected_task_keeps_the_key_of_a_later_one(start_api):
    api = await start_api(max_queue_size=1)
    blocker = (await api.submit()).task_id
    assert await by_submit_task(api) == "resource_exhausted"
    await api.cancel(blocker)
    task_id = await by_submit_task(api)
    assert await by_submit_tasks(api, idempotency_key="another") == "queue_full"
    assert len((await api.list_tasks(state="rejected")).tasks) == 1
    assert await by_submit_task(api) == task_id


async def test_an_explicit_default_is_the_same_submission(api):
    first = await api.submit(idempotency_key="k", requires=["a", "b"])
    second = await api.submit(idempotency_key="k", requires=["b", "a"], priority=0, tab_id="")
    assert first.task_id == second.task_id


# Batches


async def test_a_batch_of_repeated_submissions_returns_the_first_tasks(api):
    tasks = [BatchTask(action="click", idempotency_key=key) for key in ("a", "b")]
    first = await api.submit_batch(*tasks)
    resubmit = await api.submit_batch(*tasks)
    assert [task.task_id for task in resubmit.tasks] == [task.task_id for task in first.tasks]
    assert resubmit.submitted == 2
    assert resubmit.batch_id.startswith("bat_")
    batch = await api.batches.GetBatch(GetBatchRequest(batch_id=first.batch_id))
    assert [task.task_id for task in batch.tasks] == [task.task_id for task in first.tasks]
    assert {task.batch_id for task in (await api.list_tasks()).tasks} == {first.batch_id}


async def test_a_partly_rejected_batch_can_be_repeated(start_api):
    api = await start_api(max_queue_size=2)
    tasks = [BatchTask(action="click", idempotency_key=key) for key in "abc"]
    first = (await api.submit_batch(*tasks)).tasks
    assert [Task.State.Name(task.state) for task in first] == ["queued", "queued", "rejected"]
    await api.claim()
    resubmit = (await api.submit_batch(*tasks)).tasks
    assert [Task.State.Name(task.state) for task in resubmit] == ["assigned", "queued", "queued"]
    assert [task.task_id for task in resubmit[:2]] == [task.task_id for task in first[:2]]


async def test_a_key_twice_in_one_batch_is_one_task(api):
    tasks = [BatchTask(action=action, idempotency_key=KEY) for action in ("click", "click", "type")]
    first, same, other = (await api.submit_batch(*tasks)).tasks
    assert first.task_id == same.task_id
    assert other.error.code == "already_exists"
    assert not other.HasField("task_id")
    assert len((await api.list_tasks()).tasks) == 1


async def test_a_key_twice_in_one_message_of_a_stream_is_one_task(api):
    tasks = [
        SubmitTaskRequest(agent_id="ann", action=action, idempotency_key=KEY) for action in ("click", "click", "type")
    ]
    call = api.tasks.SubmitTasks(iter([SubmitTasksRequest(tasks=tasks)]))
    (response,) = [response async for response in call]
    first, same, other = response.outcomes
    assert first.accepted.task_id == same.accepted.task_id
    assert other.error.code == "already_exists"
    assert not other.HasField("rejected_task_id")


async def test_a_key_that_is_too_long_or_holds_control_characters_is_refused(api, refused):
    for key in ("x" * 1025, "a\nb"):
        assert (await refused(api.submit(idempotency_key=key))).code == "bad_request"
    assert (await api.submit(idempotency_key="x" * 1024)).task_id
