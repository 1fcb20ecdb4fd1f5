"""Why a task was cancelled, paused or resolved: kept, and shown (docs/rules.md, Reasons)."""

import pytest

from taskyard.v1 import batch_pb2
from taskyard.v1 import operation_pb2 as pb
from taskyard.v1.task_pb2 import ExplainTaskRequest, Task, TaskFilter, WatchTasksRequest
from tests.cases import every_case

WHY = "wrong site"


async def paused(api, reason=WHY):
    """The id of a paused task."""
    task_id = (await api.submit()).task_id
    await api.run_one()
    await api.pause(task_id, reason=reason)
    return task_id


async def reason_of(api, task_id):
    task = await api.get(task_id)
    return task.reason if task.HasField("reason") else None


async def test_a_cancel_a_pause_and_a_resolve_show_theirs(api):
    cancelled = (await api.submit()).task_id
    await api.cancel(cancelled, reason=WHY)
    interrupted, resolved = await paused(api), await paused(api, "later")
    await api.resolve(resolved, reason="by hand")
    reasons = {task.task_id: (task.state, task.reason) for task in (await api.list_tasks()).tasks}
    assert reasons == {
        cancelled: (Task.cancelled, WHY),
        interrupted: (Task.paused, WHY),
        resolved: (Task.done, "by hand"),
    }
    for task_id, (_, reason) in reasons.items():
        assert await reason_of(api, task_id) == reason


async def test_a_resume_clears_it(api):
    task_id = await paused(api)
    await api.resume(task_id)
    assert await reason_of(api, task_id) is None


@pytest.mark.parametrize("end", ["cancel", "resolve"])
async def test_it_is_that_of_the_last_command_alone(api, end):
    task_id = await paused(api)
    await getattr(api, end)(task_id)
    assert await reason_of(api, task_id) is None


async def test_an_empty_one_is_none(api):
    assert await reason_of(api, await paused(api, "")) is None


async def test_of_a_thousand_characters_it_is_taken_and_of_more_refused(api, refused):
    task_id = (await api.submit()).task_id
    for command in (api.cancel, api.pause, api.resolve):
        refusal = await refused(command(task_id, reason="é" * 1_001))
        assert (refusal.code, refusal.message) == ("bad_request", "reason: must be at most 1000 characters")
    await api.cancel(task_id, reason="é" * 1_000)
    assert await reason_of(api, task_id) == "é" * 1_000


@every_case("waits", [{}, {"wait_ms": 0}])
async def test_all_that_are_cancelled_below_have_the_same(api, waits):
    parent = (await api.submit()).task_id
    child = (await api.submit(parent_id=parent)).task_id
    grandchild = (await api.submit(parent_id=child)).task_id
    await api.cancel(parent, cancel_children=True, reason=WHY, **waits)
    assert [await reason_of(api, task_id) for task_id in (parent, child, grandchild)] == [WHY] * 3


async def test_a_pause_that_waits_has_one_too(api):
    task_id = (await api.submit()).task_id
    await api.run_one()
    await api.pause(task_id, reason=WHY, wait_ms=0)
    assert await reason_of(api, task_id) == WHY


async def test_all_of_a_batch_have_the_same(api):
    batch = await api.submit_batch(batch_pb2.BatchTask(action="click"), batch_pb2.BatchTask(action="click"))
    await api.batches.CancelBatch(batch_pb2.CancelBatchRequest(batch_id=batch.batch_id, reason=WHY))
    assert [await reason_of(api, outcome.task_id) for outcome in batch.tasks] == [WHY, WHY]


async def test_all_of_an_operation_have_the_same(api, eventually):
    async def becomes(task_id, state):
        task = await eventually(lambda: api.get(task_id), lambda task: task.state == state)
        return task.reason

    second, first = await paused(api), (await api.submit()).task_id
    for operation_id, method, request, task_id, state in (
        ("cancel", "CancelTasks", pb.CancelTasksRequest(filter=TaskFilter(state="queued")), first, Task.cancelled),
        ("resolve", "ResolveTasks", pb.ResolveTasksRequest(filter=TaskFilter(state="paused")), second, Task.done),
    ):
        request.operation_id, request.reason = operation_id, operation_id
        await getattr(api.operations, method)(request)
        assert await becomes(task_id, state) == operation_id
    third = (await api.submit()).task_id
    await api.run_one()
    await api.operations.PauseTasks(pb.PauseTasksRequest(all=True, operation_id="pause", reason=WHY))
    assert await becomes(third, Task.paused) == WHY


async def test_one_operation_has_one_reason(api, refused):
    request = pb.CancelTasksRequest(all=True, operation_id="op", reason=WHY)
    await api.operations.CancelTasks(request)
    await api.operations.CancelTasks(request)
    request.reason = "another"
    assert (await refused(api.operations.CancelTasks(request))).code == "conflict"
    request.reason = "x" * 1_001
    assert (await refused(api.operations.CancelTasks(request))).code == "bad_request"


async def test_a_watch_tells_it(api):
    watch = api.tasks.WatchTasks(WatchTasksRequest())
    assert (await watch.read()).bookmark
    task_id = (await api.submit()).task_id
    await api.cancel(task_id, reason=WHY)
    told = []
    while len(told) < 2:
        told += [(event.task.state, event.task.reason) for event in (await watch.read()).events]
    assert told == [(Task.queued, ""), (Task.cancelled, WHY)]
    watch.cancel()


async def test_why_a_paused_task_waits_tells_it(api):
    answer = await api.tasks.ExplainTask(ExplainTaskRequest(task_id=await paused(api)))
    text = f"the task is paused, until it is resumed, resolved or cancelled: {WHY}"
    assert text in [reason.message for reason in answer.reasons]
