"""Listings: every task once, in order of submission, page by page, whatever changes between two pages."""

import asyncio
from itertools import chain, islice

import pytest

from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.core.task import TaskState
from tests import reporting
from tests.cases import every_case
from tests.live import live

NS = "default"
ALL = TaskFilter()


@pytest.fixture
async def large_engine(make_engine, submission):
    """An engine with 5,000 tasks: more than a listing scans per turn of the event loop."""
    engine = make_engine(max_queue_size=1_000_000, max_per_agent=1_000_000)
    tasks = [submission("rare" if number in RARE else "ann", priority=number) for number in range(5_000)]
    # A command each would take longer than what is shown here.
    await engine.tasks.submit_batch(NS, tasks, show=live)
    return engine


RARE = [0, 1, 1_998, 1_999, 2_000, 2_001, 3_999, 4_000, 4_999]


def numbers(tasks):
    return [task.priority for task in tasks]


async def read_pages(engine, task_filter, limit, between=None):
    """All pages of a listing. `between` is awaited after each."""
    pages, after = [], 0
    while after is not None:
        page = await engine.tasks.list_tasks(NS, task_filter, after, limit)
        assert len(page.tasks) <= limit
        pages.append(numbers(page.tasks))
        after = page.next_after
        if between is not None:
            await between()
    return pages


async def test_a_listing_is_in_order_of_submission_not_of_claims(engine, host, submission):
    for number, (agent, priority) in enumerate([("bob", 5), ("ann", 0), ("bob", -1)]):
        await engine.tasks.submit(NS, submission(agent, str(number), priority=priority), show=live)
    await engine.leases.claim(NS, host, 2, show=live)
    page = await engine.tasks.list_tasks(NS, ALL, 0, 10)
    assert [task.action for task in page.tasks] == ["0", "1", "2"]
    assert page.next_after is None


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
async def test_there_is_a_next_page_if_and_only_if_there_is_more(engine, submission, limit):
    for number in range(3):
        await engine.tasks.submit(NS, submission(priority=number), show=live)
    page = await engine.tasks.list_tasks(NS, ALL, 0, limit)
    assert numbers(page.tasks) == list(range(min(limit, 3)))
    assert (page.next_after is not None) == (limit < 3)


async def test_a_listing_can_be_filtered_by_agent_states_and_batch(engine, host, submission):
    await engine.tasks.submit(NS, submission("ann"), show=live)
    batch = (await engine.tasks.submit_batch(NS, [submission("ann"), submission("ann")], show=live)).batch
    bob = await engine.tasks.submit(NS, submission("bob"), show=live)
    (lease,) = await engine.leases.claim(NS, host, show=live)

    async def ids(**criteria):
        return [task.id for task in (await engine.tasks.list_tasks(NS, TaskFilter(**criteria), 0, 10)).tasks]

    assert await ids(agent_id="bob") == [bob.id]
    assert await ids(agent_id="nobody") == []
    assert await ids(states=frozenset({TaskState.ASSIGNED})) == [lease.task.id]
    assert len(await ids(states=frozenset({TaskState.ASSIGNED, TaskState.QUEUED}))) == 4
    assert await ids(batch_id=batch.id) == list(batch.tasks)
    assert await ids(batch_id=batch.id, agent_id="bob") == []
    assert len(await ids(agent_id="ann", states=frozenset({TaskState.QUEUED}))) == 2


@every_case("limit", [700, 1_999, 2_000, 2_001, 4_999, 5_000])
async def test_the_pages_of_a_long_listing_hold_every_task_once_in_order(large_engine, limit):
    pages = await read_pages(large_engine, ALL, limit)
    assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
    assert list(chain(*pages)) == list(range(5_000))
    assert pages[-1]


async def test_tasks_submitted_between_two_pages_come_last(large_engine, submission):
    fresh = iter(range(5_000, 5_030))

    async def submit_some():
        for number in islice(fresh, 10):
            await large_engine.tasks.submit(NS, submission(priority=number), show=live)

    pages = await read_pages(large_engine, ALL, 700, submit_some)
    assert list(chain(*pages)) == list(range(5_030))


async def test_tasks_evicted_between_two_pages_hide_no_others(make_engine, clock, submission):
    engine = make_engine(max_queue_size=10_000, max_per_agent=10_000, result_ttl_secs=1)
    batch = (await engine.tasks.submit_batch(NS, [submission(priority=n) for n in range(6_000)], show=live)).batch
    ids = list(batch.tasks)
    evicted = iter([[*range(600), *range(700, 800)], range(1_400, 5_000)])

    async def evict_some():
        for number in next(evicted, ()):
            await engine.tasks.cancel(NS, ids[number], show=live)
        await clock.advance(1)
        await clock.run_pending()

    pages = await read_pages(engine, ALL, 700, evict_some)
    assert list(chain(*pages)) == [*range(700), *range(800, 1_500), *range(5_000, 6_000)]


@every_case("limit", [1, 2, 4, 8, 9, 10])
async def test_rare_matches_are_found_anywhere_in_a_long_listing(large_engine, limit):
    pages = await read_pages(large_engine, TaskFilter(agent_id="rare"), limit)
    assert list(chain(*pages)) == RARE
    assert all(len(page) == limit for page in pages[:-1])


async def test_a_listing_can_start_after_any_task(large_engine):
    page = await large_engine.tasks.list_tasks(NS, ALL, 0, 3_000)
    again = await large_engine.tasks.list_tasks(NS, ALL, page.tasks[1_234].seq, 2)
    assert numbers(again.tasks) == [1_235, 1_236]


async def test_a_listing_past_the_end_is_empty(engine, submission):
    task = await engine.tasks.submit(NS, submission(), show=live)
    for after in (task.seq, task.seq + 1, 1 << 50):
        page = await engine.tasks.list_tasks(NS, ALL, after, 10)
        assert (page.tasks, page.next_after) == ([], None)


async def test_listed_tasks_are_copies(engine, host, submission):
    task = await engine.tasks.submit(NS, submission(), show=live)
    (listed,) = (await engine.tasks.list_tasks(NS, ALL, 0, 10)).tasks
    (lease,) = await engine.leases.claim(NS, host, show=live)
    await reporting.complete(engine, NS, host, task.id, lease.token, b"result")
    assert (listed.id, listed.state, listed.result) == (task.id, "queued", None)


async def test_a_long_listing_lets_other_coroutines_run(large_engine):
    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count_turns())
    await large_engine.tasks.list_tasks(NS, TaskFilter(action="nothing"), 0, 10)
    counting.cancel()
    assert turns >= 2


async def test_a_long_listing_continues_while_tasks_are_submitted_and_cancelled(large_engine, submission):
    first, *_ = (await large_engine.tasks.list_tasks(NS, ALL, 0, 1)).tasks

    async def change_tasks():
        for number in range(5_000, 5_020):
            await large_engine.tasks.submit(NS, submission(priority=number), show=live)
            await asyncio.sleep(0)
        await large_engine.tasks.cancel(NS, first.id, show=live)

    changing = asyncio.ensure_future(change_tasks())
    page = await large_engine.tasks.list_tasks(NS, ALL, 0, 10_000)
    await changing
    assert numbers(page.tasks)[:5_000] == list(range(5_000))
