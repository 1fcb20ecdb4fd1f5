"""ListTasks (docs/rules.md, Listing): filters, and pages in order of submission."""

from collections import Counter
from itertools import chain

import pytest
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import task_pb2 as pb
from taskyard.v1.batch_pb2 import BatchTask


async def in_pages(api, **fields):
    """The ids on each page of a listing."""
    pages, token = [], None
    while True:
        response = await api.list_tasks(**fields, page_token=token)
        assert response.count == len(response.tasks)
        pages.append([task.task_id for task in response.tasks])
        if not response.HasField("next_page_token"):
            return pages
        token = response.next_page_token


@pytest.fixture
async def tasks_in_all_states(start_api, refused):
    """A server with tasks of two agents in every state, and their ids by agent and state."""
    api = await start_api(max_queue_size=8)
    ids = {}

    async def submit(agent, state):
        ids[agent, state] = (await api.submit(agent_id=agent)).task_id

    for agent in ("ann", "bob"):
        for state in ("done", "failed", "running", "assigned"):
            await submit(agent, state)
    for lease in await api.claim(8):
        state = next(state for (_, state), task_id in ids.items() if task_id == lease.task.id)
        if state != "assigned":
            await api.start(lease)
        if state in ("done", "failed"):
            await {"done": api.complete, "failed": api.fail}[state](lease)
    for agent in ("ann", "bob"):
        await submit(agent, "cancelled")
        await api.cancel(ids[agent, "cancelled"])
    for _ in range(4):
        await submit("ann", "queued")
        await submit("bob", "queued")
    for agent in ("ann", "bob"):
        await refused(api.submit(agent_id=agent))
        ids[agent, "rejected"] = (await api.list_tasks(agent_id=agent, state="rejected")).tasks[0].task_id
    return api, ids


async def test_an_empty_listing_has_no_tasks_and_a_count_of_zero(api):
    response = await api.list_tasks()
    assert not response.tasks
    assert response.HasField("count")
    assert response.count == 0
    assert not response.HasField("next_page_token")


async def test_without_a_filter_all_tasks_are_listed_in_order_of_submission(api):
    submissions = [("ann", 9), ("bob", 5), ("ann", 1), ("bob", 6)]
    ids = [(await api.submit(agent_id=agent, priority=priority)).task_id for agent, priority in submissions]
    assert [task.task_id for task in (await api.list_tasks()).tasks] == ids


async def test_agent_id_selects_the_tasks_of_that_agent(tasks_in_all_states):
    api, _ = tasks_in_all_states
    response = await api.list_tasks(agent_id="ann")
    assert response.count == 10
    assert {task.agent_id for task in response.tasks} == {"ann"}


async def test_an_agent_without_tasks_has_none(tasks_in_all_states):
    api, _ = tasks_in_all_states
    assert (await api.list_tasks(agent_id="an")).count == 0


@pytest.mark.parametrize("state", ["done", "failed", "running", "assigned", "cancelled", "rejected"])
async def test_state_selects_the_tasks_in_that_state(tasks_in_all_states, state):
    api, ids = tasks_in_all_states
    response = await api.list_tasks(state=state)
    assert [task.task_id for task in response.tasks] == [ids["ann", state], ids["bob", state]]


@pytest.mark.parametrize("state", ["pending", "paused"])
async def test_a_state_without_tasks_selects_none(tasks_in_all_states, state):
    api, _ = tasks_in_all_states
    assert (await api.list_tasks(state=state)).count == 0


async def test_two_filters_select_the_tasks_that_match_both(tasks_in_all_states):
    """The documented example: `agentId=agent-crawl-01&state=done,failed`."""
    api, ids = tasks_in_all_states
    response = await api.list_tasks(agent_id="ann", state="done,failed")
    assert [task.task_id for task in response.tasks] == [ids["ann", "done"], ids["ann", "failed"]]


@pytest.mark.parametrize("state", ["", ",", " , "])
async def test_an_empty_state_selects_all(tasks_in_all_states, state):
    api, _ = tasks_in_all_states
    assert (await api.list_tasks(state=state)).count == 20


async def test_live_selects_all_that_have_not_ended(tasks_in_all_states):
    api, _ = tasks_in_all_states
    live = (await api.list_tasks(state="live")).tasks
    assert Counter(pb.Task.State.Name(task.state) for task in live) == {"running": 2, "assigned": 2, "queued": 8}
    assert (await api.list_tasks(state="live, done")).count == len(live) + 2


