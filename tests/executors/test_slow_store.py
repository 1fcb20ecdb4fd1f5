"""A store that does not answer costs time, but neither the executor nor a result (docs/operate/durability.md)."""

import asyncio

import pytest

from taskyard_server.core.errors import Unavailable
from taskyard_server.core.limits import Limits
from taskyard_server.engine.persistence import StoreOptions
from taskyard_server.executors import tab_executor
from taskyard_server.metrics.snapshots import Snapshots
from tests.engine.keeping.conftest import GatedStore
from tests.engines import running_engine, settled
from tests.waiting import until

PATIENCE_SECS = 0.05


@pytest.fixture
def store():
    return GatedStore()


@pytest.fixture
async def engine(store):
    async with running_engine(Limits(), store=store, store_options=StoreOptions(patience_secs=PATIENCE_SECS)) as engine:
        yield engine
        store.gate.set()


@pytest.fixture
async def server(start_server, instance, engine, monkeypatch):
    monkeypatch.setattr(tab_executor, "AGAIN_SECS", 0.01)
    return await start_server(instance, engine=engine)


async def impatient(server):
    """Submit a task whose commit takes longer than calls wait."""
    with pytest.raises(Unavailable):
        await server.submit()


async def test_the_executor_goes_on_once_the_store_answers_again(server, store):
    await settled(server.engine)
    store.gate.clear()
    await impatient(server)
    # Its own claim is refused, too, again and again.
    await asyncio.sleep(3 * PATIENCE_SECS)
    assert not server.working.done()
    store.gate.set()
    await server.engine.persistence.committer.settle()
    assert (await server.run()).state == "done"


async def test_the_executor_begins_once_the_store_answers(server, store):
    store.gate.clear()
    await impatient(server)
    await asyncio.sleep(3 * PATIENCE_SECS)
    store.gate.set()
    await server.engine.persistence.committer.settle()
    assert (await server.run()).state == "done"


async def test_a_result_that_comes_while_the_store_does_not_answer_is_kept_later(server, store, instance, soon):
    instance.hold()
    task = await server.submit()
    await soon(instance.arrived.get())
    store.gate.clear()
    await impatient(server)
    instance.release()
    await asyncio.sleep(3 * PATIENCE_SECS)
    store.gate.set()
    await server.engine.persistence.committer.settle()
    await server.ended(task)
    assert (task.state, task.deliveries) == ("done", 1)


async def test_leases_are_renewed_while_the_store_does_not_answer(server, store, instance, soon, monkeypatch):
    monkeypatch.setattr(tab_executor, "LEASE_SECS", 3.0)
    # The executor sleeps for a third of the length that was in force when it began.
    server.working.cancel()
    again = tab_executor.TabExecutor(server.engine, server.executor._resolver)
    server.working = asyncio.create_task(again.run())
    instance.hold()
    task = await server.submit()
    await soon(instance.arrived.get())
    store.gate.clear()
    await impatient(server)
    first_end = task.lease.expires_at
    await until(lambda: task.lease.expires_at >= first_end + 1.5)


async def test_snapshots_go_on_once_the_store_answers_again(server, store):
    snapshots = Snapshots(server.engine, lambda: 0.01)
    working = asyncio.create_task(snapshots.run())
    await settled(server.engine)
    store.gate.clear()
    await impatient(server)
    await asyncio.sleep(3 * PATIENCE_SECS)
    before = next(snapshots.newest_first("default", None, 0, None)).number
    store.gate.set()
    await until(lambda: next(snapshots.newest_first("default", None, 0, None)).number != before)
    assert not working.done()
    working.cancel()
