"""The calls of the client, each against a real server: what they answer and what they raise."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from taskyard import (
    BadRequest,
    BatchTooLarge,
    Client,
    ClientClosed,
    Conflict,
    NewTask,
    NotFound,
    QueueFull,
    RetryPolicy,
    TargetStatus,
    TaskFailed,
    TaskState,
    TaskyardError,
    TooLarge,
    Unavailable,
)
from taskyard.values import value_from
from taskyard_server.core import errors as refusals
from tests import reporting
from tests.ports import free_port


async def ids(client, **filters):
    return [task.id async for task in client.list(**filters)]


# Submitting and getting


async def test_a_submitted_task_is_queued_and_can_be_got(client):
    submitted = await client.submit("click")
    assert (submitted.state, submitted.position) == (TaskState.QUEUED, 1)
    task = await client.get(submitted.task_id)
    assert (task.id, task.agent_id, task.action, task.state) == (submitted.task_id, "ann", "click", "queued")
    assert task.created_at == submitted.created_at
    assert abs(datetime.now(UTC) - task.created_at) < timedelta(seconds=5)


async def test_all_fields_of_a_task_arrive_and_come_back(client):
    deadline = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=500)
    fields = {
        "params": {"x": 1, "text": "hi", "ratio": 0.5, "deep": {"list": [1, None, True, {}]}},
        "tab_id": "tab",
        "ref": "e14",
        "priority": -3,
        "deadline": deadline,
        "callback_url": "https://example.com/cb",
        "project": "p",
        "requires": ("gpu", "x86"),
        "labels": {"a": "b"},
        "target": "t",
        "hold": True,
        "not_before": deadline - timedelta(seconds=400),
        "token_limit": 7,
        "retry_policy": RetryPolicy(max_attempts=3, first_delay_ms=5, non_retryable_codes=("no",)),
        "idempotency_key": "key",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "agent_id": "bob",
    }
    task = await client.get((await client.submit("click", **fields)).task_id)
    assert {name: getattr(task, name) for name in fields} == fields
    assert type(task.params["x"]) is int


async def test_a_deadline_may_be_a_span_from_now(client):
    before = datetime.now(UTC)
    task = await client.get((await client.submit("click", deadline=timedelta(seconds=30))).task_id)
    assert before <= task.deadline - timedelta(seconds=30) <= datetime.now(UTC)


async def test_a_new_task_is_submitted_with_the_given_fields_replaced(client):
    template = NewTask("click", params={"x": 1}, priority=5)
    task = await client.get((await client.submit(template, priority=2, tab_id="t")).task_id)
    assert (task.action, task.params, task.priority, task.tab_id) == ("click", {"x": 1}, 2, "t")


async def test_a_task_gets_an_idempotency_key_unless_it_has_one(client):
    plain, keyed = await client.submit("click"), await client.submit("click", idempotency_key="mine")
    assert len((await client.get(plain.task_id)).idempotency_key) == 32
    assert (await client.get(keyed.task_id)).idempotency_key == "mine"


async def test_the_same_key_of_its_own_is_one_task(client):
    first, again = [await client.submit("click", idempotency_key="mine") for _ in range(2)]
    assert again == first


async def test_a_namespace_is_a_world_of_its_own(server, client, open_client):
    other = open_client(server, namespace="other")
    task_id = (await other.submit("click")).task_id
    assert await ids(client) == []
    assert await ids(other) == [task_id]


REFUSED = {
    "no agent": ({"agent_id": ""}, BadRequest),
    "a deadline in the past": ({"deadline": timedelta(seconds=-1)}, BadRequest),
    "a callback that is no URL": ({"callback_url": "ftp://x"}, BadRequest),
    "params too large for the server": ({"params": {"x": "x" * 2_000_001}}, TooLarge),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_what_the_server_refuses_raises_its_own_error(server, open_client, what):
    client = open_client(server, agent="")
    fields, kind = REFUSED[what]
    with pytest.raises(kind) as raised:
        await client.submit("click", **{"agent_id": "ann", **fields})
    assert raised.value.reason
    assert not raised.value.retryable
    assert str(raised.value) == f"{raised.value.code}: {raised.value.reason}"


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"params": {"x": object()}}, TypeError),
        ({"params": {1: "x"}}, TypeError),
        ({"params": {"x": 10**400}}, ValueError),
        ({"deadline": datetime(2100, 1, 1)}, ValueError),
        ({"requires": "gpu"}, TypeError),
        ({"priority": 2**40}, ValueError),
    ],
)
async def test_what_the_api_cannot_express_is_refused_here(server, client, fields, kind):
    with pytest.raises(kind):
        await client.submit("click", **fields)
    assert server.service.messages == []


async def test_a_full_queue_names_the_figures_and_the_task_that_is_kept(open_server, open_client):
    client = open_client(await open_server(max_queue_size=1))
    await client.submit("click")
    with pytest.raises(QueueFull) as raised:
        await client.submit("type")
    error = raised.value
    assert (error.code, error.reason, error.retryable) == ("queue_full", "rejected: global queue full", True)
    assert error.details == {"agentId": "ann", "queued": 1, "maxQueue": 1, "maxPerAgent": 100}
    assert (await client.get(error.task_id)).state is TaskState.REJECTED


async def test_an_unknown_task_is_not_found(client):
    with pytest.raises(NotFound) as raised:
        await client.get("tsk_0")
    assert (raised.value.code, raised.value.retryable, raised.value.retry_after_secs) == ("not_found", False, None)


# Listing


async def test_a_list_goes_over_all_pages_in_order_of_submission(client):
    submitted = [(await client.submit(f"a{number}")).task_id for number in range(7)]
    assert await ids(client, page_size=3) == submitted


async def test_filters_of_a_list_are_those_of_the_server(client):
    mine = (await client.submit("click")).task_id
    other = (await client.submit("click", agent_id="bob")).task_id
    await client.cancel(other)
    assert await ids(client, agent="ann") == [mine]
    assert await ids(client, states=[TaskState.CANCELLED, "done"]) == [other]
    with pytest.raises(BadRequest, match="state"):
        await ids(client, states=["no-such"])
    with pytest.raises(TypeError):
        await ids(client, states="done")


# Waiting


async def test_wait_answers_the_task_once_it_has_ended(server, client):
    submitted = await client.submit("click")
    waiting = asyncio.create_task(client.wait(submitted.task_id))
    (lease,) = await server.claim()
    assert not waiting.done()
    await server.complete(lease, value_from({"clicked": 3}).SerializeToString())
    task = await waiting
    assert (task.state, task.state.ended, task.result) == (TaskState.DONE, True, {"clicked": 3})
    assert task.completed_at is not None
    assert task.host_id == "host"


@pytest.mark.parametrize("time", [0, 0.05, timedelta(milliseconds=50)])
async def test_wait_raises_when_the_time_is_up(client, time):
    submitted = await client.submit("click")
    with pytest.raises(TimeoutError, match=submitted.task_id):
        await client.wait(submitted.task_id, time)


async def test_wait_goes_on_after_a_piece_of_the_wait_is_over(server, client, monkeypatch):
    monkeypatch.setattr("taskyard.task_calls.WAIT_PIECE_SECS", 0.01)
    submitted = await client.submit("click")
    waiting = asyncio.create_task(client.wait(submitted.task_id, timeout=60))
    await asyncio.sleep(0.1)
    (lease,) = await server.claim()
    await server.complete(lease)
    assert (await waiting).state is TaskState.DONE


async def test_wait_survives_a_restart_of_the_server(server, client):
    submitted = await client.submit("click")
    waiting = asyncio.create_task(client.wait(submitted.task_id, timeout=60))
    await client.get(submitted.task_id)
    await server.stop()
    await server.start()
    (lease,) = await server.claim()
    await server.complete(lease)
    assert (await waiting).state is TaskState.DONE


async def test_wait_for_an_unknown_task_is_not_found(client):
    with pytest.raises(NotFound):
        await client.wait("tsk_0", timeout=60)


async def test_run_answers_the_result(server, client):
    running = asyncio.create_task(client.run("click", params={"x": 1}))
    await server.complete(await server.claim_soon(), value_from([1, 2]).SerializeToString())
    assert await running == [1, 2]


async def test_run_raises_what_a_task_failed_with(server, client):
    running = asyncio.create_task(client.run("click"))
    await server.fail(await server.claim_soon(), "no such element")
    with pytest.raises(TaskFailed, match="failed: no such element") as raised:
        await running
    assert raised.value.task.state is TaskState.FAILED


# Ending


async def test_a_cancelled_task_has_ended_and_cannot_be_cancelled_again(client):
    task_id = (await client.submit("click")).task_id
    assert await client.cancel(task_id) is TaskState.CANCELLED
    assert (await client.get(task_id)).state is TaskState.CANCELLED
    with pytest.raises(Conflict):
        await client.cancel(task_id)
    with pytest.raises(NotFound):
        await client.cancel("tsk_0")


# Interrupting


async def test_a_running_task_is_paused_and_queued_again_by_resume(server, client):
    task_id = (await client.submit("click", deadline=timedelta(seconds=500))).task_id
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


async def test_a_failed_task_is_queued_again_by_resume(server, client):
    task_id = (await client.submit("click")).task_id
    await server.fail(await server.run(), "no such element")
    assert await client.resume(task_id) is TaskState.QUEUED
    await server.complete(await server.run())
    task = await client.wait(task_id)
    assert (task.state, task.run) == (TaskState.DONE, 2)


@pytest.mark.parametrize("result", [None, {"by": "hand"}, [1, None], "done", 0, False])
async def test_a_paused_task_is_resolved_with_any_result(server, client, result):
    task_id = (await client.submit("click")).task_id
    await server.run()
    await client.pause(task_id)
    assert await client.resolve(task_id, result) is TaskState.DONE
    assert (await client.get(task_id)).result == result


@pytest.mark.parametrize("name", ["pause", "resume", "resolve"])
async def test_a_move_from_the_wrong_state_is_a_conflict_and_an_unknown_task_not_found(client, name):
    task_id = (await client.submit("click")).task_id
    with pytest.raises(Conflict, match="task is queued, only a"):
        await getattr(client, name)(task_id)
    with pytest.raises(NotFound):
        await getattr(client, name)("tsk_0")


async def test_a_held_task_is_pending_until_it_is_resumed(server, client):
    submitted = await client.submit("click", hold=True)
    assert submitted.state is TaskState.PENDING
    assert (await client.get(submitted.task_id)).hold
    assert await server.claim() == []
    assert await client.resume(submitted.task_id) is TaskState.QUEUED
    task = await client.get(submitted.task_id)
    assert (task.state, task.hold) == (TaskState.QUEUED, False)


async def test_a_task_with_a_time_is_pending_until_then(server, client):
    before = datetime.now(UTC)
    late = await client.submit("click", not_before=timedelta(hours=1))
    assert late.state is TaskState.PENDING
    assert before < (await client.get(late.task_id)).not_before - timedelta(hours=1) <= datetime.now(UTC)
    soon = await client.submit("click", not_before=timedelta(milliseconds=200))
    assert soon.state is TaskState.PENDING
    assert (await server.claim_soon()).task.id == soon.task_id
    assert (await client.get(soon.task_id)).not_before is None


# Retries and budgets


async def test_a_task_shows_its_retry_policy_and_its_attempts(server, client):
    policy = RetryPolicy(max_attempts=2, first_delay_ms=1, multiplier=1.5, max_delay_ms=9, non_retryable_codes=("no",))
    task_id = (await client.submit("click", retry_policy=policy)).task_id
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


async def test_a_task_shows_its_budget_and_what_it_used_and_fails_over_it(server, client):
    task_id = (await client.submit("click", token_limit=10)).task_id
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
    first, second = [(await client.submit("click", target="t")).task_id for _ in range(2)]
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


async def test_targets_go_over_all_pages_by_name_and_are_filtered_by_status(server, client):
    await client.submit("click", target="t0")
    await server.run()
    for number in range(6, 0, -1):
        await client.submit("click", target=f"t{number}")

    async def names(*words, **options):
        return [target.name async for target in client.targets(*words, **options)]

    assert await names(page_size=3) == [f"t{number}" for number in range(7)]
    assert await names("running") == ["t0"]
    assert await names(status=TargetStatus.READY, page_size=2) == [f"t{number}" for number in range(1, 7)]
    assert await names(TargetStatus.BLOCKED) == []
    with pytest.raises(ValueError, match="no-such"):
        await names("no-such")


# Batches


async def test_a_batch_tells_how_each_task_fared(open_server, open_client):
    client = open_client(await open_server(max_queue_size=2))
    batch = await client.submit_batch([NewTask("click"), NewTask("type", params={"x": 1}), NewTask("scroll")])
    assert [each.state for each in batch.outcomes] == ["queued", "queued", "rejected"]
    assert [each.position for each in batch.outcomes] == [1, 2, None]
    assert batch.task_ids == tuple(each.task_id for each in batch.outcomes[:2])
    refusal = batch.outcomes[2].error
    assert isinstance(refusal, QueueFull)
    assert refusal.task_id == batch.outcomes[2].task_id
    assert (await client.get(batch.task_ids[1])).params == {"x": 1}


async def test_a_batch_can_be_got_and_cancelled(client):
    batch = await client.submit_batch(
        [NewTask("click"), NewTask("type")], agent="bob", callback_url="https://example.com/cb"
    )
    await client.cancel(batch.task_ids[0])
    got = await client.get_batch(batch.id)
    assert (got.id, got.agent_id, got.ended) == (batch.id, "bob", False)
    assert got.states == {TaskState.CANCELLED: 1, TaskState.QUEUED: 1}
    assert [task.id for task in got.tasks] == list(batch.task_ids)
    assert {task.callback_url for task in got.tasks} == {"https://example.com/cb"}
    assert await client.cancel_batch(batch.id) == 1
    assert (await client.get_batch(batch.id)).ended


async def test_a_batch_that_is_refused_as_a_whole_submits_nothing(server, client):
    with pytest.raises(BadRequest):
        await client.submit_batch([])
    with pytest.raises(BadRequest, match=r"tasks\[1\]"):
        await client.submit_batch([NewTask("click"), NewTask("")])
    with pytest.raises(BatchTooLarge):
        await client.submit_batch([NewTask("click")] * 51)
    with pytest.raises(ValueError, match="agent_id"):
        await client.submit_batch([NewTask("click", agent_id="bob")])
    with pytest.raises(NotFound):
        await client.get_batch("bat_0")
    assert await server.made() == 0


# Figures


async def test_stats_are_whole_numbers_by_name(server, client):
    await client.submit("click")
    await client.submit("click")
    (lease,) = await server.claim()
    await server.complete(lease)
    stats = await client.stats()
    assert (stats.queue.total_queued, stats.queue.agent_counts) == (1, {"ann": 1})
    assert type(stats.metrics.tasks_submitted) is int
    assert (stats.metrics.tasks_submitted, stats.metrics.tasks_completed) == (2, 1)
    assert stats.metrics.agents["ann"].submitted == 2
    assert (stats.config.strategy, stats.config.max_queue_size) == ("fair-fifo", 20_000)


# The connection


async def test_a_server_that_is_not_there_is_unavailable():
    async with Client(f"127.0.0.1:{free_port()}", agent="ann", patience=0.2) as client:
        for call in (client.submit("click"), client.cancel("tsk_0"), client.submit_batch([NewTask("click")])):
            with pytest.raises(Unavailable) as raised:
                await call
            assert raised.value.retryable


async def test_a_safe_call_bears_a_restart_of_the_server(server, client):
    task_id = (await client.submit("click")).task_id
    await server.stop()
    getting = asyncio.create_task(client.get(task_id))
    cancelling = asyncio.create_task(client.cancel(task_id))
    await asyncio.sleep(0)
    await server.start()
    assert (await getting).id == task_id
    assert await cancelling is TaskState.CANCELLED


async def test_a_repeated_cancel_that_had_worked_is_no_conflict(server, client, monkeypatch):
    task_id = (await client.submit("click")).task_id
    real, calls = server.service.CancelTask, []

    async def works_but_does_not_answer_at_first(request, context):
        answer = await real(request, context)
        calls.append(1)
        if len(calls) == 1:
            raise refusals.Unavailable("gone")
        return answer

    monkeypatch.setattr(server.service, "CancelTask", works_but_does_not_answer_at_first)
    await server.stop()
    await server.start()
    assert await client.cancel(task_id) is TaskState.CANCELLED


async def test_a_repeated_batch_is_named_by_the_one_that_holds_its_tasks(server, client):
    task_ids = []
    real = server.engine.submit_batch

    async def works_but_does_not_answer_at_first(namespace, asked):
        answer = await real(namespace, asked)
        task_ids.append([task.id for task in answer.outcomes])
        if len(task_ids) == 1:
            raise refusals.Unavailable("gone")
        return answer

    server.engine.submit_batch = works_but_does_not_answer_at_first
    batch = await client.submit_batch([NewTask("click"), NewTask("type")])
    assert task_ids[0] == task_ids[1] == list(batch.task_ids)
    assert [task.id for task in (await client.get_batch(batch.id)).tasks] == task_ids[0]
    assert await server.made() == 2


async def test_a_closed_client_says_so(client):
    task_id = (await client.submit("click")).task_id
    await client.close()
    for call in (client.submit("click"), client.get(task_id), client.wait(task_id)):
        with pytest.raises(ClientClosed, match="closed"):
            await call
    with pytest.raises(ClientClosed, match="closed"):
        client.watch()
    await client.close()


async def test_a_call_under_way_when_the_client_closes_says_so(client):
    task_id = (await client.submit("click")).task_id
    waiting = asyncio.create_task(client.wait(task_id))
    await client.get(task_id)
    await client.close()
    with pytest.raises(ClientClosed, match="closed"):
        await waiting


async def test_an_answer_that_does_not_come_in_time_is_its_own_error(server, open_client, monkeypatch):
    async def never(*_):
        await asyncio.Event().wait()

    monkeypatch.setattr(server.engine, "get", never)
    client = open_client(server, timeout=timedelta(milliseconds=50))
    with pytest.raises(TaskyardError) as raised:
        await client.get("tsk_0")
    assert raised.value.code == "deadline_exceeded"
