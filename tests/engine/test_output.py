"""Output in the engine: readers get it while it is live, after its end and over restarts; none before its commit."""

import asyncio

import pytest

from taskyard_server.core.errors import LeaseLost, NotFound, Unavailable
from taskyard_server.core.limits import Limits
from taskyard_server.core.names import names
from taskyard_server.engine import output_log
from taskyard_server.engine.persistence import StoreOptions
from tests import reporting
from tests.engines import running_engine, settled
from tests.live import live
from tests.services.conftest import Clock
from tests.speakers import HOST, SIZE, Speaker, numbers, speaker
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


async def test_readers_get_the_same_from_any_number_on(engine):
    host = await speaker(engine)
    for first in range(1, 100, 3):
        await host.say(first, 3)
    assert await numbers(engine, host.task_id) == list(range(1, 100))
    await host.end()
    assert await numbers(engine, host.task_id) == list(range(1, 100))
    assert (await engine.output.read(NAMESPACE, host.task_id, 99)).rows == []
    assert (await engine.output.read(NAMESPACE, host.task_id, 1_000)).rows == []


async def test_a_wait_ends_with_the_next_chunk_with_the_end_and_after_its_time(engine):
    host = await speaker(engine)
    waits = asyncio.create_task(engine.output.wait(NAMESPACE, host.task_id, 0, 60))
    await asyncio.sleep(0)
    await host.say(1)
    assert await waits
    assert await engine.output.wait(NAMESPACE, host.task_id, 0, 60)
    assert not await engine.output.wait(NAMESPACE, host.task_id, 1, 0)
    waits = asyncio.create_task(engine.output.wait(NAMESPACE, host.task_id, 1, 60))
    await asyncio.sleep(0)
    await host.end()
    assert await waits
    assert await engine.output.wait(NAMESPACE, host.task_id, 1, 60)


async def test_a_wait_for_more_than_there_is_does_not_spin(engine):
    host = await speaker(engine)
    await host.say(1)
    assert not await engine.output.wait(NAMESPACE, host.task_id, 500, 0)
    assert not await engine.output.wait(NAMESPACE, host.task_id, 1, 0)


async def test_a_wait_ends_when_the_server_does(engine):
    host = await speaker(engine)
    waits = asyncio.create_task(engine.output.wait(NAMESPACE, host.task_id, 0, 60))
    await asyncio.sleep(0)
    await engine.admin.close()
    with pytest.raises(Unavailable, match="shuts down"):
        await waits


async def test_who_waits_in_vain_leaves_nothing_behind(engine):
    host = await speaker(engine)
    await engine.output.wait(NAMESPACE, host.task_id, 0, 0)
    state = engine._namespaces.here(NAMESPACE)
    assert state.end_waits == {}
    assert state.outputs._of == {}


async def test_a_task_of_another_agent_is_not_found(engine):
    host = await speaker(engine)
    await host.say(1)
    with pytest.raises(NotFound):
        await engine.output.read(NAMESPACE, host.task_id, 0, agents=names(["bob"]))
    with pytest.raises(NotFound):
        await engine.output.read(NAMESPACE, "tsk_none", 0)


async def test_the_oldest_is_dropped_from_memory_and_store_and_readers_are_told(store):
    async with running_engine(Limits(max_output_bytes=1_600), store=store) as engine:
        host = await speaker(engine)
        for number in range(1, 401):
            await host.say(number)
        part = await engine.output.read(NAMESPACE, host.task_id, 0)
        found = await numbers(engine, host.task_id)
        assert found == list(range(part.first, 401))
        assert 130 <= len(found) <= 160
        assert part.dropped == (part.first - 1) * SIZE


async def test_what_a_namespace_keeps_is_measured_with_what_was_kept_before(store):
    async with running_engine(store=store) as engine:
        host = await speaker(engine)
        for number in range(1, 101):
            await host.say(number)
        (state,) = engine._namespaces
        outputs = state.scheduler.outputs
        said, outputs.used = outputs.used, 0
        await engine.output.measure(state)
        # By the sizes of rows: here chunks say that they have more than they do.
        assert said == 100 * SIZE <= 2 * outputs.used <= 20 * said


async def test_nobody_is_told_of_a_chunk_before_it_is_kept():
    store = GatedStore()
    async with running_engine(store=store) as engine:
        host = await speaker(engine)
        await host.say(1)
        store.gate.clear()
        said = asyncio.create_task(host.say(2))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not said.done()
        assert (await engine.output.read(NAMESPACE, host.task_id, 1)).rows == []
        waits = asyncio.create_task(engine.output.wait(NAMESPACE, host.task_id, 1, 60))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not waits.done()
        store.gate.set()
        assert await said == 2
        assert await waits
        assert await numbers(engine, host.task_id, 1) == [2]


async def test_what_left_the_memory_is_read_from_the_store(monkeypatch):
    monkeypatch.setattr(output_log, "TAIL_BYTES", 5 * SIZE)
    async with running_engine(store=DictStore()) as engine:
        host = await speaker(engine)
        for number in range(1, 31):
            await host.say(number)
        assert len(engine._namespaces.here(NAMESPACE).outputs.of(1).rows) == 5
        for after in range(31):
            assert [n for n in await numbers(engine, host.task_id, after) if n > after] == list(range(after + 1, 31))


