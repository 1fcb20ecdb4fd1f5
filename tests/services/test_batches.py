"""BatchService (docs/rules.md, Batches)."""

import grpc
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1.batch_pb2 import BatchTask, CancelBatchRequest, GetBatchRequest, SubmitBatchRequest
from taskyard.v1.task_pb2 import Unique
from tests.cases import every_case

CLICK = BatchTask(action="click")


def get(api, batch_id, **fields):
    return api.batches.GetBatch(GetBatchRequest(batch_id=batch_id, **fields))


def cancel(api, batch_id):
    return api.batches.CancelBatch(CancelBatchRequest(batch_id=batch_id))


# Submit


async def test_the_documented_request_has_the_documented_response(api):
    request = {
        "agentId": "agent-crawl-01",
        "callbackUrl": "https://example.com/hooks/batch",
        "tasks": [
            {"action": "click", "tabId": "TAB_ID", "params": {"selector": "#btn"}},
            {"action": "scroll", "tabId": "TAB_ID", "params": {"scrollY": 400}},
            {"action": "hover", "tabId": "TAB_ID", "params": {"selector": "h1"}, "priority": 1},
        ],
    }
    response = await api.batches.SubmitBatch(ParseDict(request, SubmitBatchRequest()))
    ids = [task.task_id for task in response.tasks]
    assert MessageToDict(response) == {
        "tasks": [{"taskId": ids[n], "state": "queued", "position": n + 1} for n in range(3)],
        "submitted": 3,
        "batchId": response.batch_id,
    }
    assert len(set(ids)) == 3
    assert response.batch_id.startswith("bat_")


async def test_every_task_has_the_agent_and_callback_of_the_batch(api):
    await api.submit_batch(CLICK, CLICK, agent_id="bob", callback_url="http://example.com/")
    tasks = (await api.list_tasks()).tasks
    assert [(task.agent_id, task.callback_url) for task in tasks] == [("bob", "http://example.com/")] * 2


async def test_a_task_of_a_batch_supports_the_fields_of_a_single_task(api):
    params = Struct()
    params["x"] = 1
    task = BatchTask(
        action="click",
        tab_id="tab",
        ref="e1",
        params=params,
        priority=-3,
        deadline=Timestamp(seconds=4_000_000_000),
        project="red",
        requires=["gpu"],
        labels={"run": "7"},
        target="shop",
        concurrency_keys=["site:a", "site:b"],
        unique_key="shop",
        unique_while=Unique.queued,
        on_target_failure="continue",
        selector="#btn",
    )
    response = await api.submit_batch(task)
    outcomes = await api.get(response.tasks[0].task_id)
    for field, value in task.ListFields():
        assert getattr(outcomes, field.name) == value, field.name
    assert outcomes.batch_id == response.batch_id


async def test_a_batch_can_have_one_to_fifty_tasks(api):
    assert (await api.submit_batch(CLICK)).submitted == 1
    assert (await api.submit_batch(*[CLICK] * 50)).submitted == 50


# Partial failure


async def test_refused_tasks_have_errors_and_the_others_are_submitted(start_api):
    api = await start_api(max_queue_size=2)
    response = await api.submit_batch(*[CLICK] * 4)
    assert response.submitted == 2
    outcomes = [MessageToDict(task) for task in response.tasks]
    assert [task["state"] for task in outcomes] == ["queued", "queued", "rejected", "rejected"]
    assert outcomes[2] == {
        "taskId": response.tasks[2].task_id,
        "state": "rejected",
        "error": {
            "code": "queue_full",
            "error": "rejected: global queue full",
            "retryable": True,
            "retryAfterMs": 1000,
            "details": {"agentId": "ann", "queued": 2.0, "maxQueue": 2.0, "maxPerAgent": 100.0},
        },
    }
    assert (await api.list_tasks(state="rejected")).count == 2


