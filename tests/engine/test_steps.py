"""Steps in the engine: recorded once, had again by the next run and by readers; nobody is told before the commit."""

import asyncio

import pytest

from taskyard_server.core.errors import LeaseLost, NotFound, Unavailable
from taskyard_server.core.limits import Limits
from taskyard_server.core.names import names
from taskyard_server.core.runs.steps import NewStep
from taskyard_server.engine.persistence import StoreOptions
from tests import reporting
from tests.engines import running_engine, settled
from tests.live import live
from tests.services.conftest import Clock
from tests.speakers import HOST, Speaker, speaker
from tests.store.dict_store import DictStore
from tests.store.gated_store import GatedStore

NAMESPACE = "default"


@pytest.fixture(params=["memory", "kept"])
def store(request):
    return DictStore() if request.param == "kept" else None


@pytest.fixture
async def engine(store):
    async with running_engine(store=store) as engine:
        yield engine


async def record(host, name):
    """Record a step: its number, and whether it was there."""
    new = NewStep(host.task_id, host.token, name, str(host.token).encode())
    return await host.engine.steps.record(NAMESPACE, HOST, new)


def shown(steps):
    return [f"{step.name} {step.result.decode()}" for step in steps]


async def listed(engine, task_id, **only):
    return shown(await engine.steps.list(NAMESPACE, task_id, **only))


async def fetched(host):
    return shown(await host.engine.steps.fetch(NAMESPACE, HOST, host.task_id, host.token))


async def next_run(engine):
    """The next lease of the task."""
    (lease,) = await engine.leases.claim(NAMESPACE, HOST, show=live)
    return Speaker(engine, lease.task.id, lease.token)


async def test_a_later_run_has_the_steps_of_earlier_ones_and_adds_to_them(engine):
    host = await speaker(engine)
    assert await fetched(host) == []
    assert await record(host, "a") == (1, False)
    assert await record(host, "b") == (2, False)
    await reporting.release(engine, NAMESPACE, HOST, host.task_id, host.token)
    again = await next_run(engine)
    assert await fetched(again) == ["a 1", "b 1"]
    assert await record(again, "b") == (2, True)
    assert await record(again, "c") == (3, False)
    assert await listed(engine, host.task_id) == await fetched(again) == ["a 1", "b 1", "c 2"]
    with pytest.raises(LeaseLost):
        await fetched(host)
    with pytest.raises(LeaseLost):
        await record(host, "d")
    await again.end()
    assert await listed(engine, host.task_id) == ["a 1", "b 1", "c 2"]


async def test_who_has_no_lease_lets_nothing_be_looked_up(engine):
    host = await speaker(engine)
    await record(host, "a")
    await reporting.release(engine, NAMESPACE, HOST, host.task_id, host.token)
    await settled(engine)
    state = engine._namespaces.here(NAMESPACE)
    assert not state.scheduler.steps.has_any
    with pytest.raises(LeaseLost):
        await record(host, "b")
    assert not state.scheduler.steps.has_any


async def test_a_task_of_another_agent_is_not_found(engine):
    host = await speaker(engine)
    await record(host, "a")
    with pytest.raises(NotFound):
        await listed(engine, host.task_id, agents=names(["bob"]))
    with pytest.raises(NotFound):
        await listed(engine, "tsk_none")


async def test_no_host_is_told_before_its_step_is_kept():
    store = GatedStore()
    async with running_engine(store=store) as engine:
        host = await speaker(engine)
        store.gate.clear()
        recorded = asyncio.create_task(record(host, "a"))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not recorded.done()
        store.gate.set()
        assert await recorded == (1, False)
        assert await listed(engine, host.task_id) == ["a 1"]


async def test_several_at_once_are_each_taken_once(engine):
    host = await speaker(engine)
    await record(host, "a")
    await reporting.release(engine, NAMESPACE, HOST, host.task_id, host.token)
    again = await next_run(engine)
    recorded = await asyncio.gather(*[record(again, name) for name in "abcabc"])
    assert recorded == [(1, True), (2, False), (3, False), (1, True), (2, True), (3, True)]
    assert await listed(engine, host.task_id) == ["a 1", "b 2", "c 2"]


async def test_a_task_whose_steps_are_not_all_there_takes_no_more():
    store = DictStore()
    async with running_engine(store=store) as engine:
        host = await speaker(engine)
        await record(host, "a")
        store.said.clear()
        await reporting.release(engine, NAMESPACE, HOST, host.task_id, host.token)
        again = await next_run(engine)
        with pytest.raises(Unavailable):
            await record(again, "a")


@pytest.mark.parametrize("history_days", [30, 0])
async def test_steps_go_with_their_task(history_days):
    store, clock = DictStore(), Clock()
    options = StoreOptions(history_days=history_days)
    async with running_engine(Limits(result_ttl_secs=5), clock, store=store, store_options=options) as engine:
        host = await speaker(engine)
        await record(host, "a")
        await host.end()
        await settled(engine)
        clock.now += 6
        await settled(engine)
        if history_days:
            assert await listed(engine, host.task_id) == ["a 1"]
        else:
            with pytest.raises(NotFound):
                await listed(engine, host.task_id)
            assert not store.said.get((1 << 40) + 1)


@pytest.mark.memory_store
async def test_without_a_store_the_memory_is_free_once_the_task_is():
    clock = Clock()
    async with running_engine(Limits(result_ttl_secs=5), clock) as engine:
        host = await speaker(engine)
        await record(host, "a")
        await host.end()
        clock.now += 6
        await settled(engine)
        state = engine._namespaces.here(NAMESPACE)
        assert state.steps.kept == {}
        assert not state.scheduler.steps.has_any


async def test_after_a_restart_the_run_goes_on_with_its_steps():
    store = DictStore()
    async with running_engine(store=store) as engine:
        host = await speaker(engine)
        await record(host, "a")
        await record(host, "b")
        store = store.copy()
    async with running_engine(store=store) as engine:
        host.engine = engine
        assert await record(host, "a") == (1, True)
        assert await record(host, "c") == (3, False)
        assert await fetched(host) == ["a 1", "b 1", "c 1"]
        assert (await engine.tasks.get(NAMESPACE, host.task_id, show=live)).history.steps == 3


async def test_a_failed_task_that_is_resumed_from_the_history_has_its_steps():
    store, clock = DictStore(), Clock()
    async with running_engine(Limits(result_ttl_secs=5), clock, store=store) as engine:
        host = await speaker(engine)
        await record(host, "a")
        await reporting.fail(engine, NAMESPACE, HOST, host.task_id, host.token, "broken")
        await settled(engine)
        clock.now += 6
        await settled(engine)
        await engine.tasks.resume(NAMESPACE, host.task_id, show=live)
        again = await next_run(engine)
        assert await fetched(again) == ["a 1"]
        assert await record(again, "b") == (2, False)
