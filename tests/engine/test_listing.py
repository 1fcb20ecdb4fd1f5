"""Listings: every task in order of submission, a page at a time, whatever happens between two pages."""

import asyncio
from itertools import chain, islice

import pytest

from taskyard_server.core.task import TaskState
from taskyard_server.engine.port import TaskFilter
from tests import reporting

NS = "default"
ALL = TaskFilter()


@pytest.fixture
async def large(make_engine, asked):
    """An engine with 5,000 tasks: more than a listing walks in one turn."""
    engine = make_engine(max_queue_size=1_000_000, max_per_agent=1_000_000)
    for number in range(5_000):
        await engine.tasks.submit(NS, asked("rare" if number in RARE else "ann", priority=number))
    return engine


RARE = [0, 1, 1_998, 1_999, 2_000, 2_001, 3_999, 4_000, 4_999]


def numbers(tasks):
    return [task.priority for task in tasks]


async def pages(engine, wanted, limit, between=None):
    """All pages; `between` is done after each."""
    found, after = [], 0
    while after is not None:
        page = await engine.tasks.list_tasks(NS, wanted, after, limit)
        assert len(page.tasks) <= limit
        found.append(numbers(page.tasks))
        after = page.next_after
        if between is not None:
            await between()
    return found


async def test_a_listing_is_in_order_of_submission_whatever_the_claim_order(engine, host, asked):
    for number, (agent, priority) in enumerate([("bob", 5), ("ann", 0), ("bob", -1)]):
        await engine.tasks.submit(NS, asked(agent, str(number), priority=priority))
    await engine.leases.claim(NS, host, 2)
    page = await engine.tasks.list_tasks(NS, ALL, 0, 10)
    assert [task.action for task in page.tasks] == ["0", "1", "2"]
    assert page.next_after is None


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
async def test_there_is_a_next_page_if_and_only_if_there_is_more(engine, asked, limit):
    for number in range(3):
        await engine.tasks.submit(NS, asked(priority=number))
    page = await engine.tasks.list_tasks(NS, ALL, 0, limit)
    assert numbers(page.tasks) == list(range(min(limit, 3)))
    assert (page.next_after is not None) == (limit < 3)


async def test_a_listing_can_be_filtered_by_agent_states_and_batch(engine, host, asked):
    await engine.tasks.submit(NS, asked("ann"))
    batch = (await engine.tasks.submit_batch(NS, [asked("ann"), asked("ann")])).batch
    bob = await engine.tasks.submit(NS, asked("bob"))
    (lease,) = await engine.leases.claim(NS, host)

    async def ids(**wanted):
        return [task.id for task in (await engine.tasks.list_tasks(NS, TaskFilter(**wanted), 0, 10)).tasks]

    assert await ids(agent_id="bob") == [bob.id]
    assert await ids(agent_id="nobody") == []
    assert await ids(states=frozenset({TaskState.ASSIGNED})) == [lease.task.id]
    assert len(await ids(states=frozenset({TaskState.ASSIGNED, TaskState.QUEUED}))) == 4
    assert await ids(batch_id=batch.id) == list(batch.tasks)
    assert await ids(batch_id=batch.id, agent_id="bob") == []
    assert len(await ids(agent_id="ann", states=frozenset({TaskState.QUEUED}))) == 2


@pytest.mark.parametrize("limit", [700, 1_999, 2_000, 2_001, 4_999, 5_000])
async def test_the_pages_of_a_long_listing_hold_every_task_once_in_order(large, limit):
    found = await pages(large, ALL, limit)
    assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
    assert list(chain(*found)) == list(range(5_000))
    assert found[-1]


async def test_tasks_submitted_between_two_pages_come_last_and_disturb_nothing(large, asked):
    fresh = iter(range(5_000, 5_030))

    async def submit_some():
        for number in islice(fresh, 10):
            await large.tasks.submit(NS, asked(priority=number))

    found = await pages(large, ALL, 700, submit_some)
    assert list(chain(*found)) == list(range(5_030))


async def test_tasks_that_go_between_two_pages_disturb_nothing(make_engine, clock, asked):
    engine = make_engine(max_queue_size=10_000, max_per_agent=10_000, result_ttl_secs=1)
    tasks = [await engine.tasks.submit(NS, asked(priority=number)) for number in range(6_000)]
    gone = iter([[*range(600), *range(700, 800)], range(1_400, 5_000)])

    async def forget_some():
        for number in next(gone, ()):
            await engine.tasks.cancel(NS, tasks[number].id)
        await clock.pass_time(1)
        await clock.settle()

    found = await pages(engine, ALL, 700, forget_some)
    assert list(chain(*found)) == [*range(700), *range(800, 1_500), *range(5_000, 6_000)]


@pytest.mark.parametrize("limit", [1, 2, 4, 8, 9, 10])
async def test_a_rare_match_is_found_wherever_it_lies(large, limit):
    found = await pages(large, TaskFilter(agent_id="rare"), limit)
    assert list(chain(*found)) == RARE
    assert all(len(page) == limit for page in found[:-1])


async def test_a_listing_may_start_anywhere(large):
    page = await large.tasks.list_tasks(NS, ALL, 0, 3_000)
    again = await large.tasks.list_tasks(NS, ALL, page.tasks[1_234].seq, 2)
    assert numbers(again.tasks) == [1_235, 1_236]


async def test_a_listing_past_the_end_is_empty(engine, asked):
    task = await engine.tasks.submit(NS, asked())
    for after in (task.seq, task.seq + 1, 1 << 50):
        page = await engine.tasks.list_tasks(NS, ALL, after, 10)
        assert (page.tasks, page.next_after) == ([], None)


async def test_listed_tasks_are_as_they_were_when_they_were_read(engine, host, asked):
    task = await engine.tasks.submit(NS, asked())
    (listed,) = (await engine.tasks.list_tasks(NS, ALL, 0, 10)).tasks
    (lease,) = await engine.leases.claim(NS, host)
    await reporting.complete(engine, NS, host, task.id, lease.token, b"result")
    assert (listed.id, listed.state, listed.result) == (task.id, "queued", None)


async def test_others_get_their_turn_while_a_long_listing_is_made(large):
    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count_turns())
    await large.tasks.list_tasks(NS, TaskFilter(agent_id="nobody"), 0, 10)
    counting.cancel()
    assert turns >= 2


async def test_a_listing_goes_on_over_tasks_that_are_submitted_and_cancelled_meanwhile(large, asked):
    first, *_ = (await large.tasks.list_tasks(NS, ALL, 0, 1)).tasks

    async def disturb():
        for number in range(5_000, 5_020):
            await large.tasks.submit(NS, asked(priority=number))
            await asyncio.sleep(0)
        await large.tasks.cancel(NS, first.id)

    disturbing = asyncio.ensure_future(disturb())
    page = await large.tasks.list_tasks(NS, ALL, 0, 10_000)
    await disturbing
    assert numbers(page.tasks)[:5_000] == list(range(5_000))
