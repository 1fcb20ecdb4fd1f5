"""Tasks after others, and unique keys, over the services (docs/rules.md, Predecessors, Unique keys)."""

import pytest

from taskyard.v1 import task_pb2 as pb
from taskyard.v1.batch_pb2 import BatchTask
from taskyard_server.core.limits import Limits
from taskyard_server.core.reports import Report, ReportKind
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.persistence import StoreOptions
from tests.store.dict_store import DictStore

STATE = pb.Task.State
ENDED = pb.After.ended


@pytest.fixture
async def start_kept(start_api, clock):
    """Starts a server whose ended tasks leave memory at once."""
    engines = []

    async def start(history_days=7.0, **limits):
        limits = Limits(**{"max_retained_tasks": 0, **limits})
        engine = Engine(limits, clock, store=DictStore(), store_options=StoreOptions(history_days=history_days))
        await engine.open()
        engines.append(engine)
        return await start_api(engine)

    yield start
    for engine in engines:
        await engine.admin.close()


async def state(api, task_id):
    return STATE.Name((await api.get(task_id)).state)


async def test_a_task_waits_and_shows_for_what(api):
    first = (await api.submit()).task_id
    second = await api.submit(after=[first], after_policy=ENDED)
    assert second.state == STATE.pending
    task = await api.get(second.task_id)
    assert (list(task.after), task.after_policy) == ([first], ENDED)
    assert (await api.stats()).queue.after_others == 1
    await api.complete(await api.run_one())
    assert await state(api, second.task_id) == "queued"
    assert not (await api.stats()).queue.HasField("after_others")


async def test_a_failure_cancels_what_comes_after_it(api):
    first = (await api.submit()).task_id
    second = (await api.submit(after=[first])).task_id
    await api.fail(await api.run_one())
    task = await api.get(second)
    assert (STATE.Name(task.state), task.error) == ("cancelled", f"predecessor {first} failed")


async def test_a_task_that_is_not_known_is_not_found_and_names_the_field(api, refused):
    refusal = await refused(api.submit(after=["tsk_nope"]))
    assert (refusal.code, refusal.message) == ("not_found", "after: task tsk_nope not found")


@pytest.mark.parametrize(("end", "then"), [("complete", "queued"), ("fail", "cancelled"), ("cancel", "cancelled")])
async def test_the_history_says_how_a_task_ended_that_has_left_memory(start_kept, end, then):
    api = await start_kept()
    first = (await api.submit()).task_id
    if end == "cancel":
        await api.cancel(first)
    else:
        (lease,) = await api.claim()
        kind = ReportKind.COMPLETED if end == "complete" else ReportKind.FAILED
        reports = [Report(kind, first, lease.token, error="broken", retryable=False)]
        await api.engine.leases.report("default", "host", reports)
    assert api.engine.tasks.state_of("default", first) is None
    second = await api.submit(after=[first])
    assert STATE.Name(second.state) == then
    any_end = await api.submit(after=[first], after_policy=ENDED)
    assert STATE.Name(any_end.state) == "queued"
    (batched,) = (await api.submit_batch(BatchTask(action="click", after=[first]))).tasks
    assert STATE.Name(batched.state) == then
    stream = api.tasks.SubmitTasks(
        iter([pb.SubmitTasksRequest(tasks=[pb.SubmitTaskRequest(agent_id="ann", action="click", after=[first])])])
    )
    (answer,) = [answer async for answer in stream]
    assert STATE.Name(answer.outcomes[0].accepted.state) == then


async def test_a_failure_that_blocks_its_target_is_waited_for_though_it_has_left_memory(start_kept):
    api = await start_kept()
    first = (await api.submit(target="till")).task_id
    (lease,) = await api.claim()
    reports = [
        Report(ReportKind.STARTED, first, lease.token),
        Report(ReportKind.FAILED, first, lease.token, error="broken", retryable=False),
    ]
    await api.engine.leases.report("default", "host", reports)
    assert api.engine.tasks.state_of("default", first) is None
    second = await api.submit(after=[first])
    assert second.state == STATE.pending
    assert api.engine.tasks.state_of("default", first) == "failed"
    await api.resolve(first)
    assert await state(api, second.task_id) == "queued"


