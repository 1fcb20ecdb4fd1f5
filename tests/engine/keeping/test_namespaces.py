"""What is kept of namespaces, and what is left of deleted ones (docs/rules.md, Namespaces)."""

import asyncio

import pytest

from taskyard_server.core.errors import Conflict, Internal, NotFound, Unavailable
from taskyard_server.core.limits import Limits
from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.persistence import StoreOptions
from taskyard_server.store.port import Table, namespace_of
from tests.live import live
from tests.store.dict_store import DictStore

NS = "red"


@pytest.fixture
async def restarted(clock):
    """Starts another engine on what a store holds."""
    started = []

    async def restart(store, **limits) -> Engine:
        again = Engine(Limits(**limits), clock, store=store.copy(), store_options=StoreOptions())
        started.append(again)
        await again.open()
        return again

    yield restart
    for each in started:
        await each.admin.close()


async def names(engine):
    return [each.name for each in await engine.namespaces.list_namespaces("", 100, is_visible=lambda _: True)]


def numbers(store: DictStore) -> set[int]:
    """The numbers of the namespaces of which a store holds any row but their own."""
    keys = [*store.ended, *(key for table, rows in store.tables.items() if table is not Table.NAMESPACES
                            for key in rows)]  # fmt: skip
    return {namespace_of(key) for key in keys}