async def test_a_batch_without_an_admitted_task_is_not_an_error(start_api):
    api = await start_api(max_per_agent=1)
    await api.submit()
    response = await api.submit_batch(CLICK, CLICK)
    assert response.HasField("submitted")
    assert response.submitted == 0
    assert [task.error.error for task in response.tasks] == ["rejected: agent queue full"] * 2


async def test_a_batch_can_have_five_hundred_tasks_where_it_is_set_so(start_api, refused):
    api = await start_api(max_batch_size=500, max_queue_size=1000, max_per_agent=1000)
    assert (await api.submit_batch(*[CLICK] * 500)).submitted == 500
    refusal = await refused(api.submit_batch(*[CLICK] * 501))
    assert (refusal.code, refusal.message) == ("batch_too_large", "tasks: must be at most 500, are 501")


# Batch Validation


@pytest.mark.parametrize(
    ("batch", "code", "message"),
    [
        (SubmitBatchRequest(tasks=[CLICK]), "bad_request", "agentId: is required"),
        (SubmitBatchRequest(agent_id="ann"), "bad_request", "tasks: must not be empty"),
        (
            SubmitBatchRequest(agent_id="ann", tasks=[CLICK] * 51),
            "batch_too_large",
            "tasks: must be at most 50, are 51",
        ),
    ],
    ids=["missing agentId", "empty tasks array", "more than 50 tasks"],
)
async def test_an_invalid_batch_is_refused(api, refused, by_rest, batch, code, message):
    refusal = await refused(api.batches.SubmitBatch(batch, metadata=by_rest))
    assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.trailers["x-http-status"] == "400"
    assert refusal.rest_body == {"code": code, "error": message}
    assert (await api.stats()).metrics.tasks_submitted == 0


@every_case(
    ("invalid_task", "message"),
    [
        (BatchTask(), "tasks[2].action: is required"),
        (BatchTask(action="x" * 1025), "tasks[2].action: must be at most 1024 characters"),
        (BatchTask(action="a", tab_id="x" * 1025), "tasks[2].tabId: must be at most 1024 characters"),
        (BatchTask(action="a", ref="x" * 1025), "tasks[2].ref: must be at most 1024 characters"),
        (BatchTask(action="a", project="x" * 1025), "tasks[2].project: must be at most 1024 characters"),
        (BatchTask(action="a", requires=[""]), "tasks[2].requires: is required"),
        (BatchTask(action="a", labels={"": ""}), "tasks[2].labels: is required"),
        (BatchTask(action="a", traceparent="x"), "tasks[2].traceparent: must be a W3C trace context"),
        (BatchTask(action="a", unique_while=Unique.live), "tasks[2].uniqueWhile: needs uniqueKey"),
        (
            BatchTask(action="a", after_indexes=[2]),
            "tasks[2].afterIndexes: must be places of tasks that stand before this one",
        ),
        (
            BatchTask(action="a", after=["tsk"], after_indexes=range(32)),
            "tasks[2].after: must have at most 32 entries together with afterIndexes",
        ),
        (
            BatchTask(action="a", deadline=Timestamp(seconds=4_000_000_000, nanos=-1)),
            "tasks[2].deadline: must be a time before the year 10000",
        ),
    ],
)
async def test_one_invalid_task_refuses_the_batch_by_the_name_of_the_field(api, refused, invalid_task, message):
    refusal = await refused(api.submit_batch(CLICK, CLICK, invalid_task, CLICK))
    assert refusal.code == "bad_request"
    assert refusal.message == message
    assert (await api.list_tasks()).count == 0


async def test_a_past_deadline_refuses_the_batch(api, refused):
    refusal = await refused(api.submit_batch(CLICK, BatchTask(action="a", deadline=Timestamp(seconds=1))))
    assert refusal.code == "bad_request"
    assert "deadline: must be in the future" in refusal.message
    assert (await api.list_tasks()).count == 0


