"""Listings of the history by every filter: what a look at each task finds, and no more is read than may match."""

from itertools import chain

import pytest

from taskyard_server.core.search.label_selectors import parse_selector
from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.core.task import TaskState
from taskyard_server.core.task_options import TaskExtras
from taskyard_server.store.postgres.store import PostgresStore
from taskyard_server.store.sqlite.store import SqliteStore
from tests.engine.keeping.history_yard import NS, HistoryYard
from tests.live import live

ALL = TaskFilter()


@pytest.fixture(params=["dict", "sqlite", "postgres"])
async def yard(request, clock, tmp_path):
    """A yard on each kind of store."""
    store = None
    if request.param == "sqlite":
        store = SqliteStore(str(tmp_path / "yard.db"), min_free_bytes=0)
    elif request.param == "postgres":
        store = PostgresStore(request.getfixturevalue("least_postgres_url"))
    opened = await HistoryYard(clock, store).open()
    yield opened
    await opened.engine.admin.close()
    if store is not None:
        await store.close()


@pytest.fixture
async def mixed_yard(yard):
    """A yard with tasks of all kinds, most of which have left memory."""
    ids = [
        await yard.submit(labels=(("site", "shop"), ("team", "a")), action="crawl"),
        await yard.submit(labels=(("site", "news"),), target="till", agent="bob"),
        await yard.submit(parent_id="tsk_1", extras=TaskExtras(concurrency_keys=("site:1",))),
        await yard.submit(),
    ]
    for task_id in ids[:3]:
        yard.clock.now += 1
        await yard.tasks.cancel(NS, task_id, show=live)
    await yard.failed(ids[3], "Out of Ink")
    await yard.leave_memory()
    await yard.submit(labels=(("site", "shop"),))
    await yard.submit(hold=True, agent="bob")
    return yard


async def listed(yard, wanted, limit=100, **options):
    found, after = [], 0
    while after is not None:
        page = await yard.tasks.list_tasks(NS, wanted, after, limit, history=True, **options)
        found.append(page.tasks)
        after = page.next_after
    return [task.id for task in chain(*found)]


FILTERS = [
    ALL,
    TaskFilter(agent_id="bob"),
    TaskFilter(action="crawl"),
    TaskFilter(target="till"),
    TaskFilter(parent_id="tsk_1"),
    TaskFilter(concurrency_key="site:1"),
    TaskFilter(host_id="host"),
    TaskFilter(error="out of"),
    TaskFilter(error="ink", states=frozenset({TaskState.DONE})),
    *[TaskFilter(states=frozenset({state})) for state in TaskState],
    *[
        TaskFilter(labels=parse_selector(text))
        for text in ("site=shop", "site=shop,team=a", "site in (news,shop)", "team", "!site", "site!=shop")
    ],
]


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("limit", [1, 100])
async def test_the_history_is_filtered_as_the_tasks_in_memory_are(mixed_yard, limit, newest_first):
    every = (await mixed_yard.tasks.list_tasks(NS, ALL, 0, 100, history=True)).tasks
    for wanted in FILTERS:
        expected = [task.id for task in every if wanted.matches(task)]
        found = await listed(mixed_yard, wanted, limit, newest_first=newest_first)
        assert found == (expected[::-1] if newest_first else expected), wanted


async def test_tasks_are_found_by_the_time_of_their_end(mixed_yard):
    every = (await mixed_yard.tasks.list_tasks(NS, ALL, 0, 100, history=True)).tasks
    second, third = every[1].completed_at, every[2].completed_at
    assert await listed(mixed_yard, TaskFilter(ended_from=second, ended_until=third)) == [every[1].id]
    assert await listed(mixed_yard, TaskFilter(ended_from=second - 1e-6, ended_until=second)) == []
    assert len(await listed(mixed_yard, TaskFilter(ended_from=0))) == 4


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("limit", [1, 100])
async def test_tasks_are_found_by_how_their_ids_begin(yard, limit, newest_first):
    ids = []
    for _ in range(6):
        ids += [await yard.submit() for _ in range(3)]
        yard.clock.now += 7
    for task_id in ids[:6]:
        await yard.tasks.cancel(NS, task_id, show=live)
    await yard.leave_memory(*ids[:6])
    prefixes = {task_id[:length] for task_id in ids for length in (4, 10, 13, 14, 16, 20, 25, 26, 36)}
    for prefix in (*prefixes, "tsk_" + "0" * 32, "tsk_" + "f" * 12, "tsk_xyz", "bat_", ids[0].upper(), ids[0] + "0"):
        expected = [task_id for task_id in ids if task_id.startswith(prefix)]
        found = await listed(yard, TaskFilter(id_prefix=prefix), limit, newest_first=newest_first)
        assert found == (expected[::-1] if newest_first else expected), prefix


async def test_no_more_is_read_than_may_begin_so(clock):
    yard = await HistoryYard(clock).open()
    ids = []
    for _ in range(300):
        ids.append(await yard.submit())
        yard.clock.now += 10
    for prefix in (ids[150], ids[150][:16]):
        yard.store.rows_scanned = 0
        assert await listed(yard, TaskFilter(id_prefix=prefix)) == [ids[150]]
        assert yard.store.rows_scanned < 40


async def test_an_id_is_found_among_those_of_a_server_whose_clock_was_ahead(clock):
    yard = await HistoryYard(clock).open()
    ids = []
    for step in (1.0, 1.0, -1.3, 0.1, 1.0, 1.0) * 5:
        ids.append(await yard.submit())
        yard.clock.now += step
    for task_id in ids:
        for newest_first in (False, True):
            assert await listed(yard, TaskFilter(id_prefix=task_id[:16]), newest_first=newest_first) == [task_id]


async def test_what_a_task_has_submitted_is_found_without_a_look_at_what_came_before_it(clock):
    yard = await HistoryYard(clock).open()
    for _ in range(300):
        await yard.submit()
        yard.clock.now += 10
    parent_id = await yard.submit()
    children = [await yard.submit(parent_id=parent_id) for _ in range(3)]
    of_other_names = [await yard.submit(parent_id=name) for name in ("tsk_1", "f" * 36)]
    for newest_first in (False, True):
        yard.store.rows_scanned = 0
        found = await listed(yard, TaskFilter(parent_id=parent_id), newest_first=newest_first)
        assert found == (children[::-1] if newest_first else children)
        assert yard.store.rows_scanned < 40
    assert await listed(yard, TaskFilter(parent_id="tsk_1")) == of_other_names[:1]
    assert await listed(yard, TaskFilter(parent_id="f" * 36)) == of_other_names[1:]
