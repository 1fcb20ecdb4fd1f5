"""Submitting, reading and listing tasks, and reading figures, against a real server."""

from datetime import UTC, datetime, timedelta

import pytest

from taskyard import (
    BadRequest,
    NewTask,
    NotFound,
    QueueFull,
    RetryPolicy,
    TaskState,
    TooLarge,
)
from tests.store.dict_store import DictStore


async def ids(client, **filters):
    return [task.id async for task in client.list(**filters)]


# Submitting and reading


async def test_a_submitted_task_is_queued_and_can_be_read(client):
    submitted = await client.submit("click")
    assert (submitted.state, submitted.position) == (TaskState.QUEUED, 1)
    task = await client.get(submitted.id)
    assert (task.id, task.agent_id, task.action, task.state) == (submitted.id, "ann", "click", "queued")
    assert task.created_at == submitted.created_at
    assert abs(datetime.now(UTC) - task.created_at) < timedelta(seconds=5)


async def test_all_fields_of_a_task_survive_the_round_trip(client):
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
        "retry_policy": RetryPolicy(max_attempts=3, first_delay=timedelta(milliseconds=5), non_retryable_codes=("no",)),
        "idempotency_key": "key",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "agent_id": "bob",
    }
    task = await client.get((await client.submit("click", **fields)).id)
    assert {name: getattr(task, name) for name in fields} == fields
    assert type(task.params["x"]) is int


async def test_a_deadline_may_be_a_span_from_now(client):
    before = datetime.now(UTC)
    task = await client.get((await client.submit("click", deadline=timedelta(seconds=30))).id)
    assert before <= task.deadline - timedelta(seconds=30) <= datetime.now(UTC)


async def test_a_new_task_is_submitted_with_the_given_fields_replaced(client):
    template = NewTask("click", params={"x": 1}, priority=5)
    task = await client.get((await client.submit(template, priority=2, tab_id="t")).id)
    assert (task.action, task.params, task.priority, task.tab_id) == ("click", {"x": 1}, 2, "t")


async def test_a_task_gets_an_idempotency_key_unless_it_has_one(client):
    plain, keyed = await client.submit("click"), await client.submit("click", idempotency_key="mine")
    assert len((await client.get(plain.id)).idempotency_key) == 32
    assert (await client.get(keyed.id)).idempotency_key == "mine"


async def test_one_idempotency_key_makes_one_task(client):
    first, again = [await client.submit("click", idempotency_key="mine") for _ in range(2)]
    assert again == first


async def test_namespaces_are_isolated(server, client, open_client):
    other = open_client(server, namespace="other")
    task_id = (await other.submit("click")).id
    assert await ids(client) == []
    assert await ids(other) == [task_id]


REFUSED = {
    "no agent": ({"agent_id": ""}, BadRequest),
    "a deadline in the past": ({"deadline": timedelta(seconds=-1)}, BadRequest),
    "a callback that is no URL": ({"callback_url": "ftp://x"}, BadRequest),
    "params too large for the server": ({"params": {"x": "x" * 2_000_001}}, TooLarge),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_a_refusal_of_the_server_raises_the_error_of_its_code(server, open_client, what):
    client = open_client(server, agent_id="")
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
async def test_values_that_the_api_cannot_express_are_refused_before_they_are_sent(server, client, fields, kind):
    with pytest.raises(kind):
        await client.submit("click", **fields)
    assert server.service.messages == []


async def test_a_full_queue_names_its_figures_and_the_rejected_task(open_server, open_client):
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
    assert (raised.value.code, raised.value.retryable, raised.value.retry_after) == ("not_found", False, None)


# Listing


async def test_tasks_are_listed_in_order_of_submission_over_all_pages(client):
    submitted = [(await client.submit(f"a{number}")).id for number in range(7)]
    assert await ids(client, page_size=3) == submitted


async def test_a_list_is_filtered_by_the_server(client):
    mine = (await client.submit("click")).id
    other = (await client.submit("click", agent_id="bob")).id
    await client.cancel(other)
    assert await ids(client, agent_id="ann") == [mine]
    assert await ids(client, states=[TaskState.CANCELLED, "done"]) == [other]
    with pytest.raises(BadRequest, match="state"):
        await ids(client, states=["no-such"])
    with pytest.raises(TypeError):
        await ids(client, states="done")


async def test_a_list_may_begin_with_the_youngest_task(client):
    submitted = [(await client.submit(f"a{number}")).id for number in range(5)]
    assert await ids(client, newest_first=True, page_size=2) == submitted[::-1]


async def test_a_list_is_bounded_by_the_times_that_tasks_show(client):
    submitted = [(await client.submit(f"a{number}")).id for number in range(5)]
    at = (await client.get(submitted[2])).created_at
    assert await ids(client, created_from=at) == submitted[2:]
    assert await ids(client, created_until=at) == submitted[:2]
    assert await ids(client, created_from=at, created_until=at) == []
    with pytest.raises(ValueError, match="time zone"):
        await ids(client, created_from=at.replace(tzinfo=None))


async def test_a_filter_that_there_is_not_is_an_error(client):
    with pytest.raises(TypeError, match="tasks are not listed by colour"):
        await ids(client, colour="red")


async def test_the_history_has_tasks_that_left_memory(open_server, open_client):
    client = open_client(await open_server(store=DictStore(), max_retained_tasks=0))
    submitted = [(await client.submit("click")).id for _ in range(3)]
    for task_id in submitted:
        await client.cancel(task_id)
    assert await ids(client) == []
    assert await ids(client, history=True, page_size=2) == submitted
    assert await ids(client, history=True, newest_first=True, states=["cancelled"]) == submitted[::-1]
    assert (await client.get(submitted[0])).state is TaskState.CANCELLED
    assert (await client.wait(submitted[0])).state is TaskState.CANCELLED


# Figures


async def test_counts_in_the_stats_are_whole_numbers(server, client):
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