async def test_params_that_are_too_large_refuse_the_batch(start_api, refused, by_rest):
    params = Struct()
    params["text"] = "x" * 1000
    api = await start_api(max_payload_bytes=500)
    refusal = await refused(api.submit_batch(CLICK, BatchTask(action="a", params=params), metadata=by_rest))
    assert refusal.code == "too_large"
    assert refusal.message.startswith("tasks[1].params: must be at most 500 bytes")
    assert refusal.trailers["x-http-status"] == "413"
    assert (await api.list_tasks()).count == 0


# Get


async def test_a_batch_shows_its_tasks_and_their_number_in_each_state(start_api):
    api = await start_api(max_queue_size=3)
    batch = await api.submit_batch(*[CLICK] * 4)
    (lease,) = await api.claim()
    await api.complete(lease)
    response = await get(api, batch.batch_id)
    assert response.batch_id == batch.batch_id
    assert response.agent_id == "ann"
    assert response.states == {"done": 1, "queued": 2, "rejected": 1}
    assert [task.task_id for task in response.tasks] == [task.task_id for task in batch.tasks]
    assert response.count == 4
    assert response.HasField("ended")
    assert not response.ended


async def test_a_batch_has_ended_when_all_its_tasks_have_ended(api):
    batch = await api.submit_batch(CLICK, CLICK)
    for lease in await api.claim(2):
        assert not (await get(api, batch.batch_id)).ended
        await api.complete(lease)
    assert (await get(api, batch.batch_id)).ended


async def test_the_tasks_of_a_batch_are_paged(api, refused):
    batch = await api.submit_batch(*[CLICK] * 5)
    first = await get(api, batch.batch_id, page_size=3)
    second = await get(api, batch.batch_id, page_token=first.next_page_token)
    assert (first.count, second.count) == (3, 2)
    assert [task.task_id for task in [*first.tasks, *second.tasks]] == [task.task_id for task in batch.tasks]
    assert not second.HasField("next_page_token")
    assert second.states == {"queued": 5}, "the states are those of the whole batch"
    other = await api.submit_batch(CLICK)
    refusal = await refused(get(api, other.batch_id, page_token=first.next_page_token))
    assert refusal.message == "pageToken: is not a token of this listing"


@every_case("call", [get, cancel])
@every_case("batch_id", ["", "bat_1", "x" * 10_000])
async def test_an_unknown_batch_is_not_found(api, refused, call, batch_id):
    refusal = await refused(call(api, batch_id))
    assert refusal.status is grpc.StatusCode.NOT_FOUND
    assert refusal.message == "batch not found"


async def test_a_batch_is_retained_as_long_as_one_of_its_tasks(start_api, refused, eventually):
    api = await start_api(result_ttl_secs=0.05)
    batch = await api.submit_batch(CLICK, CLICK)
    first, second = await api.claim(2)
    await api.complete(first)
    left = await eventually(lambda: get(api, batch.batch_id), lambda response: response.count == 1)
    assert [task.task_id for task in left.tasks] == [second.task.id]
    await api.complete(second)
    await eventually(lambda: api.list_tasks(), lambda response: not response.tasks)
    assert (await refused(get(api, batch.batch_id))).code == "not_found"


# Cancel


async def test_cancelling_a_batch_cancels_the_tasks_that_have_not_ended(api):
    batch = await api.submit_batch(*[CLICK] * 3)
    await api.submit()
    done, _ = await api.claim(2)
    await api.complete(done)
    response = await cancel(api, batch.batch_id)
    assert MessageToDict(response) == {"status": "cancelled", "batchId": batch.batch_id, "cancelled": 2}
    assert (await get(api, batch.batch_id)).states == {"done": 1, "cancelled": 2}
    assert (await api.stats()).queue.total_queued == 1, "tasks outside of the batch are not cancelled"


async def test_cancelling_an_ended_batch_cancels_nothing_and_is_not_an_error(api):
    batch = await api.submit_batch(CLICK)
    await cancel(api, batch.batch_id)
    response = await cancel(api, batch.batch_id)
    assert response.HasField("cancelled")
    assert response.cancelled == 0
