"""Listings of the history: every task that the store has once, in either order, page by page, with bounded work."""

import asyncio
from dataclasses import replace
from itertools import chain

import pytest

from taskyard_server.core.errors import BadRequest
from taskyard_server.core.limits import Limits
from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.core.task import Submission, TaskState
from taskyard_server.engine import history_listing
from taskyard_server.engine.engine import Engine
from tests.engine.keeping.history_yard import NS
from tests.live import live

ALL = TaskFilter()


async def cancelled(yard, count, agent="ann", secs=0.0, first=0):
    """Tasks that were cancelled; their priorities are their numbers. So many seconds pass after each."""
    for number in range(first, first + count):
        task_id = await yard.submit(agent=agent, priority=number)
        await yard.tasks.cancel(NS, task_id, show=live)
        yard.clock.now += secs


async def pages(yard, task_filter=ALL, limit=100, between=None, **options):
    """The numbers of the tasks on each page."""
    found, after = [], 0
    while after is not None:
        page = await yard.tasks.list_tasks(NS, task_filter, after, limit, history=True, **options)
        assert len(page.tasks) <= limit
        found.append([task.priority for task in page.tasks])
        after = page.next_after
        if between is not None:
            await between()
    return found


async def listed(yard, task_filter=ALL, **options):
    return list(chain(*await pages(yard, task_filter, **options)))


async def test_it_lists_what_ended_long_ago_and_what_lives(yard):
    await cancelled(yard, 3)
    await yard.leave_memory()
    await yard.submit(priority=3)
    await yard.submit(priority=4, hold=True)
    page = await yard.tasks.list_tasks(NS, ALL, 0, 10, history=True)
    states = [(task.priority, task.state.value) for task in page.tasks]
    assert states == [(0, "cancelled"), (1, "cancelled"), (2, "cancelled"), (3, "queued"), (4, "pending")]
    assert [task.priority for task in (await yard.tasks.list_tasks(NS, ALL, 0, 10)).tasks] == [3, 4]


async def test_a_task_is_listed_as_it_can_be_read(yard):
    task_id = await yard.submit(params=b"{}", target="t", labels=(("a", "b"),), token_limit=7)
    await yard.started(task_id)
    live_task = await yard.tasks.get(NS, task_id, show=live)
    (task,) = (await yard.tasks.list_tasks(NS, ALL, 0, 10, history=True)).tasks
    for field in (
        "id",
        "seq",
        "state",
        "params",
        "options",
        "deadline",
        "created_at",
        "started_at",
        "host_id",
        "token",
    ):
        assert getattr(task, field) == getattr(live_task, field), field
    assert (task.agent_id, task.attempt_started_at) == ("ann", live_task.attempt_started_at)
    assert task is not live_task


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("limit", [1, 7, 249, 250, 251, 599, 600, 1000])
async def test_the_pages_hold_every_task_once_in_either_order(yard, limit, newest_first):
    await cancelled(yard, 600)
    await yard.leave_memory()
    found = await pages(yard, limit=limit, newest_first=newest_first)
    assert list(chain(*found)) == sorted(range(600), reverse=newest_first)
    assert all(len(page) == limit for page in found[:-1])
    assert found[-1]


@pytest.mark.parametrize("newest_first", [False, True])
async def test_tasks_that_end_leave_and_come_between_two_pages_change_no_place(yard, newest_first):
    for number in range(40):
        await yard.submit(priority=number)
    fresh = iter(range(40, 1000))

    async def go_on():
        first = (await yard.tasks.list_tasks(NS, TaskFilter(states=frozenset({TaskState.QUEUED})), 0, 1)).tasks
        if first:
            await yard.tasks.cancel(NS, first[0].id, show=live)
        await yard.submit(priority=next(fresh))
        await yard.clock.advance(100)

    found = await pages(yard, limit=7, between=go_on, newest_first=newest_first)
    numbers = list(chain(*found))
    assert numbers == sorted(numbers, reverse=newest_first)
    assert set(range(40)) <= set(numbers)
    assert len(set(numbers)) == len(numbers)


async def test_every_filter_holds_in_the_history(yard):
    batch_id, (first, _) = await yard.batch("one", "two")
    await yard.submit(agent="bob", priority=1, target="t")
    await yard.tasks.cancel(NS, first, show=live)
    await yard.leave_memory()

    async def count(**criteria):
        return len((await yard.tasks.list_tasks(NS, TaskFilter(**criteria), 0, 10, history=True)).tasks)

    assert await count() == 3
    assert await count(agent_id="bob") == 1
    assert await count(agent_id="eve") == 0
    assert await count(batch_id=batch_id) == 2
    assert await count(target="t") == 1
    assert await count(states=frozenset({TaskState.CANCELLED})) == 1
    assert await count(states=frozenset({TaskState.DONE})) == 0


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("history", [False, True])
async def test_a_range_of_times_includes_its_begin_and_not_its_end(yard, newest_first, history):
    begin = yard.clock.now
    await cancelled(yard, 20, secs=1.0)
    for since, until in (
        (None, None),
        (5, None),
        (None, 5),
        (5, 9),
        (5, 5),
        (9, 5),
        (-5, 0),
        (20, 30),
        (-5, 50),
        (4.5, 5),
    ):
        task_filter = TaskFilter(
            created_from=None if since is None else begin + since,
            created_until=None if until is None else begin + until,
        )
        expected = [
            number for number in range(20) if (since is None or number >= since) and (until is None or number < until)
        ]
        for limit in (1, 3, 100):
            found, after = [], 0
            while after is not None:
                page = await yard.tasks.list_tasks(
                    NS, task_filter, after, limit, newest_first=newest_first, history=history
                )
                found += [task.priority for task in page.tasks]
                after = page.next_after
            assert found == sorted(expected, reverse=newest_first), (since, until, limit)


