"""Retry policies and token budgets at the door: what is taken, what the task shows, what the stats sum up."""

import asyncio

import pytest

from taskyard.v1.batch_pb2 import BatchTask
from taskyard.v1.task_pb2 import RetryPolicy, SubmitTaskRequest, SubmitTasksRequest, Task
from taskyard_server.core.history import RetryPolicy as CorePolicy
from tests import reporting

SOON = {"max_attempts": 3, "first_delay_ms": 0}


async def until(api, task_id, state):
    """Wait for the engine's own timer to bring a task into a state."""
    watch = api.watch(task_ids=[task_id], include_current=True)
    async with asyncio.timeout(10):
        while all(event.task.state != state for event in (await watch.read()).events):
            pass
    watch.cancel()


# Retries


async def test_a_task_shows_its_policy_with_every_default(api):
    task_id = (await api.submit(retry_policy={})).task_id
    assert (await api.get(task_id)).retry_policy == RetryPolicy(
        max_attempts=1, first_delay_ms=1_000, multiplier=2, max_delay_ms=60_000
    )


async def test_a_task_shows_its_policy_as_it_was_given(api):
    policy = RetryPolicy(
        max_attempts=2**32 - 1,
        first_delay_ms=2**32 - 1,
        multiplier=1.5,
        max_delay_ms=0,
        non_retryable_codes=["auth", "gone"],
    )
    task_id = (await api.submit(retry_policy=policy)).task_id
    assert (await api.get(task_id)).retry_policy == policy


async def test_a_task_without_a_policy_shows_none(api):
    task_id = (await api.submit()).task_id
    await api.fail(await api.run_one())
    task = await api.get(task_id)
    assert not task.HasField("retry_policy")
    assert not task.attempts


async def test_a_task_that_waits_for_its_next_attempt_is_pending_with_its_time(api):
    task_id = (await api.submit(retry_policy={"max_attempts": 2, "first_delay_ms": 30_000})).task_id
    await api.fail(await api.run_one(), "no route")
    task = await api.get(task_id)
    assert (task.state, task.HasField("error")) == (Task.pending, False)
    assert [attempt.error for attempt in task.attempts] == ["no route"]
    assert 14 < task.not_before.seconds - task.started_at.seconds < 32
    assert not task.HasField("completed_at")
    assert (await api.stats()).metrics.tasks_retried == 1


async def test_the_attempts_are_visible_the_one_under_way_too(api):
    task_id = (await api.submit(retry_policy=SOON)).task_id
    assert not (await api.get(task_id)).attempts
    (lease,) = await api.claim()
    (assigned,) = (await api.get(task_id)).attempts
    assert (assigned.number, assigned.host_id, assigned.HasField("started_at")) == (1, "host", False)
    await api.start(lease)
    await reporting.fail(api.engine, "default", "host", task_id, lease.token, "broken", True, "net")
    await until(api, task_id, Task.queued)
    await api.run_one()
    over, running = (await api.get(task_id)).attempts
    assert (over.number, over.error, over.code, over.HasField("ended_at")) == (1, "broken", "net", True)
    assert (running.number, running.HasField("started_at"), running.HasField("ended_at")) == (2, True, False)
    assert not running.HasField("error")


async def test_a_task_with_many_long_attempts_still_fits_a_message(api):
    task_id = (await api.submit(retry_policy={"max_attempts": 300, "first_delay_ms": 0})).task_id
    task = await api.engine.tasks.get("default", task_id)
    lease = await api.run_one()
    for _ in range(100):
        task.history = task.history.with_attempt("h" * 1_000, 1.0, 2.0, "\U0001f642" * 10_000, "\U0001f642" * 1_024)
    await reporting.fail(api.engine, "default", "host", task_id, lease.token, "\U0001f642" * 10_000, False, None)
    shown = await api.get(task_id)
    assert len(shown.attempts) == 100
    assert len(shown.error) == 10_000


# The policy of an action


async def doors(api, action, policy=None):
    """The same task submitted through each door: alone, in a batch, over a stream."""
    own = {} if policy is None else {"retry_policy": policy}
    alone = await api.submit(action=action, **own)
    batch = await api.submit_batch(BatchTask(action=action, **own))
    request = SubmitTaskRequest(agent_id="ann", action=action, **own)
    stream = api.tasks.SubmitTasks(iter([SubmitTasksRequest(tasks=[request])]))
    outcomes = (await stream.read()).outcomes
    return [alone.task_id, batch.tasks[0].task_id, outcomes[0].accepted.task_id]


async def test_a_task_without_a_policy_takes_that_of_its_action(start_api):
    api = await start_api(default_retry={"click": CorePolicy(4)}.get)
    for task_id in await doors(api, "click"):
        assert (await api.get(task_id)).retry_policy.max_attempts == 4
    for task_id in await doors(api, "type"):
        assert not (await api.get(task_id)).HasField("retry_policy")


