"""ListTasks (scheduler-reference, List Tasks): filters, and pages in order of submission."""

from itertools import chain

import pytest
from google.protobuf.struct_pb2 import Struct, Value

from taskyard.v1.batch_pb2 import BatchTask


async def in_pages(door, **fields):
    """The ids on each page, until there is no further token."""
    pages, token = [], None
    while True:
        answer = await door.list_tasks(**fields, page_token=token)
        assert answer.count == len(answer.tasks)
        pages.append([task.task_id for task in answer.tasks])
        if not answer.HasField("next_page_token"):
            return pages
        token = answer.next_page_token


@pytest.fixture
async def zoo(open_door, refused):
    """Two agents and a task in every state that is reached by now; the door, and the ids by agent and state."""
    door = await open_door(max_queue_size=8)
    ids = {}

    async def put(agent, state):
        ids[agent, state] = (await door.submit(agent_id=agent)).task_id

    for agent in ("ann", "bob"):
        for state in ("done", "failed", "running", "assigned"):
            await put(agent, state)
    for lease in await door.claim(8):
        state = next(state for (_, state), task_id in ids.items() if task_id == lease.task.id)
        if state != "assigned":
            await door.start(lease)
        if state in ("done", "failed"):
            await {"done": door.complete, "failed": door.fail}[state](lease)
    for agent in ("ann", "bob"):
        await put(agent, "cancelled")
        await door.cancel(ids[agent, "cancelled"])
    for _ in range(4):
        await put("ann", "queued")
        await put("bob", "queued")
    for agent in ("ann", "bob"):
        await refused(door.submit(agent_id=agent))
        ids[agent, "rejected"] = (await door.list_tasks(agent_id=agent, state="rejected")).tasks[0].task_id
    return door, ids


async def test_an_empty_yard_answers_no_tasks_and_a_count_of_zero(door):
    answer = await door.list_tasks()
    assert not answer.tasks
    assert answer.HasField("count")
    assert answer.count == 0
    assert not answer.HasField("next_page_token")


async def test_without_a_filter_all_tasks_are_listed_in_order_of_submission(door):
    orders = [("ann", 9), ("bob", 5), ("ann", 1), ("bob", 6)]
    ids = [(await door.submit(agent_id=agent, priority=priority)).task_id for agent, priority in orders]
    assert [task.task_id for task in (await door.list_tasks()).tasks] == ids


async def test_agent_id_selects_the_tasks_of_that_agent(zoo):
    door, _ = zoo
    answer = await door.list_tasks(agent_id="ann")
    assert answer.count == 10
    assert {task.agent_id for task in answer.tasks} == {"ann"}


async def test_an_agent_without_tasks_has_none(zoo):
    door, _ = zoo
    assert (await door.list_tasks(agent_id="an")).count == 0


@pytest.mark.parametrize("state", ["done", "failed", "running", "assigned", "cancelled", "rejected"])
async def test_state_selects_the_tasks_in_that_state(zoo, state):
    door, ids = zoo
    answer = await door.list_tasks(state=state)
    assert [task.task_id for task in answer.tasks] == [ids["ann", state], ids["bob", state]]


@pytest.mark.parametrize("state", ["pending", "paused"])
async def test_a_state_that_no_task_is_in_selects_none(zoo, state):
    door, _ = zoo
    assert (await door.list_tasks(state=state)).count == 0


async def test_both_filters_together_select_what_matches_both(zoo):
    """The documented example: `agentId=agent-crawl-01&state=done,failed`."""
    door, ids = zoo
    answer = await door.list_tasks(agent_id="ann", state="done,failed")
    assert [task.task_id for task in answer.tasks] == [ids["ann", "done"], ids["ann", "failed"]]


@pytest.mark.parametrize("state", ["", ",", " , "])
async def test_an_empty_state_selects_all(zoo, state):
    door, _ = zoo
    assert (await door.list_tasks(state=state)).count == 20


async def test_states_may_be_spaced_and_repeated(zoo):
    door, _ = zoo
    assert (await door.list_tasks(state=" done , failed,,done ")).count == 4


async def test_batch_id_selects_the_tasks_of_that_batch(door):
    await door.submit()
    batch = await door.submit_batch(BatchTask(action="a"), BatchTask(action="b"))
    answer = await door.list_tasks(batch_id=batch.batch_id)
    assert [task.action for task in answer.tasks] == ["a", "b"]
    assert (await door.list_tasks(batch_id="bat_unknown")).count == 0


