"""PauseTask, ResumeTask and ResolveTask: responses, refusals, and their effects on watches, waits and stats."""

import grpc
import pytest
from google.protobuf.struct_pb2 import Value

from taskyard.v1.task_pb2 import Task


async def paused(api, **fields):
    """The id of a paused task."""
    task_id = (await api.submit(**fields)).task_id
    await api.run_one()
    await api.pause(task_id)
    return task_id


async def test_pause_returns_the_state_and_the_id(api):
    task_id = (await api.submit()).task_id
    await api.run_one()
    response = await api.pause(task_id)
    assert (response.status, response.task_id) == (Task.paused, task_id)
    task = await api.get(task_id)
    assert (task.state, task.error) == (Task.paused, "Job was interrupted by user")
    assert not task.HasField("deadline")
    assert not task.HasField("completed_at")


async def test_resume_returns_the_state_and_the_task_shows_its_run(api):
    task_id = await paused(api)
    response = await api.resume(task_id)
    assert (response.status, response.task_id) == (Task.queued, task_id)
    task = await api.get(task_id)
    assert (task.run, task.HasField("error"), task.HasField("deadline")) == (2, False, True)
    await api.complete(await api.run_one())
    assert (await api.get(task_id)).state == Task.done


async def test_a_task_that_was_never_resumed_shows_no_run(api):
    assert not (await api.get(await paused(api))).HasField("run")


async def test_resolve_records_the_given_result(api):
    task_id = await paused(api)
    response = await api.resolve(task_id, result=Value(string_value="by hand"))
    assert (response.status, response.task_id) == (Task.done, task_id)
    task = await api.get(task_id)
    assert task.result.string_value == "by hand"
    assert not task.HasField("error")


async def test_resolve_without_a_result_records_no_result(api):
    task_id = await paused(api)
    await api.resolve(task_id)
    assert not (await api.get(task_id)).HasField("result")


async def test_a_result_that_is_too_large_or_not_json_is_refused(start_api, refused):
    api = await start_api(max_payload_bytes=100)
    task_id = await paused(api)
    assert (await refused(api.resolve(task_id, result=Value(string_value="x" * 200)))).code == "too_large"
    refusal = await refused(api.resolve(task_id, result=Value(number_value=float("nan"))))
    assert (refusal.code, refusal.message[:7]) == ("bad_request", "result:")
    assert (await api.get(task_id)).state == Task.paused


@pytest.mark.parametrize("call", ["pause", "resume", "resolve"])
async def test_a_call_in_the_wrong_state_is_a_conflict_and_409_over_rest(api, refused, by_rest, call):
    task_id = (await api.submit()).task_id
    refusal = await refused(getattr(api, call)(task_id, metadata=by_rest))
    assert refusal.status is grpc.StatusCode.FAILED_PRECONDITION
    assert refusal.trailers["x-http-status"] == "409"
    assert refusal.rest_body["code"] == "conflict"
    assert refusal.rest_body["error"].startswith("task is queued, only a")


@pytest.mark.parametrize("call", ["pause", "resume", "resolve"])
async def test_a_repeated_call_is_a_conflict(api, refused, call):
    task_id = await paused(api)
    if call == "pause":
        assert (await refused(api.pause(task_id))).code == "conflict"
    else:
        await getattr(api, call)(task_id)
        assert (await refused(getattr(api, call)(task_id))).code == "conflict"


async def test_a_task_over_its_budget_is_resumed_only_with_a_higher_limit(api, refused):
    task_id = (await api.submit(token_limit=5)).task_id
    await api.report_tokens(await api.run_one(), 6)
    refusal = await refused(api.resume(task_id))
    assert (refusal.code, refusal.message) == (
        "conflict",
        "task has used 6 of 5 tokens, resume it with a higher tokenLimit",
    )
    assert (await api.resume(task_id, token_limit=7)).status == Task.queued
    assert (await api.get(task_id)).token_limit == 7


async def test_a_held_task_is_shown_as_held_until_it_is_resumed(api):
    response = await api.submit(hold=True)
    assert response.state == Task.pending
    assert (await api.get(response.task_id)).hold
    assert (await api.resume(response.task_id)).status == Task.queued
    assert not (await api.get(response.task_id)).HasField("hold")


async def test_a_held_task_that_is_not_yet_due_is_pending_after_its_resume(api):
    response = await api.submit(hold=True, not_before={"seconds": 4_000_000_000})
    assert (await api.resume(response.task_id)).status == Task.pending
    task = await api.get(response.task_id)
    assert (task.HasField("hold"), task.not_before.seconds) == (False, 4_000_000_000)


async def test_a_time_before_the_year_1_is_refused(api, refused):
    refusal = await refused(api.submit(hold=True, not_before={"seconds": -(2**62)}))
    assert (refusal.code, refusal.message) == ("bad_request", "notBefore: must be a time after the year 0")


async def test_the_stats_count_paused_tasks_only_while_there_are_any(api):
    assert not (await api.stats()).queue.HasField("total_paused")
    task_id = await paused(api)
    assert (await api.stats()).queue.total_paused == 1
    await api.resolve(task_id)
    assert not (await api.stats()).queue.HasField("total_paused")


async def test_a_resume_takes_its_failure_out_of_the_stats(api):
    task_id = (await api.submit()).task_id
    await api.fail(await api.run_one())
    assert (await api.stats()).metrics.tasks_failed == 1
    await api.resume(task_id)
    assert (await api.stats()).metrics.tasks_failed == 0


async def test_a_watch_shows_the_task_at_each_step(api):
    watch = api.watch(include_current=True)
    await watch.read()
    task_id = await paused(api)
    await api.resume(task_id)
    await api.fail(await api.run_one())
    await api.resolve(task_id)
    steps = []
    while not steps or steps[-1][0] != Task.done:
        steps += [(event.task.state, event.task.run, event.task.error) for event in (await watch.read()).events]
    watch.cancel()
    assert steps == [
        (Task.queued, 0, ""),
        (Task.assigned, 0, ""),
        (Task.running, 0, ""),
        (Task.paused, 0, "Job was interrupted by user"),
        (Task.queued, 2, ""),
        (Task.assigned, 2, ""),
        (Task.running, 2, ""),
        (Task.failed, 2, "broken"),
        (Task.done, 2, ""),
    ]


async def test_a_wait_continues_while_a_task_is_paused(api):
    task_id = await paused(api)
    response = await api.wait(task_id, timeout_ms=10)
    assert (response.ended, response.task.state) == (False, Task.paused)


# Namespaces

ELSEWHERE = (("taskyard-namespace", "elsewhere"),)


@pytest.mark.parametrize("call", ["pause", "resume", "resolve"])
async def test_a_task_of_another_namespace_is_not_found(api, refused, call):
    await api.submit(metadata=ELSEWHERE)
    task_id = await paused(api)
    refusal = await refused(getattr(api, call)(task_id, metadata=ELSEWHERE))
    assert (refusal.code, refusal.message) == ("not_found", "task not found")
    assert (await api.get(task_id)).state == Task.paused


async def test_paused_tasks_and_tokens_are_counted_in_their_own_namespace_only(api):
    await api.submit(metadata=ELSEWHERE)
    task_id = (await api.submit()).task_id
    await api.report_tokens(await api.run_one(), 7)
    await api.pause(task_id)
    stats = await api.stats(metadata=ELSEWHERE)
    assert not stats.queue.HasField("total_paused")
    assert not stats.metrics.agents["ann"].HasField("tokens_used")
    assert (await api.stats()).metrics.agents["ann"].tokens_used == 7