async def test_live_has_those_that_wait_for_their_next_attempt(api):
    retry = pb.RetryPolicy(max_attempts=2, first_delay_ms=60_000)
    task_id = (await api.submit(retry_policy=retry)).task_id
    (lease,) = await api.claim(1)
    await api.start(lease)
    await api.fail(lease)
    assert [task.task_id for task in (await api.list_tasks(state="live")).tasks] == [task_id]
    assert not (await api.list_tasks(state="queued,assigned,running")).tasks


async def test_states_can_have_spaces_and_repetitions(tasks_in_all_states):
    api, _ = tasks_in_all_states
    assert (await api.list_tasks(state=" done , failed,,done ")).count == 4


async def test_batch_id_selects_the_tasks_of_that_batch(api):
    await api.submit()
    batch = await api.submit_batch(BatchTask(action="a"), BatchTask(action="b"))
    response = await api.list_tasks(batch_id=batch.batch_id)
    assert [task.action for task in response.tasks] == ["a", "b"]
    assert (await api.list_tasks(batch_id="bat_unknown")).count == 0


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("site=shop", ["a", "b"]),
        ("site=shop,team!=red", ["b"]),
        ("site in (shop,news)", ["a", "b", "c"]),
        ("!site", ["d"]),
        (" ", ["a", "b", "c", "d"]),
    ],
)
async def test_labels_select_the_tasks_whose_labels_match(api, selector, selected):
    marks = {"a": {"site": "shop", "team": "red"}, "b": {"site": "shop"}, "c": {"site": "news"}, "d": {}}
    for action, labels in marks.items():
        await api.submit(action=action, labels=labels)
    assert [task.action for task in (await api.list_tasks(labels=selector)).tasks] == selected
    newest = (await api.list_tasks(labels=selector, newest_first=True)).tasks
    assert [task.action for task in newest] == selected[::-1]


async def test_action_key_host_end_and_error_select_the_tasks_that_have_them(api):
    ids = [(await api.submit(action="crawl")).task_id]
    ids.append((await api.submit(concurrency_keys=["site:1", "site:2"])).task_id)
    (lease,) = await api.claim()
    await api.start(lease)
    await api.fail(lease, error="Out of INK")
    ended = (await api.get(ids[0])).completed_at

    async def listed(**fields):
        return [task.task_id for task in (await api.list_tasks(**fields)).tasks]

    assert await listed(action="crawl") == ids[:1]
    assert await listed(concurrency_key="site:2") == ids[1:]
    assert await listed(host_id=lease.task.host_id) == ids[:1]
    assert await listed(error="of ink") == ids[:1]
    assert await listed(ended_from=ended) == ids[:1]
    assert await listed(ended_until=ended) == await listed(action="craw") == await listed(error="ink!") == []
    assert await listed(action="crawl", concurrency_key="site:1") == []


async def test_a_task_is_found_by_how_its_id_begins(api):
    ids = [(await api.submit()).task_id for _ in range(3)]

    async def listed(prefix, **fields):
        return [task.task_id for task in (await api.list_tasks(id_prefix=prefix, **fields)).tasks]

    assert await listed("tsk_") == ids
    assert await listed("tsk_", newest_first=True) == ids[::-1]
    assert await listed(ids[1]) == await listed(ids[1][:26]) == ids[1:2]
    assert await listed(ids[1].upper()) == await listed("bat_0") == await listed(ids[1] + "0") == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"labels": "site in shop"}, 'labels: expected "(" after in, found "shop" at character 9'),
        ({"error": "x" * 1_025}, "error: must be at most 1024 characters"),
        ({"id_prefix": "tsk"}, "idPrefix: must be 4 to 64 characters"),
        ({"ended_from": Timestamp(seconds=253_402_300_800)}, "endedFrom: must be a time before the year 10000"),
        ({"ended_until": Timestamp(seconds=1, nanos=-1)}, "endedUntil: must be a time before the year 10000"),
    ],
)
async def test_a_malformed_filter_is_refused(api, refused, fields, message):
    refusal = await refused(api.list_tasks(**fields))
    assert (refusal.code, refusal.message) == ("bad_request", message)


async def test_a_task_with_its_result_is_listed_as_documented(api):
    task_id = (await api.submit()).task_id
    (lease,) = await api.claim()
    await api.start(lease)
    await api.complete(lease, Value(bool_value=True))
    (task,) = (await api.list_tasks()).tasks
    assert task == await api.get(task_id)
    assert task.HasField("latency_ms")
    assert task.result.bool_value


# Pages


