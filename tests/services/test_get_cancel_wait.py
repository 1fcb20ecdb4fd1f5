"""GetTask, CancelTask and WaitTask (docs/rules.md, Listing, Cancel, Task states)."""

import asyncio

import grpc
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1.task_pb2 import Task
from taskyard_server.core.limits import Limits
from taskyard_server.engine.engine import Engine
from tests.cases import every_case

# Task states


def state_name(task):
    """The name of the state of a task."""
    return Task.State.Name(task.state)


async def queued(api):
    return (await api.submit()).task_id


async def assigned(api):
    task_id = await queued(api)
    await api.claim()
    return task_id


async def running(api):
    task_id = await queued(api)
    (lease,) = await api.claim()
    await api.start(lease)
    return task_id


async def done(api):
    task_id = await queued(api)
    (lease,) = await api.claim()
    await api.complete(lease)
    return task_id


async def failed(api):
    task_id = await queued(api)
    (lease,) = await api.claim()
    await api.fail(lease, "element not found")
    return task_id


async def cancelled(api):
    task_id = await queued(api)
    await api.cancel(task_id)
    return task_id


async def rejected(api):
    while True:
        try:
            await api.submit()
        except grpc.aio.AioRpcError:
            return (await api.list_tasks(state="rejected")).tasks[0].task_id


LIVE = [queued, assigned, running]
TERMINAL = [done, failed, cancelled, rejected]


@pytest.mark.parametrize("reach", [*LIVE, *TERMINAL])
async def test_each_state_is_shown_by_its_documented_name(api, reach):
    task_id = await reach(api)
    assert state_name(await api.get(task_id)) == reach.__name__


@every_case("name", ["queued", "assigned", "running", "done", "failed", "cancelled", "rejected"])
def test_json_shows_the_lower_case_name_and_accepts_both(name):
    number = Task.State.Value(name)
    assert Task.State.Value(f"STATE_{name.upper()}") == number
    assert MessageToDict(Task(state=number)) == {"state": name}
    assert ParseDict({"state": f"STATE_{name.upper()}"}, Task()).state == number


# Get one task


async def test_a_done_task_shows_its_times_and_its_result(api):
    result = ParseDict({"success": True, "items": [1, 2.5, None]}, Value())
    task_id = (await api.submit()).task_id
    (lease,) = await api.claim()
    await api.start(lease)
    await api.complete(lease, result)
    task = await api.get(task_id)
    assert task.result == result
    assert task.created_at.ToNanoseconds() <= task.started_at.ToNanoseconds() <= task.completed_at.ToNanoseconds()
    assert task.HasField("latency_ms")
    assert not task.HasField("error")


async def test_latency_is_from_start_to_completion_in_milliseconds(start_api, clock):
    api = await start_api(clock=clock)
    task_id = (await api.submit()).task_id
    clock.now += 5
    (lease,) = await api.claim()
    await api.start(lease)
    clock.now += 0.842
    await api.complete(lease)
    assert (await api.get(task_id)).latency_ms == 842


async def test_a_failed_task_shows_its_error_and_no_result(api):
    task = await api.get(await failed(api))
    assert task.error == "element not found"
    assert task.HasField("completed_at")
    assert not task.HasField("result")


async def test_a_result_of_null_is_a_result(api):
    task_id = (await api.submit()).task_id
    (lease,) = await api.claim()
    await api.complete(lease, Value(null_value=0))
    task = await api.get(task_id)
    assert task.HasField("result")
    assert task.result.WhichOneof("kind") == "null_value"


async def test_a_task_that_never_started_shows_neither_start_nor_latency(api):
    task = await api.get(await cancelled(api))
    assert task.HasField("completed_at")
    assert not task.HasField("started_at")
    assert not task.HasField("latency_ms")


async def test_a_task_in_flight_shows_its_host(api):
    assert not (await api.get(await queued(api))).HasField("host_id")
    await api.claim()
    (task,) = (await api.list_tasks()).tasks
    assert task.host_id == "host"


async def test_a_task_is_not_found_after_its_ttl_where_nothing_is_kept(start_api, refused, eventually):
    api = await start_api(Engine(Limits(result_ttl_secs=0.05)))
    task_id = await cancelled(api)
    assert state_name(await api.get(task_id)) == "cancelled"
    await eventually(lambda: api.list_tasks(), lambda response: not response.tasks)
    refusal = await refused(api.get(task_id))
    assert refusal.status is grpc.StatusCode.NOT_FOUND
    assert refusal.message == "task not found"