async def test_a_policy_of_its_own_replaces_that_of_its_action_as_a_whole(start_api):
    api = await start_api(default_retry={"click": CorePolicy(4, 9.0)}.get)
    for task_id in await doors(api, "click", {}):
        policy = (await api.get(task_id)).retry_policy
        assert (policy.max_attempts, policy.first_delay_ms) == (1, 1_000)


# Idempotency


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"retry_policy": {}}, {"retry_policy": {"max_attempts": 1, "multiplier": 2}}),
        (
            {"retry_policy": {"non_retryable_codes": ["a", "b", "a"]}},
            {"retry_policy": {"non_retryable_codes": ["b", "a"]}},
        ),
        ({"hold": False}, {}),
        ({"target": ""}, {}),
    ],
)
async def test_two_spellings_of_one_body_are_one_task(api, first, second):
    answers = [await api.submit(idempotency_key="k", **fields) for fields in (first, second)]
    assert answers[0].task_id == answers[1].task_id


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"token_limit": 0}, {}),
        ({"hold": True}, {}),
        ({"target": "t"}, {"target": "u"}),
        ({"retry_policy": {"max_attempts": 2}}, {"retry_policy": {"max_attempts": 3}}),
        ({"not_before": {"seconds": 4_000_000_000}}, {"not_before": {"seconds": 4_000_000_001}}),
    ],
)
async def test_two_bodies_that_differ_in_an_option_are_two_tasks(api, refused, first, second):
    await api.submit(idempotency_key="k", **first)
    assert (await refused(api.submit(idempotency_key="k", **second))).code == "already_exists"


async def test_a_key_holds_over_retry_and_resume_at_every_door(api):
    policy = {"max_attempts": 2, "first_delay_ms": 0}
    fields = {"action": "a", "target": "t", "retry_policy": policy, "idempotency_key": "k"}
    task_id = (await api.submit(**fields)).task_id

    async def again():
        alone = await api.submit(**fields)
        batch = await api.submit_batch(BatchTask(**fields))
        request = SubmitTaskRequest(agent_id="ann", **fields)
        outcomes = (await api.tasks.SubmitTasks(iter([SubmitTasksRequest(tasks=[request])])).read()).outcomes
        assert {alone.task_id, batch.tasks[0].task_id, outcomes[0].accepted.task_id} == {task_id}
        return alone.state

    await api.fail(await api.run_one())
    assert await again() == Task.pending
    await until(api, task_id, Task.queued)
    await api.fail(await api.run_one())
    assert await again() == Task.failed
    await api.resume(task_id)
    assert await again() == Task.queued
    await api.run_one()
    await api.pause(task_id)
    assert await again() == Task.paused
    await api.resolve(task_id)
    assert await again() == Task.done
    assert (await api.list_tasks()).count == 1


async def test_the_same_key_in_another_namespace_is_another_task(api):
    task_id = (await api.submit(idempotency_key="k")).task_id
    await api.fail(await api.run_one())
    await api.resume(task_id)
    elsewhere = await api.submit(idempotency_key="k", metadata=(("taskyard-namespace", "elsewhere"),))
    assert elsewhere.task_id != task_id


async def test_retries_are_counted_in_their_own_namespace(api):
    elsewhere = (("taskyard-namespace", "elsewhere"),)
    await api.submit(metadata=elsewhere, retry_policy=SOON)
    await api.submit(retry_policy=SOON)
    await api.fail(await api.run_one())
    assert (await api.stats()).metrics.tasks_retried == 1
    assert not (await api.stats(metadata=elsewhere)).metrics.HasField("tasks_retried")


# Budgets


async def test_a_task_shows_its_budget_and_what_it_used(api):
    task_id = (await api.submit(token_limit=10)).task_id
    task = await api.get(task_id)
    assert (task.token_limit, task.HasField("tokens_used")) == (10, False)
    lease = await api.run_one()
    await api.report_tokens(lease, 4)
    assert (await api.get(task_id)).tokens_used == 4
    await api.report_tokens(lease, 11)
    task = await api.get(task_id)
    assert (task.state, task.error, task.tokens_used) == (Task.failed, "token limit exceeded", 11)


async def test_tokens_are_summed_by_agent_in_the_stats(api):
    for agent, tokens in (("ann", 3), ("bob", 4), ("ann", 5)):
        await api.submit(agent_id=agent)
        await api.report_tokens(await api.run_one(), tokens)
    await api.submit(agent_id="cy")
    agents = (await api.stats()).metrics.agents
    assert (agents["ann"].tokens_used, agents["bob"].tokens_used) == (8, 4)
    assert not agents["cy"].HasField("tokens_used")


async def test_a_sum_that_is_too_large_for_its_field_is_shown_as_the_largest(api):
    task_id = (await api.submit(retry_policy=SOON)).task_id
    for _ in range(2):
        lease = await api.run_one()
        await api.report_tokens(lease, 2**32 - 1)
        await api.fail(lease)
        await until(api, task_id, Task.queued)
    assert (await api.get(task_id)).tokens_used == 2**32 - 1
    assert (await api.stats()).metrics.agents["ann"].tokens_used == 2 * (2**32 - 1)