async def test_a_task_with_its_result_is_listed_as_documented(door):
    task_id = (await door.submit()).task_id
    (lease,) = await door.claim()
    await door.start(lease)
    await door.complete(lease, Value(bool_value=True))
    (task,) = (await door.list_tasks()).tasks
    assert task == await door.get(task_id)
    assert task.HasField("latency_ms")
    assert task.result.bool_value


# Pages


async def test_more_than_a_thousand_tasks_come_in_pages_of_a_thousand(open_door):
    door = await open_door(max_queue_size=3000, max_per_agent=3000)
    ids = []
    for _ in range(42):
        answer = await door.submit_batch(*[BatchTask(action="a")] * 50)
        ids += [task.task_id for task in answer.tasks]
    pages = await in_pages(door)
    assert [len(page) for page in pages] == [1000, 1000, 100]
    assert list(chain(*pages)) == ids


async def test_exactly_a_thousand_tasks_are_one_page(open_door):
    door = await open_door(max_per_agent=1000)
    for _ in range(20):
        await door.submit_batch(*[BatchTask(action="a")] * 50)
    assert [len(page) for page in await in_pages(door)] == [1000]


@pytest.mark.parametrize(("size", "pages"), [(0, [20]), (1, [1] * 20), (6, [6, 6, 6, 2]), (10, [10, 10]), (1000, [20])])
async def test_page_size_bounds_each_page(zoo, size, pages):
    door, _ = zoo
    answers = await in_pages(door, page_size=size)
    assert [len(answer) for answer in answers] == pages
    assert list(chain(*answers)) == [task.task_id for task in (await door.list_tasks()).tasks]


async def test_a_filtered_listing_is_paged_too(zoo):
    door, ids = zoo
    pages = await in_pages(door, state="done,failed,running", agent_id="bob", page_size=2)
    assert pages == [[ids["bob", "done"], ids["bob", "failed"]], [ids["bob", "running"]]]


@pytest.mark.parametrize(
    "other", [{}, {"agent_id": "bob"}, {"agent_id": "ann", "state": "queued"}, {"batch_id": "ann"}]
)
async def test_a_page_token_is_good_for_its_own_filter_only(zoo, refused, other):
    door, _ = zoo
    token = (await door.list_tasks(agent_id="ann", page_size=1)).next_page_token
    refusal = await refused(door.list_tasks(**other, page_token=token))
    assert refusal.code == "bad_request"
    assert refusal.message == "pageToken: is not a token of this listing"


async def test_the_page_size_may_change_from_page_to_page(zoo):
    door, _ = zoo
    first = await door.list_tasks(page_size=3)
    rest = await door.list_tasks(page_size=1000, page_token=first.next_page_token)
    assert (first.count, rest.count) == (3, 17)
    assert not rest.HasField("next_page_token")


async def test_a_task_that_came_meanwhile_is_on_a_later_page(door):
    ids = [(await door.submit()).task_id for _ in range(3)]
    first = await door.list_tasks(page_size=2)
    ids.append((await door.submit()).task_id)
    second = await door.list_tasks(page_token=first.next_page_token)
    assert [task.task_id for task in [*first.tasks, *second.tasks]] == ids


async def test_a_page_ends_before_the_answer_is_too_large_for_a_client(open_door):
    """Clients take messages of up to 4 MiB; forty tasks of 200 kB are twice that."""
    door = await open_door(max_per_agent=100)
    params = Struct()
    params["text"] = "x" * 200_000
    ids = [(await door.submit(params=params)).task_id for _ in range(40)]
    pages = await in_pages(door)
    assert list(chain(*pages)) == ids
    assert 2 < len(pages) < 5


async def test_results_count_towards_the_size_of_a_page(open_door):
    door = await open_door(max_per_agent_inflight=20)
    ids = [(await door.submit()).task_id for _ in range(20)]
    for lease in await door.claim(20):
        await door.complete(lease, Value(string_value="x" * 400_000))
    pages = await in_pages(door)
    assert list(chain(*pages)) == ids
    assert 2 < len(pages) < 5


async def test_a_task_larger_than_a_page_stands_alone_on_one(open_door):
    door = await open_door(max_payload_bytes=4_000_000)
    params = Struct()
    params["text"] = "x" * 3_500_000
    ids = [(await door.submit(params=params)).task_id for _ in range(3)]
    assert await in_pages(door) == [[task_id] for task_id in ids]
