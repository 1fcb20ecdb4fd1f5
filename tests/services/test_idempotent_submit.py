"""Idempotency keys (DESIGN, Idempotent submit): a submission that is repeated answers with the first task."""

import grpc
import pytest
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1.batch_pb2 import BatchTask, GetBatchRequest
from taskyard.v1.task_pb2 import SubmitTaskRequest, SubmitTasksRequest, Task

KEY = "key-1"

# The three doors, each answering the ids of the tasks, or the code of a refusal in an id's place


async def by_submit_task(api, **fields):
    try:
        answer = await api.submit(idempotency_key=KEY, **fields)
    except grpc.aio.AioRpcError as error:
        return error.code().name.lower()
    return answer.task_id


async def by_submit_batch(api, agent_id="ann", callback_url=None, **fields):
    task = BatchTask(**{"action": "click", "idempotency_key": KEY, **fields})
    answer = await api.submit_batch(task, agent_id=agent_id, callback_url=callback_url)
    (outcome,) = answer.tasks
    return outcome.error.code if outcome.HasField("error") else outcome.task_id


async def by_submit_tasks(api, **fields):
    (outcome,) = await stream(api, **fields)
    return outcome.error.code if outcome.HasField("error") else outcome.accepted.task_id


async def stream(api, **fields):
    asked = SubmitTaskRequest(**{"agent_id": "ann", "action": "click", "idempotency_key": KEY, **fields})
    call = api.tasks.SubmitTasks(iter([SubmitTasksRequest(tasks=[asked])]))
    (answer,) = [answer async for answer in call]
    return answer.outcomes


DOORS = [by_submit_task, by_submit_batch, by_submit_tasks]


def struct(order):
    """The same object, its keys written in another order, on two levels."""
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


@pytest.mark.parametrize("again", DOORS)
@pytest.mark.parametrize("first", DOORS)
async def test_the_same_key_of_the_same_agent_answers_the_first_task_through_every_door(api, first, again):
    task_id = await first(api)
    assert task_id.startswith("tsk_")
    assert [await again(api) for _ in range(3)] == [task_id] * 3
    assert len((await api.list_tasks()).tasks) == 1


@pytest.mark.parametrize("again", DOORS)
@pytest.mark.parametrize("first", DOORS)
async def test_a_full_body_is_the_same_through_every_door(api, first, again):
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
    }
    task_id = await first(api, **body)
    assert await again(api, **{**body, "params": struct([2, 0, 1]), "labels": {"b": "2", "a": "1"}}) == task_id


@pytest.mark.parametrize("again", DOORS)
async def test_another_agents_same_key_is_another_task(api, again):
    task_id = await by_submit_task(api)
    other = await again(api, agent_id="bob")
    assert other.startswith("tsk_")
    assert other != task_id


async def test_another_namespaces_same_key_is_another_task(api):
    metadata = (("taskyard-namespace", "other"),)
    here = (await api.submit(idempotency_key=KEY)).task_id
    there = (await api.submit(idempotency_key=KEY, metadata=metadata)).task_id
    assert here != there


async def test_another_key_is_another_task(api):
    answers = [await api.submit(idempotency_key=key) for key in ("a", "b", "A", "a ")]
    assert len({answer.task_id for answer in answers}) == 4


@pytest.mark.parametrize("key", [None, ""])
async def test_without_a_key_each_submission_is_a_task(api, key):
    answers = [await api.submit(idempotency_key=key) for _ in range(3)]
    assert len({answer.task_id for answer in answers}) == 3


async def test_the_key_is_shown_on_the_task(api):
    keyed, plain = await api.submit(idempotency_key=KEY), await api.submit()
    assert (await api.get(keyed.task_id)).idempotency_key == KEY
    assert not (await api.get(plain.task_id)).HasField("idempotency_key")


# Another body

DIFFERENT = [
    {"action": "type"},
    {"tab_id": "tab"},
    {"ref": "e2"},
    {"params": Struct(fields={"x": Value(number_value=2)})},
    {"priority": 1},
    {"callback_url": "https://example.com/cb"},
    {"project": "p"},
    {"requires": ["gpu"]},
    {"labels": {"a": "b"}},
]