async def test_without_history_a_task_that_has_left_memory_is_not_found(start_kept, refused):
    api = await start_kept(history_days=0)
    first = (await api.submit()).task_id
    await api.cancel(first)
    assert (await refused(api.submit(after=[first]))).code == "not_found"


async def test_a_task_that_is_waited_for_stays_in_memory(start_kept):
    api = await start_kept()
    first, second = (await api.submit()).task_id, (await api.submit()).task_id
    third = (await api.submit(after=[first, second])).task_id
    await api.complete(await api.run_one())
    assert api.engine.tasks.state_of("default", first) == "done"
    await api.complete(await api.run_one())
    assert await state(api, third) == "queued"


async def test_places_in_a_batch_are_told_as_ids(api):
    answer = await api.submit_batch(
        BatchTask(action="click"),
        BatchTask(action="click", after_indexes=[0]),
        BatchTask(action="click", after=["tsk_no"]),
    )
    first, second, third = answer.tasks
    assert [STATE.Name(each.state) for each in answer.tasks] == ["queued", "pending", "rejected"]
    assert list((await api.get(second.task_id)).after) == [first.task_id]
    assert (third.error.code, third.error.error) == ("not_found", "after: task tsk_no not found")


async def test_what_comes_after_a_refused_task_of_a_batch_says_so(api):
    answer = await api.submit_batch(
        BatchTask(action="click", after=["tsk_no"]), BatchTask(action="click", after_indexes=[0])
    )
    error = answer.tasks[1].error
    assert (error.code, error.error) == ("conflict", "afterIndexes: task 0 was refused: after: task tsk_no not found")
    assert dict(error.details) == {"index": 0, "code": "not_found"}


# Unique keys


async def test_an_existing_task_is_the_answer_and_says_so(api):
    first = await api.submit(unique_key="sync")
    assert not first.HasField("existing")
    again = await api.submit(unique_key="sync", action="other")
    assert (again.task_id, again.existing, again.position) == (first.task_id, True, first.position)
    (batched,) = (await api.submit_batch(BatchTask(action="click", unique_key="sync"))).tasks
    assert (batched.task_id, batched.existing) == (first.task_id, True)
    task = pb.SubmitTaskRequest(agent_id=(await api.get(first.task_id)).agent_id, action="click", unique_key="sync")
    stream = api.tasks.SubmitTasks(iter([pb.SubmitTasksRequest(tasks=[task])]))
    (answer,) = [answer async for answer in stream]
    accepted = answer.outcomes[0].accepted
    assert (accepted.task_id, accepted.existing) == (first.task_id, True)


async def test_reject_names_the_task_in_the_details(api, refused):
    first = await api.submit(unique_key="sync")
    refusal = await refused(api.submit(unique_key="sync", on_conflict=pb.Unique.reject))
    assert (refusal.code, dict(refusal.info.metadata)) == ("already_exists", {"taskId": first.task_id})


async def test_replace_queued_cancels_what_waits(api):
    first = await api.submit(unique_key="sync")
    second = await api.submit(unique_key="sync", on_conflict=pb.Unique.replaceQueued)
    assert second.task_id != first.task_id
    assert not second.HasField("existing")
    assert await state(api, first.task_id) == "cancelled"
    await api.run_one()
    third = await api.submit(unique_key="sync", on_conflict=pb.Unique.replaceQueued)
    assert (third.task_id, third.existing) == (second.task_id, True)


async def test_a_repeat_of_an_existing_answer_is_the_same_also_after_the_end(api, refused):
    first = await api.submit(unique_key="sync")
    for _ in range(2):
        answer = await api.submit(unique_key="sync", idempotency_key="once")
        assert (answer.task_id, answer.existing) == (first.task_id, True)
    await api.complete(await api.run_one())
    answer = await api.submit(unique_key="sync", idempotency_key="once")
    assert (answer.task_id, answer.existing, answer.state) == (first.task_id, True, STATE.done)
    assert (await refused(api.submit(unique_key="sync", idempotency_key="once", priority=3))).code == "already_exists"