async def test_not_found_over_rest_has_the_documented_body(api, refused, by_rest):
    refusal = await refused(api.get("tsk_a1b2c3d4", metadata=by_rest))
    assert refusal.trailers["x-http-status"] == "404"
    assert refusal.rest_body == {"code": "not_found", "error": "task not found"}


# Deadlines


async def test_a_task_queued_past_its_deadline_fails_with_the_documented_error(api):
    deadline = Timestamp()
    deadline.FromNanoseconds(int((api.engine.now() + 0.3) * 1e9))
    response = await api.submit(deadline=deadline)
    response = await api.wait(response.task_id, timeout_ms=5000)
    assert state_name(response.task) == "failed"
    assert response.task.error == "deadline exceeded while queued"
    assert not response.task.HasField("started_at")


async def test_a_task_running_past_its_deadline_fails(api):
    deadline = Timestamp()
    deadline.FromNanoseconds(int((api.engine.now() + 0.3) * 1e9))
    response = await api.submit(deadline=deadline)
    (lease,) = await api.claim()
    await api.start(lease)
    response = await api.wait(response.task_id, timeout_ms=5000)
    assert response.task.error == "deadline exceeded"
    assert response.task.HasField("started_at")


# Cancel


@pytest.mark.parametrize("reach", LIVE)
async def test_a_task_that_has_not_ended_is_cancelled_at_once(api, reach):
    task_id = await reach(api)
    response = await api.cancel(task_id)
    assert MessageToDict(response) == {"status": "cancelled", "taskId": task_id}
    assert state_name(await api.get(task_id)) == "cancelled"
    assert (await api.stats()).queue.total_inflight == 0


@pytest.mark.parametrize("reach", TERMINAL)
async def test_cancelling_an_ended_task_is_a_conflict(api, refused, by_rest, reach):
    task_id = await reach(api)
    before = await api.get(task_id)
    refusal = await refused(api.cancel(task_id, metadata=by_rest))
    assert refusal.status is grpc.StatusCode.FAILED_PRECONDITION
    assert refusal.trailers["x-http-status"] == "409"
    assert refusal.rest_body == {"code": "conflict", "error": f"task is already {reach.__name__}"}
    assert await api.get(task_id) == before


async def test_a_cancelled_task_is_removed_from_the_queue(api):
    await cancelled(api)
    assert (await api.stats()).queue.total_queued == 0
    assert await api.claim() == []


async def test_a_report_on_a_cancelled_task_is_refused(api):
    await api.submit()
    (lease,) = await api.claim()
    await api.start(lease)
    await api.cancel(lease.task.id)
    with pytest.raises(Exception, match="lease lost"):
        await api.complete(lease, Value(string_value="too late"))
    assert not (await api.get(lease.task.id)).HasField("result")


async def test_of_many_concurrent_cancels_one_succeeds(api):
    task_id = await queued(api)
    outcomes = await asyncio.gather(*(api.cancel(task_id) for _ in range(10)), return_exceptions=True)
    refusals = [outcome for outcome in outcomes if isinstance(outcome, grpc.aio.AioRpcError)]
    assert len(refusals) == 9
    assert {refusal.code() for refusal in refusals} == {grpc.StatusCode.FAILED_PRECONDITION}
    assert (await api.stats()).metrics.tasks_cancelled == 1


# Wait


async def test_a_wait_returns_at_the_end_of_the_task(api):
    params = Struct()
    params["x"] = 1
    task_id = (await api.submit(params=params)).task_id
    (lease,) = await api.claim()
    waiting = asyncio.ensure_future(api.wait(task_id))
    await api.start(lease)
    await api.complete(lease, Value(number_value=4))
    response = await waiting
    assert response.ended
    assert response.task == await api.get(task_id)
    assert response.task.result.number_value == 4


@pytest.mark.parametrize("reach", TERMINAL)
async def test_a_wait_for_an_ended_task_returns_at_once(api, reach):
    task_id = await reach(api)
    assert (await api.wait(task_id)).ended


async def test_a_wait_with_no_time_returns_the_current_task(api):
    response = await api.wait(await running(api), timeout_ms=0)
    assert response.HasField("ended")
    assert not response.ended
    assert state_name(response.task) == "running"


async def test_the_timeout_of_a_wait_is_not_an_error(api):
    response = await api.wait(await queued(api), timeout_ms=10)
    assert not response.ended
    assert state_name(response.task) == "queued"


async def test_all_waits_for_a_task_return_at_its_end(api):
    task_id = await queued(api)
    waits = [asyncio.ensure_future(api.wait(task_id)) for _ in range(20)]
    await api.wait(task_id, timeout_ms=20)
    await api.cancel(task_id)
    assert {(await wait).ended for wait in waits} == {True}