async def removed(engine, clock):
    """Let an engine remove what it has to."""
    running = asyncio.create_task(engine.run())
    for _ in range(20):
        await clock.advance(0.1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_its_limits_and_its_age_survive_a_restart(store, engine, clock, restarted):
    await engine.namespaces.create(NS, {"max_queue_size": 1, "lease_secs": 7.5})
    made_at = clock.now
    clock.now += 5
    again = await restarted(store, max_queue_size=9, max_inflight=3)
    served = (await again.namespaces.get(NS)).served
    assert served.created_at == made_at
    assert served.own_limits == {"max_queue_size": 1, "lease_secs": 7.5}
    assert served.limits == Limits(max_queue_size=1, lease_secs=7.5, max_inflight=3)


async def test_a_limit_that_was_changed_alone_survives_a_restart(store, engine, restarted, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    await engine.namespaces.update(NS, lambda _: {"max_queue_size": 1})
    again = await restarted(store)
    assert (await again.namespaces.get(NS)).served.own_limits == {"max_queue_size": 1}


async def test_what_it_retains_longer_than_others_is_there_after_a_restart(store, engine, clock, restarted, submission):
    await engine.namespaces.create(NS, {"result_ttl_secs": 1000.0, "idempotency_secs": 3000.0})
    for name in (NS, "blue"):
        task = await engine.tasks.submit(name, submission(), show=live)
        await engine.tasks.cancel(name, task.id, show=live)
    clock.now += 600
    again = await restarted(store)
    for name, retained in ((NS, 1), ("blue", 0)):
        page = await again.tasks.list_tasks(name, TaskFilter(), 0, 10)
        assert len(page.tasks) == retained


async def test_nobody_learns_of_a_deletion_that_is_not_kept(store, engine, clock, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    heard = []
    engine.namespaces.subscribe(heard.append)
    store.gate.clear()
    deleting = asyncio.create_task(engine.namespaces.delete(NS, force=True))
    await clock.run_pending()
    for call in (
        engine.tasks.list_tasks(NS, TaskFilter(), 0, 10),
        engine.tasks.submit(NS, submission(), show=live),
        engine.namespaces.create(NS, {}),
        engine.namespaces.delete(NS, force=True),
    ):
        with pytest.raises(Unavailable, match="being deleted"):
            await call
    assert not deleting.done()
    assert heard == []
    store.gate.set()
    await deleting
    assert heard == [NS]
    with pytest.raises(NotFound):
        await engine.namespaces.get(NS)


async def test_a_deletion_that_was_not_kept_has_not_happened(store, engine, clock, restarted, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    store.gate.clear()
    deleting = asyncio.create_task(engine.namespaces.delete(NS, force=True))
    await clock.run_pending()
    again = await restarted(store)
    assert await names(again) == [NS]
    assert (await again.admin.stats(NS)).queued == 1
    store.gate.set()
    await deleting


async def test_its_rows_are_removed_and_those_of_others_stay(store, engine, clock, submission):
    for name in (NS, "blue"):
        for _ in range(3):
            await engine.tasks.submit(name, submission(), show=live)
    await engine.namespaces.delete(NS, force=True)
    assert numbers(store) == {1, 2}
    await removed(engine, clock)
    assert numbers(store) == {2}
    assert set(store.tables[Table.NAMESPACES]) == {2}
    assert await names(engine) == ["blue"]


async def test_nothing_of_it_comes_back_after_a_restart_and_its_removal_goes_on(
    store, engine, clock, restarted, submission
):
    task = await engine.tasks.submit(NS, submission(), show=live)
    await engine.namespaces.delete(NS, force=True)
    again = await restarted(store)
    kept = again.persistence.store
    assert await names(again) == []
    assert numbers(kept) == {1}
    # Its name is free, its number is not.
    await again.tasks.submit(NS, submission(), show=live)
    with pytest.raises(NotFound):
        await again.tasks.get(NS, task.id, show=live)
    await removed(again, clock)
    assert numbers(kept) == {2}
    assert await names(again) == [NS]
    assert kept.wrong() == []


async def test_the_next_one_of_its_name_has_another_number(store, engine, clock, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    await engine.namespaces.delete(NS, force=True)
    first = await engine.tasks.submit(NS, submission(), show=live)
    await removed(engine, clock)
    assert numbers(store) == {2}
    assert (await engine.tasks.get(NS, first.id, show=live)).state == "queued"


async def test_what_the_turn_of_a_deletion_has_changed_goes_the_same_way(store, engine, restarted, submission):
    calls = [
        asyncio.create_task(call)
        for call in (
            engine.tasks.submit(NS, submission(), show=live),
            engine.namespaces.create(NS, {}),
            engine.namespaces.delete(NS, force=True),
        )
    ]
    await asyncio.gather(*calls)
    again = await restarted(store)
    assert await names(again) == []


async def test_a_history_of_before_is_not_that_of_the_next_one(engine, clock, submission):
    task = await engine.tasks.submit(NS, submission(), show=live)
    await engine.tasks.cancel(NS, task.id, show=live)
    await clock.advance(Limits().result_ttl_secs + 1)
    assert (await engine.tasks.get(NS, task.id, show=live)).state == "cancelled"
    await engine.namespaces.delete(NS, force=False)
    with pytest.raises(NotFound):
        await engine.tasks.get(NS, task.id, show=live)
    await engine.tasks.submit(NS, submission(), show=live)
    page = await engine.tasks.list_tasks(NS, TaskFilter(), 0, 10, history=True)
    assert [each.state for each in page.tasks] == ["queued"]


async def test_one_that_is_being_deleted_is_listed_until_that_is_kept(store, engine, clock, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    store.gate.clear()
    deleting = asyncio.create_task(engine.namespaces.delete(NS, force=True))
    await clock.run_pending()
    (view,) = await engine.namespaces.list_namespaces("", 9, is_visible=lambda _: True)
    assert view.served.totals.queued == 1
    store.gate.set()
    await deleting
    assert await names(engine) == []


async def test_one_whose_records_are_at_fault_is_listed_without_them_and_can_be_deleted(
    store, engine, clock, restarted, submission
):
    for name in (NS, "blue"):
        await engine.tasks.submit(name, submission(), show=live)
    damaged = store.copy()
    damaged.tables[Table.TASKS] = {key: b"x" if namespace_of(key) == 1 else row for key, row in
                                   damaged.tables[Table.TASKS].items()}  # fmt: skip
    again = await restarted(damaged)
    views = await again.namespaces.list_namespaces("", 9, is_visible=lambda _: True)
    assert [(view.name, view.served is None) for view in views] == [("blue", False), (NS, True)]
    with pytest.raises(Internal):
        await again.namespaces.get(NS)
    with pytest.raises(Conflict, match="records at fault"):
        await again.namespaces.delete(NS, force=False)
    await again.namespaces.delete(NS, force=True)
    await removed(again, clock)
    assert await names(again) == ["blue"]
    assert numbers(again.persistence.store) == {2}
    await again.tasks.submit(NS, submission(), show=live)