@pytest.mark.parametrize("again", DOORS)
@pytest.mark.parametrize("change", DIFFERENT, ids=lambda change: next(iter(change)))
async def test_the_same_key_with_another_body_is_already_taken(api, again, change):
    task_id = await by_submit_task(api)
    assert await again(api, **change) == "already_exists"
    assert await again(api) == task_id
    assert len((await api.list_tasks()).tasks) == 1


async def test_a_key_that_is_taken_is_told_as_already_exists(api, refused, by_rest):
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


async def test_the_order_in_which_the_bytes_came_does_not_matter(api):
    one = Struct(fields={"a": Value(number_value=1)}).SerializeToString()
    two = Struct(fields={"b": Value(number_value=2)}).SerializeToString()
    head = SubmitTaskRequest(agent_id="ann", action="click", idempotency_key=KEY).SerializeToString()

    def raw(params):
        return head + bytes([0x2A, len(params)]) + params

    submit = api.channel.unary_unary("/taskyard.v1.TaskService/SubmitTask")
    assert await submit(raw(one + two)) == await submit(raw(two + one))


async def test_the_order_of_a_list_matters(api):
    def params(*numbers):
        whole = Struct()
        whole.fields["list"].list_value.values.extend(Value(number_value=number) for number in numbers)
        return whole

    await by_submit_task(api, params=params(1, 2))
    assert await by_submit_task(api, params=params(2, 1)) == "already_exists"


# What a repeat answers


@pytest.mark.parametrize("again", DOORS)
@pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
async def test_a_repeat_answers_the_first_task_also_after_it_ended(api, again, end):
    task_id = await by_submit_task(api)
    if end == "cancel":
        await api.cancel(task_id)
    else:
        (lease,) = await api.claim()
        await getattr(api, end)(lease)
    ended = await api.get(task_id)
    assert await again(api) == task_id
    assert await api.get(task_id) == ended


async def test_a_repeat_answers_the_state_of_the_first_task_and_its_own_figures(api):
    first = await api.submit(idempotency_key=KEY)
    await api.submit()
    leases = await api.claim(2)
    shown = []
    await api.start(leases[0])
    shown.append(await api.submit(idempotency_key=KEY))
    await api.complete(leases[0])
    shown.append(await api.submit(idempotency_key=KEY))
    shown.append((await stream(api))[0].accepted)
    assert [Task.State.Name(answer.state) for answer in shown] == ["running", "done", "done"]
    assert {answer.position for answer in shown} == {first.position}
    assert {answer.created_at.ToNanoseconds() for answer in shown} == {first.created_at.ToNanoseconds()}


async def test_a_repeat_is_answered_though_its_deadline_has_passed_since(start_api, clock):
    api = await start_api(clock=clock)
    body = {"deadline": Timestamp(seconds=int(clock.now) + 30)}
    task_id = await by_submit_task(api, **body)
    await api.claim()
    clock.now += 40
    assert [await again(api, **body) for again in DOORS] == [task_id] * 3


async def test_a_repeat_is_answered_though_there_is_no_room(start_api):
    api = await start_api(max_queue_size=1)
    task_id = await by_submit_task(api)
    assert [await again(api) for again in DOORS] == [task_id] * 3
    assert (await api.stats()).metrics.tasks_rejected == 0


async def test_repeats_are_answered_while_draining(api, refused):
    task_id = await by_submit_task(api)
    api.engine.admin.drain()
    assert [await again(api) for again in DOORS] == [task_id] * 3
    assert (await refused(api.submit(idempotency_key="new"))).code == "unavailable"
    assert (await refused(api.submit(idempotency_key=KEY, action="type"))).code == "already_exists"


async def test_a_batch_with_anything_new_is_unavailable_while_draining(api, refused):
    await by_submit_task(api)
    api.engine.admin.drain()
    tasks = [BatchTask(action="click", idempotency_key=KEY), BatchTask(action="click")]
    assert (await refused(api.submit_batch(*tasks))).code == "unavailable"


async def test_counters_count_a_repeated_submission_once(api):
    for again in DOORS * 2:
        await again(api)
    stats = await api.stats()
    assert stats.metrics.tasks_submitted == 1
    assert stats.metrics.agents["ann"].submitted == 1
    assert stats.queue.total_queued == 1
    assert stats.queue.agent_counts == {"ann": 1}


# When a key is free


