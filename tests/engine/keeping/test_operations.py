"""Operations go on after a restart where they were, and wait for their commits (docs/rules.md, Operations)."""

import asyncio

import pytest

from taskyard_server.core.errors import NotFound
from taskyard_server.core.limits import Limits
from taskyard_server.core.names import names
from taskyard_server.core.operations.operation import OperationKind, OperationRequest
from taskyard_server.core.operations.operations import MAX_TREATED, RETAINED_SECS
from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.persistence import StoreOptions
from tests.live import live
from tests.waiting import LIMIT_SECS

NS = "default"
SLICE_SECS = 1.0
"""Longer than the pause after a slice."""
SLICES = 4


@pytest.fixture
async def restart(store, clock):
    """Starts another engine on what was committed, as after a kill."""
    started = []

    async def restart(down_secs: float = 1.0, kept=None) -> Engine:
        clock.now += down_secs
        again = Engine(Limits(), clock, store=kept or store.copy(), store_options=StoreOptions())
        started.append(again)
        await again.open()
        return again

    yield restart
    for each in started:
        await each.admin.close()


def figures(operation):
    return operation.status.value, operation.matched, operation.done, operation.skipped, operation.failed


def request(kind=OperationKind.CANCEL, agents=None, operation_id="op", **more):
    return OperationRequest(operation_id, kind, TaskFilter(agents=agents, action="click"), b"J\x05click", **more)


async def look(engine, operation_id="op", agents=None):
    return await engine.operations.get(NS, operation_id, agents=agents, show=figures)


async def finish(engine, clock):
    async with asyncio.timeout(LIMIT_SECS):
        while (found := await look(engine))[0] == "running":
            await clock.advance(SLICE_SECS)
    return found


@pytest.fixture
async def tasks(engine, submission):
    return [
        await engine.tasks.submit(NS, submission(agent=f"ann-{number}"), show=live)
        for number in range(SLICES * MAX_TREATED)
    ]


async def test_it_goes_on_where_it_was_from_any_commit(engine, tasks, store, restart, clock):
    await engine.operations.begin(NS, request(), show=figures)
    copies = [store.copy()]
    while (await look(engine))[0] == "running":
        await clock.advance(SLICE_SECS)
        copies.append(store.copy())
    done = []
    for kept in copies:
        again = await restart(0, kept)
        done.append((await look(again))[2])
        assert await finish(again, clock) == ("done", len(tasks), len(tasks), 0, 0)
        page = await again.tasks.list_tasks(NS, TaskFilter(), 0, 10**6)
        assert {task.state.value for task in page.tasks} == {"cancelled"}
        assert again.admin.totals(NS).counters.cancelled == len(tasks)
    assert done == sorted(done)
    assert len(set(done)) > 2
    assert done[-1] == len(tasks)


async def test_a_slice_follows_only_once_the_last_one_is_committed(engine, tasks, store, clock):
    await engine.operations.begin(NS, request(), show=figures)
    await clock.run_pending()
    store.gate.clear()
    for _ in range(5):
        await clock.advance(SLICE_SECS)
    cancelled = engine.admin.totals(NS).counters.cancelled
    assert cancelled <= 2 * MAX_TREATED
    store.gate.set()
    assert await finish(engine, clock) == ("done", len(tasks), len(tasks), 0, 0)


@pytest.mark.usefixtures("tasks")
async def test_what_was_asked_for_is_known_after_a_restart(engine, restart, clock):
    await engine.operations.begin(NS, request(agents=names(["ann-1", "bob*"])), show=figures)
    await finish_of(engine, clock, names(["ann-1", "bob*"]))
    again = await restart()
    mine = names(["bob*", "ann-1"])
    assert await look(again, agents=mine) == ("done", 1, 1, 0, 0)
    repeat = await again.operations.begin(NS, request(agents=mine), show=figures)
    assert repeat == ("done", 1, 1, 0, 0)
    with pytest.raises(NotFound):
        await look(again, agents=names(["ann-1"]))


async def finish_of(engine, clock, agents):
    async with asyncio.timeout(LIMIT_SECS):
        while (await look(engine, agents=agents))[0] == "running":
            await clock.advance(SLICE_SECS)


async def test_one_that_ended_is_forgotten_after_an_hour_here_and_in_the_store(engine, restart, clock):
    await engine.operations.begin(NS, request(), show=figures)
    await finish(engine, clock)
    again = await restart(RETAINED_SECS / 2)
    assert (await look(again))[0] == "done"
    await clock.advance(RETAINED_SECS / 2 + 1)
    with pytest.raises(NotFound):
        await look(again)
    once_more = await restart()
    await clock.advance(1)
    with pytest.raises(NotFound):
        await look(once_more)


async def test_a_cancelled_one_stays_cancelled(engine, tasks, restart, clock):
    await engine.operations.begin(NS, request(), show=figures)
    await engine.operations.cancel(NS, "op", show=figures)
    again = await restart()
    await clock.advance(SLICE_SECS)
    status, _, done, _, _ = await look(again)
    assert (status, done < len(tasks)) == ("cancelled", True)


async def test_another_priority_is_kept(engine, tasks, restart, clock):
    await engine.operations.begin(NS, request(OperationKind.REPRIORITIZE, priority=-4), show=figures)
    await finish(engine, clock)
    again = await restart()
    page = await again.tasks.list_tasks(NS, TaskFilter(), 0, 10**6)
    assert [(task.id, task.priority) for task in page.tasks] == [(task.id, -4) for task in tasks]


async def test_a_namespace_in_which_one_is_at_work_needs_an_owner(engine, tasks, clock):
    for task in tasks:
        await engine.tasks.cancel(NS, task.id, show=live)
    state = engine._namespaces.here(NS)
    assert not state.needs_owner
    state.scheduler.operations.begin(clock.now, request())
    assert state.needs_owner
