"""GetTask and CancelTask (scheduler-reference, Get One Task, Cancel A Task, Task States)."""

import asyncio

import grpc
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1.task_pb2 import Task

# Task states


def word(task):
    """The state as JSON shows it."""
    return Task.State.Name(task.state)


async def queued(door):
    return (await door.submit()).task_id


async def assigned(door):
    task_id = await queued(door)
    await door.claim()
    return task_id


async def running(door):
    task_id = await queued(door)
    (lease,) = await door.claim()
    await door.start(lease)
    return task_id


async def done(door):
    task_id = await queued(door)
    (lease,) = await door.claim()
    await door.complete(lease)
    return task_id


async def failed(door):
    task_id = await queued(door)
    (lease,) = await door.claim()
    await door.fail(lease, "element not found")
    return task_id


async def cancelled(door):
    task_id = await queued(door)
    await door.cancel(task_id)
    return task_id


async def rejected(door):
    while True:
        try:
            await door.submit()
        except grpc.aio.AioRpcError:
            return (await door.list_tasks(state="rejected")).tasks[0].task_id


LIVE = [queued, assigned, running]
TERMINAL = [done, failed, cancelled, rejected]


@pytest.mark.parametrize("reach", [*LIVE, *TERMINAL])
async def test_each_implemented_state_is_shown_by_its_documented_word(door, reach):
    task_id = await reach(door)
    assert word(await door.get(task_id)) == reach.__name__


@pytest.mark.parametrize("name", ["queued", "assigned", "running", "done", "failed", "cancelled", "rejected"])
def test_json_shows_the_lower_case_word_and_takes_both(name):
    number = Task.State.Value(name)
    assert Task.State.Value(f"STATE_{name.upper()}") == number
    assert MessageToDict(Task(state=number)) == {"state": name}
    assert ParseDict({"state": f"STATE_{name.upper()}"}, Task()).state == number


# Get one task


async def test_a_task_that_is_done_shows_its_times_and_its_result(door):
    result = ParseDict({"success": True, "items": [1, 2.5, None]}, Value())
    task_id = (await door.submit()).task_id
    (lease,) = await door.claim()
    await door.start(lease)
    await door.complete(lease, result)
    task = await door.get(task_id)
    assert task.result == result
    assert task.created_at.ToNanoseconds() <= task.started_at.ToNanoseconds() <= task.completed_at.ToNanoseconds()
    assert task.HasField("latency_ms")
    assert not task.HasField("error")


async def test_latency_is_from_start_to_completion_in_milliseconds(open_door, clock):
    door = await open_door(clock=clock)
    task_id = (await door.submit()).task_id
    clock.now += 5
    (lease,) = await door.claim()
    await door.start(lease)
    clock.now += 0.842
    await door.complete(lease)
    assert (await door.get(task_id)).latency_ms == 842


async def test_a_task_that_failed_shows_its_error_and_no_result(door):
    task = await door.get(await failed(door))
    assert task.error == "element not found"
    assert task.HasField("completed_at")
    assert not task.HasField("result")


async def test_a_result_of_null_is_a_result(door):
    task_id = (await door.submit()).task_id
    (lease,) = await door.claim()
    await door.complete(lease, Value(null_value=0))
    task = await door.get(task_id)
    assert task.HasField("result")
    assert task.result.WhichOneof("kind") == "null_value"


async def test_a_task_that_never_started_shows_neither_start_nor_latency(door):
    task = await door.get(await cancelled(door))
    assert task.HasField("completed_at")
    assert not task.HasField("started_at")
    assert not task.HasField("latency_ms")


async def test_the_host_that_holds_the_task_is_named(door):
    assert not (await door.get(await queued(door))).HasField("host_id")
    await door.claim()
    (task,) = (await door.list_tasks()).tasks
    assert task.host_id == "host"


async def test_a_task_is_not_found_once_its_time_to_live_is_over(open_door, refused, eventually):
    door = await open_door(result_ttl_secs=0.05)
    task_id = await cancelled(door)
    assert word(await door.get(task_id)) == "cancelled"
    await eventually(lambda: door.list_tasks(), lambda answer: not answer.tasks)
    refusal = await refused(door.get(task_id))
    assert refusal.status is grpc.StatusCode.NOT_FOUND
    assert refusal.message == "task not found"


async def test_not_found_over_rest_is_the_documented_body(door, refused, by_rest):
    refusal = await refused(door.get("tsk_a1b2c3d4", metadata=by_rest))
    assert refusal.trailers["x-http-status"] == "404"
    assert refusal.rest_body == {"code": "not_found", "error": "task not found"}


