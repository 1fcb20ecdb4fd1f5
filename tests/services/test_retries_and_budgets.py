"""Retry policies and token budgets in requests, tasks and stats."""

import asyncio

import pytest

from taskyard.v1.batch_pb2 import BatchTask
from taskyard.v1.task_pb2 import RetryPolicy, SubmitTaskRequest, SubmitTasksRequest, Task
from taskyard_server.core.history import RetryPolicy as CorePolicy
from tests import reporting
from tests.live import live
from tests.waiting import LIMIT_SECS

IMMEDIATE_RETRIES = {"max_attempts": 3, "first_delay_ms": 0}


async def wait_for_state(api, task_id, state):
    """Wait until a timer of the engine brings a task into a state."""
    watch = api.watch(task_ids=[task_id], include_current=True)
    async with asyncio.timeout(LIMIT_SECS):
        while all(event.task.state != state for event in (await watch.read()).events):
            pass
    watch.cancel()


# Retries


async def test_a_task_shows_its_policy_with_every_default(api):
    task_id = (await api.submit(retry_policy={})).task_id
    assert (await api.get(task_id)).retry_policy == RetryPolicy(
        max_attempts=1, first_delay_ms=1_000, multiplier=2, max_delay_ms=60_000
    )


async def test_a_task_shows_its_policy(api):
    policy = RetryPolicy(
        max_attempts=2**32 - 1,
        first_delay_ms=2**32 - 1,
        multiplier=1.5,
        max_delay_ms=0,
        non_retryable_codes=["auth", "gone"],
    )
    task_id = (await api.submit(retry_policy=policy)).task_id
    assert (await api.get(task_id)).retry_policy == policy


async def test_a_task_without_a_policy_shows_neither_policy_nor_attempts(api):
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


async def test_a_task_shows_its_attempts_including_the_one_in_progress(api):
    task_id = (await api.submit(retry_policy=IMMEDIATE_RETRIES)).task_id
    assert not (await api.get(task_id)).attempts
    (lease,) = await api.claim()
    (assigned,) = (await api.get(task_id)).attempts
    assert (assigned.number, assigned.host_id, assigned.HasField("started_at")) == (1, "host", False)
    await api.start(lease)
    await reporting.fail(api.engine, "default", "host", task_id, lease.token, "broken", True, "net")
    await wait_for_state(api, task_id, Task.queued)
    await api.run_one()
    ended, running = (await api.get(task_id)).attempts
    assert (ended.number, ended.error, ended.code, ended.HasField("ended_at")) == (1, "broken", "net", True)
    assert (running.number, running.HasField("started_at"), running.HasField("ended_at")) == (2, True, False)
    assert not running.HasField("error")


async def test_a_task_with_many_long_attempts_fits_into_a_message(api):
    task_id = (await api.submit(retry_policy={"max_attempts": 300, "first_delay_ms": 0})).task_id
    task = await api.engine.tasks.get("default", task_id, show=live)
    lease = await api.run_one()
    for _ in range(100):
        task.history = task.history.with_attempt("h" * 1_000, 1.0, 2.0, "\U0001f642" * 10_000, "\U0001f642" * 1_024)
    await reporting.fail(api.engine, "default", "host", task_id, lease.token, "\U0001f642" * 10_000, False, None)
    task = await api.get(task_id)
    assert len(task.attempts) == 100
    assert len(task.error) == 10_000


# The policy of an action


async def submit_by_every_method(api, action, policy=None):
    """The ids of the same task submitted by each method: alone, in a batch, over a stream."""
    fields = {} if policy is None else {"retry_policy": policy}
    single = await api.submit(action=action, **fields)
    batch = await api.submit_batch(BatchTask(action=action, **fields))
    request = SubmitTaskRequest(agent_id="ann", action=action, **fields)
    stream = api.tasks.SubmitTasks(iter([SubmitTasksRequest(tasks=[request])]))
    outcomes = (await stream.read()).outcomes
    return [single.task_id, batch.tasks[0].task_id, outcomes[0].accepted.task_id]


async def test_a_task_without_a_policy_gets_that_of_its_action(start_api):
    api = await start_api(default_retry={"click": CorePolicy(4)}.get)
    for task_id in await submit_by_every_method(api, "click"):
        assert (await api.get(task_id)).retry_policy.max_attempts == 4
    for task_id in await submit_by_every_method(api, "type"):
        assert not (await api.get(task_id)).HasField("retry_policy")


