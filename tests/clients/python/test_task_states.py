"""Cancelling, pausing, resuming and resolving tasks; held tasks, retries and targets; against a real server."""

from datetime import UTC, datetime, timedelta

import pytest

from taskyard import (
    Conflict,
    NotFound,
    RetryPolicy,
    TargetStatus,
    TaskState,
)
from tests import reporting

# Cancelling


async def test_a_cancelled_task_has_ended_and_cannot_be_cancelled_again(client):
    task_id = (await client.submit("click")).id
    assert await client.cancel(task_id) is TaskState.CANCELLED
    assert (await client.get(task_id)).state is TaskState.CANCELLED
    with pytest.raises(Conflict):
        await client.cancel(task_id)
    with pytest.raises(NotFound):
        await client.cancel("tsk_0")


# Pausing, resuming and resolving


async def test_a_running_task_is_paused_and_resumed(server, client):
    task_id = (await client.submit("click", deadline=timedelta(seconds=500))).id
    await server.run()
    assert await client.pause(task_id) is TaskState.PAUSED
    paused = await client.get(task_id)
    assert (paused.state, paused.state.ended, paused.error) == ("paused", False, "Job was interrupted by user")
    assert (paused.deadline, paused.run) == (None, 1)
    assert await client.resume(task_id) is TaskState.QUEUED
    resumed = await client.get(task_id)
    assert (resumed.state, resumed.error, resumed.run) == ("queued", None, 2)
    assert resumed.deadline is not None
    assert (await server.run()).token == 2


async def test_a_failed_task_is_resumed(server, client):
    task_id = (await client.submit("click")).id
    await server.fail(await server.run(), "no such element")
    assert await client.resume(task_id) is TaskState.QUEUED
    await server.complete(await server.run())
    task = await client.wait(task_id)
    assert (task.state, task.run) == (TaskState.DONE, 2)


@pytest.mark.parametrize("result", [None, {"by": "hand"}, [1, None], "done", 0, False])
async def test_a_paused_task_is_resolved_with_any_result(server, client, result):
    task_id = (await client.submit("click")).id
    await server.run()
    await client.pause(task_id, reason="wrong site")
    assert (await client.get(task_id)).reason == "wrong site"
    assert await client.resolve(task_id, result, reason="by hand") is TaskState.DONE
    task = await client.get(task_id)
    assert (task.result, task.reason) == (result, "by hand")


@pytest.mark.parametrize("name", ["pause", "resume", "resolve"])
async def test_a_task_in_the_wrong_state_is_a_conflict_and_an_unknown_one_not_found(client, name):
    task_id = (await client.submit("click")).id
    with pytest.raises(Conflict, match="task is queued, only a"):
        await getattr(client, name)(task_id)
    with pytest.raises(NotFound):
        await getattr(client, name)("tsk_0")


async def test_a_held_task_is_pending_until_it_is_resumed(server, client):
    submitted = await client.submit("click", hold=True)
    assert submitted.state is TaskState.PENDING
    assert (await client.get(submitted.id)).hold
    assert await server.claim() == []
    assert await client.resume(submitted.id) is TaskState.QUEUED
    task = await client.get(submitted.id)
    assert (task.state, task.hold) == (TaskState.QUEUED, False)


async def test_a_task_for_later_is_pending_until_it_is_due(server, client):
    before = datetime.now(UTC)
    late = await client.submit("click", not_before=timedelta(hours=1))
    assert late.state is TaskState.PENDING
    assert before < (await client.get(late.id)).not_before - timedelta(hours=1) <= datetime.now(UTC)
    soon = await client.submit("click", not_before=timedelta(milliseconds=200))
    assert soon.state is TaskState.PENDING
    assert (await server.claim_soon()).task.id == soon.id
    assert (await client.get(soon.id)).not_before is None


# Retries and budgets


async def test_a_task_shows_its_retry_policy_and_its_attempts(server, client):
    policy = RetryPolicy(
        max_attempts=2,
        first_delay=timedelta(milliseconds=1),
        multiplier=1.5,
        max_delay=timedelta(milliseconds=9),
        non_retryable_codes=("no",),
    )
    task_id = (await client.submit("click", retry_policy=policy)).id
    task = await client.get(task_id)
    assert (task.retry_policy, task.attempts) == (policy, ())
    await server.fail(await server.run(), "no such element")
    await server.complete(await server.claim_soon())
    task = await client.wait(task_id)
    first, second = task.attempts
    assert (first.number, first.host_id, first.error) == (1, "host", "no such element")
    assert (second.number, second.error) == (2, None)
    assert task.started_at == first.started_at < first.ended_at <= second.started_at <= second.ended_at
    assert (task.state, task.run) == (TaskState.DONE, 1)
    assert (await client.stats()).metrics.tasks_retried == 1


async def test_a_task_shows_its_token_limit_and_usage_and_fails_over_the_limit(server, client):
    task_id = (await client.submit("click", token_limit=10)).id
    task = await client.get(task_id)
    assert (task.token_limit, task.tokens_used) == (10, None)
    lease = await server.run()
    await server.use(lease, 10)
    assert (await client.get(task_id)).tokens_used == 10
    await server.use(lease, 11)
    task = await client.get(task_id)
    assert (task.state, task.error, task.tokens_used) == ("failed", "token limit exceeded", 11)
    assert (await client.stats()).metrics.agents["ann"].tokens_used == 11


# Targets


async def test_tasks_of_a_target_run_one_at_a_time_and_a_paused_one_blocks_it(server, client):
    first, second = [(await client.submit("click", target="t")).id for _ in range(2)]
    assert (await client.get(first)).target == "t"
    await server.run()
    assert await server.claim() == []
    await client.pause(first)
    assert await server.claim() == []
    (target,) = [target async for target in client.targets()]
    assert (target.name, target.status, target.queued, target.task_id) == ("t", TargetStatus.BLOCKED, 1, first)
    assert target.waits_for == f"{first} to be resumed, resolved or cancelled"
    assert abs(datetime.now(UTC) - target.since) < timedelta(seconds=5)
    stats = await client.stats()
    assert (stats.queue.total_paused, stats.queue.waiting_for_target) == (1, 1)
    assert stats.queue.targets == {"t": target.waits_for}
    await client.resolve(first)
    await reporting.release(server.engine, "default", "host", first, 1)
    assert (await server.claim_soon()).task.id == second


async def test_targets_are_listed_by_name_over_all_pages_and_filtered_by_status(server, client):
    await client.submit("click", target="t0")
    await server.run()
    for number in range(6, 0, -1):
        await client.submit("click", target=f"t{number}")

    async def names(*arguments, **options):
        return [target.name async for target in client.targets(*arguments, **options)]

    assert await names(page_size=3) == [f"t{number}" for number in range(7)]
    assert await names("running") == ["t0"]
    assert await names(status=TargetStatus.READY, page_size=2) == [f"t{number}" for number in range(1, 7)]
    assert await names(TargetStatus.BLOCKED) == []
    with pytest.raises(ValueError, match="no-such"):
        await names("no-such")