# Deadlines


async def test_a_task_queued_past_its_deadline_fails_with_the_documented_words(door):
    soon = Timestamp()
    soon.FromNanoseconds(int((door.engine.now() + 0.3) * 1e9))
    answer = await door.submit(deadline=soon)
    waited = await door.wait(answer.task_id, timeout_ms=5000)
    assert word(waited.task) == "failed"
    assert waited.task.error == "deadline exceeded while queued"
    assert not waited.task.HasField("started_at")


async def test_a_task_running_past_its_deadline_fails(door):
    soon = Timestamp()
    soon.FromNanoseconds(int((door.engine.now() + 0.3) * 1e9))
    answer = await door.submit(deadline=soon)
    (lease,) = await door.claim()
    await door.start(lease)
    waited = await door.wait(answer.task_id, timeout_ms=5000)
    assert waited.task.error == "deadline exceeded"
    assert waited.task.HasField("started_at")


# Cancel


@pytest.mark.parametrize("reach", LIVE)
async def test_a_task_that_has_not_ended_is_cancelled_at_once(door, reach):
    task_id = await reach(door)
    answer = await door.cancel(task_id)
    assert MessageToDict(answer) == {"status": "cancelled", "taskId": task_id}
    assert word(await door.get(task_id)) == "cancelled"
    assert (await door.stats()).queue.total_inflight == 0


@pytest.mark.parametrize("reach", TERMINAL)
async def test_a_task_that_has_ended_is_in_conflict(door, refused, by_rest, reach):
    task_id = await reach(door)
    before = await door.get(task_id)
    refusal = await refused(door.cancel(task_id, metadata=by_rest))
    assert refusal.status is grpc.StatusCode.FAILED_PRECONDITION
    assert refusal.trailers["x-http-status"] == "409"
    assert refusal.rest_body == {"code": "conflict", "error": f"task is already {reach.__name__}"}
    assert await door.get(task_id) == before


async def test_a_cancelled_task_is_removed_from_the_queue(door):
    await cancelled(door)
    assert (await door.stats()).queue.total_queued == 0
    assert await door.claim() == []


async def test_the_lease_of_a_cancelled_task_ends_so_that_its_report_is_refused(door):
    await door.submit()
    (lease,) = await door.claim()
    await door.start(lease)
    await door.cancel(lease.task.id)
    with pytest.raises(Exception, match="lease lost"):
        await door.complete(lease, Value(string_value="too late"))
    assert not (await door.get(lease.task.id)).HasField("result")


async def test_of_many_cancel_calls_one_works(door):
    task_id = await queued(door)
    outcomes = await asyncio.gather(*(door.cancel(task_id) for _ in range(10)), return_exceptions=True)
    refusals = [outcome for outcome in outcomes if isinstance(outcome, grpc.aio.AioRpcError)]
    assert len(refusals) == 9
    assert {refusal.code() for refusal in refusals} == {grpc.StatusCode.FAILED_PRECONDITION}
    assert (await door.stats()).metrics.tasks_cancelled == 1


# Wait


async def test_waiting_ends_with_the_task(door):
    params = Struct()
    params["x"] = 1
    task_id = (await door.submit(params=params)).task_id
    (lease,) = await door.claim()
    waiting = asyncio.ensure_future(door.wait(task_id))
    await door.start(lease)
    await door.complete(lease, Value(number_value=4))
    answer = await waiting
    assert answer.ended
    assert answer.task == await door.get(task_id)
    assert answer.task.result.number_value == 4


@pytest.mark.parametrize("reach", TERMINAL)
async def test_waiting_for_a_task_that_has_ended_answers_at_once(door, reach):
    task_id = await reach(door)
    assert (await door.wait(task_id)).ended


async def test_a_wait_of_no_time_answers_the_task_as_it_stands(door):
    answer = await door.wait(await running(door), timeout_ms=0)
    assert answer.HasField("ended")
    assert not answer.ended
    assert word(answer.task) == "running"


async def test_running_out_of_time_is_no_error(door):
    answer = await door.wait(await queued(door), timeout_ms=10)
    assert not answer.ended
    assert word(answer.task) == "queued"


async def test_all_who_wait_for_a_task_are_told(door):
    task_id = await queued(door)
    waits = [asyncio.ensure_future(door.wait(task_id)) for _ in range(20)]
    await door.wait(task_id, timeout_ms=20)
    await door.cancel(task_id)
    assert {(await wait).ended for wait in waits} == {True}