async def test_the_policy_of_a_task_replaces_that_of_its_action_as_a_whole(start_api):
    api = await start_api(default_retry={"click": CorePolicy(4, 9.0)}.get)
    for task_id in await submit_by_every_method(api, "click", {}):
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
async def test_two_equivalent_requests_are_one_task(api, first, second):
    responses = [await api.submit(idempotency_key="k", **fields) for fields in (first, second)]
    assert responses[0].task_id == responses[1].task_id


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
async def test_requests_that_differ_in_an_option_are_different_tasks(api, refused, first, second):
    await api.submit(idempotency_key="k", **first)
    assert (await refused(api.submit(idempotency_key="k", **second))).code == "already_exists"


async def test_a_key_returns_its_task_through_retries_and_resumes_by_every_method(start_api, clock):
    api = await start_api(clock=clock)
    policy = {"max_attempts": 2, "first_delay_ms": 1_000}
    fields = {"action": "a", "target": "t", "retry_policy": policy, "idempotency_key": "k"}
    task_id = (await api.submit(**fields)).task_id

    async def resubmit():
        single = await api.submit(**fields)
        batch = await api.submit_batch(BatchTask(**fields))
        request = SubmitTaskRequest(agent_id="ann", **fields)
        outcomes = (await api.tasks.SubmitTasks(iter([SubmitTasksRequest(tasks=[request])])).read()).outcomes
        assert {single.task_id, batch.tasks[0].task_id, outcomes[0].accepted.task_id} == {task_id}
        return single.state

    await api.fail(await api.run_one())
    assert await resubmit() == Task.pending
    # The delay is at most a second, and what comes due does so at a full eighth.
    clock.now += 1.125
    await wait_for_state(api, task_id, Task.queued)
    await api.fail(await api.run_one())
    assert await resubmit() == Task.failed
    await api.resume(task_id)
    assert await resubmit() == Task.queued
    await api.run_one()
    await api.pause(task_id)
    assert await resubmit() == Task.paused
    await api.resolve(task_id)
    assert await resubmit() == Task.done
    assert (await api.list_tasks()).count == 1


async def test_the_same_key_in_another_namespace_is_another_task(api):
    task_id = (await api.submit(idempotency_key="k")).task_id
    await api.fail(await api.run_one())
    await api.resume(task_id)
    elsewhere = await api.submit(idempotency_key="k", metadata=(("taskyard-namespace", "elsewhere"),))
    assert elsewhere.task_id != task_id


async def test_retries_are_counted_in_their_own_namespace(api):
    elsewhere = (("taskyard-namespace", "elsewhere"),)
    await api.submit(metadata=elsewhere, retry_policy=IMMEDIATE_RETRIES)
    await api.submit(retry_policy=IMMEDIATE_RETRIES)
    await api.fail(await api.run_one())
    assert (await api.stats()).metrics.tasks_retried == 1
    assert not (await api.stats(metadata=elsewhere)).metrics.HasField("tasks_retried")


# Budgets


async def test_a_task_shows_its_budget_and_its_token_usage(api):
    task_id = (await api.submit(token_limit=10)).task_id
    task = await api.get(task_id)
    assert (task.token_limit, task.HasField("tokens_used")) == (10, False)
    lease = await api.run_one()
    await api.report_tokens(lease, 4)
    assert (await api.get(task_id)).tokens_used == 4
    await api.report_tokens(lease, 11)
    task = await api.get(task_id)
    assert (task.state, task.error, task.tokens_used) == (Task.failed, "token limit exceeded", 11)


async def test_the_stats_sum_tokens_by_agent(api):
    for agent, tokens in (("ann", 3), ("bob", 4), ("ann", 5)):
        await api.submit(agent_id=agent)
        await api.report_tokens(await api.run_one(), tokens)
    await api.submit(agent_id="cy")
    agents = (await api.stats()).metrics.agents
    assert (agents["ann"].tokens_used, agents["bob"].tokens_used) == (8, 4)
    assert not agents["cy"].HasField("tokens_used")


async def test_a_sum_that_exceeds_its_field_is_shown_as_the_maximum(api):
    task_id = (await api.submit(retry_policy=IMMEDIATE_RETRIES)).task_id
    for _ in range(2):
        lease = await api.run_one()
        await api.report_tokens(lease, 2**32 - 1)
        await api.fail(lease)
        await wait_for_state(api, task_id, Task.queued)
    assert (await api.get(task_id)).tokens_used == 2**32 - 1
    assert (await api.stats()).metrics.agents["ann"].tokens_used == 2 * (2**32 - 1)