async def test_more_than_a_thousand_tasks_are_listed_in_pages_of_a_thousand(start_api):
    api = await start_api(max_queue_size=3000, max_per_agent=3000)
    ids = []
    for _ in range(42):
        response = await api.submit_batch(*[BatchTask(action="a")] * 50)
        ids += [task.task_id for task in response.tasks]
    pages = await in_pages(api)
    assert [len(page) for page in pages] == [1000, 1000, 100]
    assert list(chain(*pages)) == ids


async def test_exactly_a_thousand_tasks_are_one_page(start_api):
    api = await start_api(max_per_agent=1000)
    for _ in range(20):
        await api.submit_batch(*[BatchTask(action="a")] * 50)
    assert [len(page) for page in await in_pages(api)] == [1000]


@pytest.mark.parametrize(("size", "pages"), [(0, [20]), (1, [1] * 20), (6, [6, 6, 6, 2]), (10, [10, 10]), (1000, [20])])
async def test_the_page_size_limits_each_page(tasks_in_all_states, size, pages):
    api, _ = tasks_in_all_states
    listed = await in_pages(api, page_size=size)
    assert [len(response) for response in listed] == pages
    assert list(chain(*listed)) == [task.task_id for task in (await api.list_tasks()).tasks]


async def test_a_filtered_listing_is_paged(tasks_in_all_states):
    api, ids = tasks_in_all_states
    pages = await in_pages(api, state="done,failed,running", agent_id="bob", page_size=2)
    assert pages == [[ids["bob", "done"], ids["bob", "failed"]], [ids["bob", "running"]]]


@pytest.mark.parametrize(
    "other_filters",
    [
        {},
        {"agent_id": "bob"},
        {"agent_id": "ann", "state": "queued"},
        {"batch_id": "ann"},
        {"agent_id": "ann", "labels": "!x"},
    ],
)
async def test_a_page_token_is_valid_for_its_own_filter_only(tasks_in_all_states, refused, other_filters):
    api, _ = tasks_in_all_states
    token = (await api.list_tasks(agent_id="ann", page_size=1)).next_page_token
    refusal = await refused(api.list_tasks(**other_filters, page_token=token))
    assert refusal.code == "bad_request"
    assert refusal.message == "pageToken: is not a token of this listing"


@pytest.mark.parametrize(
    "other", [{"labels": "site"}, {}, {"labels": "site=b"}, {"labels": "site=a", "action": "click"}]
)
async def test_a_page_token_is_valid_for_its_own_labels_only(api, refused, other):
    for _ in range(3):
        await api.submit(labels={"site": "a"})
    first = await api.list_tasks(labels="site=a", page_size=2)
    assert (await api.list_tasks(labels="site=a", page_token=first.next_page_token)).count == 1
    assert (await refused(api.list_tasks(**other, page_token=first.next_page_token))).code == "bad_request"


async def test_the_page_size_can_change_between_pages(tasks_in_all_states):
    api, _ = tasks_in_all_states
    first = await api.list_tasks(page_size=3)
    second = await api.list_tasks(page_size=1000, page_token=first.next_page_token)
    assert (first.count, second.count) == (3, 17)
    assert not second.HasField("next_page_token")


async def test_a_task_submitted_between_two_pages_is_on_a_later_page(api):
    ids = [(await api.submit()).task_id for _ in range(3)]
    first = await api.list_tasks(page_size=2)
    ids.append((await api.submit()).task_id)
    second = await api.list_tasks(page_token=first.next_page_token)
    assert [task.task_id for task in [*first.tasks, *second.tasks]] == ids


async def test_a_page_ends_before_the_response_is_too_large_for_a_client(start_api):
    """Clients accept messages of up to 4 MiB; forty tasks of 200 kB are twice that."""
    api = await start_api(max_per_agent=100)
    params = Struct()
    params["text"] = "x" * 200_000
    ids = [(await api.submit(params=params)).task_id for _ in range(40)]
    pages = await in_pages(api)
    assert list(chain(*pages)) == ids
    assert 2 < len(pages) < 5


async def test_results_count_towards_the_size_of_a_page(start_api):
    api = await start_api(max_per_agent_inflight=20)
    ids = [(await api.submit()).task_id for _ in range(20)]
    for lease in await api.claim(20):
        await api.complete(lease, Value(string_value="x" * 400_000))
    pages = await in_pages(api)
    assert list(chain(*pages)) == ids
    assert 2 < len(pages) < 5


async def test_a_task_larger_than_a_page_is_alone_on_its_page(start_api):
    api = await start_api(max_payload_bytes=4_000_000)
    params = Struct()
    params["text"] = "x" * 3_500_000
    ids = [(await api.submit(params=params)).task_id for _ in range(3)]
    assert await in_pages(api) == [[task_id] for task_id in ids]