@pytest.mark.parametrize("newest_first", [False, True])
async def test_a_range_of_times_is_found_without_reading_what_is_outside_of_it(yard, newest_first):
    begin = yard.clock.now
    await cancelled(yard, 1000, secs=1.0)
    task_filter = TaskFilter(created_from=begin + 700, created_until=begin + 710)
    before = yard.store.rows_scanned
    assert await listed(yard, task_filter, newest_first=newest_first) == sorted(range(700, 710), reverse=newest_first)
    rare = replace(task_filter, target="rare")
    assert await listed(yard, rare, newest_first=newest_first) == []
    assert yard.store.rows_scanned - before < 2 * history_listing.SLICE_ROWS


async def test_gaps_where_rows_were_removed_are_passed_over(yard):
    begin = yard.clock.now
    await cancelled(yard, 300, secs=1.0)
    for key in list(yard.store.ended)[100:250]:
        del yard.store.ended[key], yard.store.tables[1][key]
    rest = [*range(100), *range(250, 300)]
    assert await listed(yard, limit=30) == rest
    for since in (50, 99, 100, 200, 249, 250, 251):
        expected = [number for number in rest if number >= since]
        assert await listed(yard, TaskFilter(created_from=begin + since)) == expected
        assert await listed(yard, TaskFilter(created_from=begin + since), newest_first=True) == expected[::-1]


@pytest.mark.parametrize("newest_first", [False, True])
async def test_a_page_of_a_rare_filter_ends_after_so_many_rows(yard, monkeypatch, newest_first):
    monkeypatch.setattr(history_listing, "MAX_SCANNED_ROWS", 500)
    await cancelled(yard, 1, "rare", first=0)
    await cancelled(yard, 1500, first=1)
    await cancelled(yard, 1, "rare", first=1501)
    before = yard.store.rows_scanned
    page = await yard.tasks.list_tasks(NS, TaskFilter(agent_id="rare"), 0, 5, newest_first=newest_first, history=True)
    assert yard.store.rows_scanned - before == 500
    assert len(page.tasks) == 1
    assert page.next_after is not None
    found = await pages(yard, TaskFilter(agent_id="rare"), newest_first=newest_first)
    assert list(chain(*found)) == sorted([0, 1501], reverse=newest_first)
    assert [] in found


async def test_a_page_ends_when_it_is_large(yard, monkeypatch):
    monkeypatch.setattr(history_listing, "MAX_PAGE_BYTES", 10_000)
    for number in range(10):
        await yard.submit(priority=number, params=b"x" * 4_000)
    found = await pages(yard)
    assert list(chain(*found)) == list(range(10))
    assert [len(page) for page in found[:-1]] == [3, 3, 3]


async def test_a_listing_lets_others_run_between_its_slices(yard):
    await cancelled(yard, 2_000)
    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    assert len(await listed(yard, TaskFilter(agent_id="ann"), limit=5_000)) == 2_000
    counting.cancel()
    assert turns >= 2_000 // history_listing.SLICE_ROWS - 1


async def test_a_small_page_reads_few_rows(yard):
    await cancelled(yard, 500)
    before = yard.store.rows_scanned
    await yard.tasks.list_tasks(NS, ALL, 0, 5, history=True)
    assert yard.store.rows_scanned - before == 6


async def test_other_namespaces_are_not_listed(yard):
    await yard.submit(priority=1)
    await yard.submit("other", priority=2)
    assert await listed(yard) == [1]
    page = await yard.tasks.list_tasks("other", ALL, 0, 10, newest_first=True, history=True)
    assert [task.priority for task in page.tasks] == [2]
    assert (await yard.tasks.list_tasks("unknown", ALL, 0, 10, history=True)).tasks == []


async def test_rejected_tasks_are_in_no_history(make_yard):
    yard = await make_yard(max_queue_size=1)
    await yard.submit(priority=0)
    yard.tasks.submit_each(NS, [Submission("ann", "click", priority=1)], show=live)
    assert await listed(yard) == [0]
    assert [task.priority for task in (await yard.tasks.list_tasks(NS, ALL, 0, 10)).tasks] == [0, 1]


async def test_an_engine_without_a_store_refuses_to_list_a_history(clock):
    engine = Engine(Limits(), clock)
    with pytest.raises(BadRequest, match="memory://"):
        await engine.tasks.list_tasks(NS, ALL, 0, 10, history=True)
    await engine.admin.close()