@pytest.mark.parametrize("again", DOORS)
async def test_a_rejection_consumes_no_key(start_api, again):
    api = await start_api(max_queue_size=1)
    await api.submit()
    assert await by_submit_task(api) == "resource_exhausted"
    assert await by_submit_tasks(api, action="type") == "queue_full"
    await api.claim()
    task_id = await again(api)
    assert task_id.startswith("tsk_")
    assert Task.State.Name((await api.get(task_id)).state) == "queued"
    assert await again(api) == task_id


@pytest.mark.parametrize("again", DOORS)
async def test_a_malformed_submission_consumes_no_key(api, refused, again):
    await refused(api.submit(idempotency_key=KEY, deadline=Timestamp(seconds=1)))
    assert (await again(api)).startswith("tsk_")


@pytest.mark.parametrize("again", DOORS)
async def test_after_the_task_is_evicted_its_key_is_free(start_api, again):
    api = await start_api(max_retained_tasks=1)
    task_id = await by_submit_task(api)
    await api.cancel(task_id)
    assert await again(api) == task_id
    await api.cancel((await api.submit()).task_id)
    other = await again(api, action="type")
    assert other.startswith("tsk_")
    assert other != task_id
    assert await again(api, action="type") == other


async def test_after_its_time_to_live_the_key_is_free(start_api, eventually):
    api = await start_api(result_ttl_secs=0.05)
    task_id = await by_submit_task(api)
    await api.cancel(task_id)
    await eventually(lambda: api.list_tasks(), lambda answer: not answer.tasks)
    assert await by_submit_task(api) != task_id


async def test_the_eviction_of_a_rejected_task_leaves_the_key_of_its_successor(start_api):
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


async def test_a_batch_of_repeats_only_answers_the_first_tasks(api):
    tasks = [BatchTask(action="click", idempotency_key=key) for key in ("a", "b")]
    first = await api.submit_batch(*tasks)
    again = await api.submit_batch(*tasks)
    assert [task.task_id for task in again.tasks] == [task.task_id for task in first.tasks]
    assert again.submitted == 2
    assert again.batch_id.startswith("bat_")
    batch = await api.batches.GetBatch(GetBatchRequest(batch_id=first.batch_id))
    assert [task.task_id for task in batch.tasks] == [task.task_id for task in first.tasks]
    assert {task.batch_id for task in (await api.list_tasks()).tasks} == {first.batch_id}


async def test_a_batch_that_was_cut_short_can_be_repeated_whole(start_api):
    api = await start_api(max_queue_size=2)
    tasks = [BatchTask(action="click", idempotency_key=key) for key in "abc"]
    first = (await api.submit_batch(*tasks)).tasks
    assert [Task.State.Name(task.state) for task in first] == ["queued", "queued", "rejected"]
    await api.claim()
    again = (await api.submit_batch(*tasks)).tasks
    assert [Task.State.Name(task.state) for task in again] == ["assigned", "queued", "queued"]
    assert [task.task_id for task in again[:2]] == [task.task_id for task in first[:2]]


async def test_a_key_twice_in_one_batch_is_one_task(api):
    tasks = [BatchTask(action=action, idempotency_key=KEY) for action in ("click", "click", "type")]
    first, same, other = (await api.submit_batch(*tasks)).tasks
    assert first.task_id == same.task_id
    assert other.error.code == "already_exists"
    assert not other.HasField("task_id")
    assert len((await api.list_tasks()).tasks) == 1


async def test_a_key_twice_in_one_message_of_a_stream_is_one_task(api):
    asked = [
        SubmitTaskRequest(agent_id="ann", action=action, idempotency_key=KEY) for action in ("click", "click", "type")
    ]
    call = api.tasks.SubmitTasks(iter([SubmitTasksRequest(tasks=asked)]))
    (answer,) = [answer async for answer in call]
    first, same, other = answer.outcomes
    assert first.accepted.task_id == same.accepted.task_id
    assert other.error.code == "already_exists"
    assert not other.HasField("rejected_task_id")


async def test_a_key_that_is_too_long_or_holds_control_characters_is_refused(api, refused):
    for key in ("x" * 1025, "a\nb"):
        assert (await refused(api.submit(idempotency_key=key))).code == "bad_request"
    assert (await api.submit(idempotency_key="x" * 1024)).task_id