async def test_all_tails_together_are_bounded():
    tails = output_log.Memory(max_bytes=100)
    logs = [output_log.OutputLog() for _ in range(5)]
    for first in range(1, 11):
        for log in logs if first == 1 else logs[1:]:
            row = output_log.ChunkRow(first, 0)
            row.add(b"x", SIZE)
            log.rows.append(row)
            tails.grown(log, SIZE)
    assert sum(row.size for log in logs for row in log.rows) <= 100
    assert logs[-1].rows
    assert not logs[0].rows


@pytest.mark.parametrize("history_days", [30, 0])
async def test_output_goes_with_its_task(history_days):
    store = DictStore()
    clock = Clock()
    options = StoreOptions(history_days=history_days)
    async with running_engine(Limits(result_ttl_secs=5), clock, store=store, store_options=options) as engine:
        host = await speaker(engine)
        await host.say(1, 3)
        await host.end()
        await settled(engine)
        clock.now += 6
        await settled(engine)
        if history_days:
            assert await numbers(engine, host.task_id) == [1, 2, 3]
            assert (await engine.output.read(NAMESPACE, host.task_id, 2)).first == 1
        else:
            with pytest.raises(NotFound):
                await engine.output.read(NAMESPACE, host.task_id, 0)
            assert not store.said.get((1 << 40) + 1)
        state = engine._namespaces.here(NAMESPACE)
        assert state.outputs._of == {}
        assert not state.scheduler.outputs._of


@pytest.mark.memory_store
async def test_without_a_store_the_memory_is_free_once_the_task_is():
    clock = Clock()
    async with running_engine(Limits(result_ttl_secs=5), clock) as engine:
        host = await speaker(engine)
        await host.say(1, 3)
        await host.end()
        clock.now += 6
        await settled(engine)
        assert engine._namespaces.here(NAMESPACE).outputs._of == {}


@pytest.mark.memory_store
async def test_without_a_store_the_memory_is_bounded_and_what_is_dropped_is_told():
    async with running_engine() as engine:
        engine._namespaces._memory = output_log.Memory(10 * SIZE, is_all=True)
        one, other = await speaker(engine), await speaker(engine)
        await one.say(1, 3)
        await other.say(1, 8)
        part = await engine.output.read(NAMESPACE, one.task_id, 0)
        assert (part.rows, part.first, part.dropped) == ([], 4, 3 * SIZE)
        assert await numbers(engine, other.task_id) == list(range(1, 9))
        await one.say(4)
        part = await engine.output.read(NAMESPACE, one.task_id, 0)
        assert ([row.first for row in part.rows], part.first, part.dropped) == ([4], 4, 3 * SIZE)


# Restarts


async def test_after_a_restart_numbers_go_on_and_what_came_before_is_taken_once():
    store = DictStore()
    async with running_engine(store=store) as engine:
        host = await speaker(engine)
        await host.say(1, 3)
        store = store.copy()
    async with running_engine(store=store) as engine:
        host.engine = engine
        assert not engine._namespaces.here(NAMESPACE).outputs.memory.is_all
        assert await numbers(engine, host.task_id) == [1, 2, 3]
        assert await host.say(2, 3) == 4
        assert await numbers(engine, host.task_id) == [1, 2, 3, 4]
        assert not await engine.output.wait(NAMESPACE, host.task_id, 4, 0)
        await host.end()
        with pytest.raises(LeaseLost):
            await host.say(5)
        assert await numbers(engine, host.task_id) == [1, 2, 3, 4]


async def test_after_a_restart_the_bound_still_holds():
    store, limits = DictStore(), Limits(max_output_bytes=16 << 20)
    async with running_engine(limits, store=store) as engine:
        host = await speaker(engine)
        for number in range(1, 17):
            await host.say(number, size=1 << 20)
        store = store.copy()
    async with running_engine(Limits(max_output_bytes=4 << 20), store=store) as engine:
        host.engine = engine
        await host.say(17, size=1 << 10)
        part = await engine.output.read(NAMESPACE, host.task_id, 0)
        assert part.first == 14
        assert part.dropped == 13 << 20
        assert [row.first for row in part.rows] == [14, 15, 16, 17][: len(part.rows)]


async def test_a_failed_task_that_is_resumed_from_the_history_goes_on_with_its_numbers():
    store, clock = DictStore(), Clock()
    async with running_engine(Limits(result_ttl_secs=5), clock, store=store) as engine:
        host = await speaker(engine)
        await host.say(1, 3)
        await reporting.fail(engine, NAMESPACE, HOST, host.task_id, host.token, "broken")
        await settled(engine)
        clock.now += 6
        await settled(engine)
        await engine.tasks.resume(NAMESPACE, host.task_id, show=live)
        (lease,) = await engine.leases.claim(NAMESPACE, HOST, show=live)
        again = Speaker(engine, lease.task.id, lease.token)
        assert await again.say(1, 2) == 2
        assert await numbers(engine, host.task_id) == [1, 2, 3, 4, 5]
