"""Artifacts in the engine: parts in any order of faults make one whole, which goes with its task."""

import asyncio
import os

import pytest

from taskyard_server.core.errors import BadRequest, Conflict, LeaseLost, NotFound, TooLarge, Unavailable
from taskyard_server.core.limits import Limits
from taskyard_server.core.names import names
from taskyard_server.core.runs.artifacts import Right
from taskyard_server.core.task import Submission
from taskyard_server.core.task_options import TaskOptions
from taskyard_server.engine.persistence import StoreOptions
from taskyard_server.store.objects import Objects
from tests import reporting
from tests.engines import running_engine, settled
from tests.live import live
from tests.services.conftest import Clock
from tests.speakers import HOST, speaker
from tests.store.dict_store import DictStore
from tests.store.gated_store import GatedStore
from tests.uploaders import (
    NAMESPACE,
    PART_BYTES,
    FailingObjects,
    SlowObjects,
    content,
    files,
    got,
    lease,
    objects_in,
    put,
    send,
)
from tests.waiting import until

pytestmark = pytest.mark.memory_store
HOUR = 3_600


@pytest.fixture(params=["memory", "kept"])
def store(request):
    return DictStore() if request.param == "kept" else None


@pytest.fixture
async def engine(store, tmp_path):
    async with running_engine(store=store, objects=objects_in(tmp_path)) as engine:
        yield engine


async def task_of(engine, right):
    return await engine.tasks.get(NAMESPACE, right.task_id, show=live)


# Parts


@pytest.mark.parametrize("size", [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES, 3 * PART_BYTES + 5])
async def test_an_artifact_is_what_its_parts_are(engine, size):
    right, data = await lease(engine), content(size)
    uploaded = await put(engine, right, "data", data)
    assert (uploaded.received, uploaded.artifact.size) == (size, size)
    assert await got(engine, right.task_id, "data") == data
    for start, end in [(0, size), (size // 2, size), (PART_BYTES - 2, PART_BYTES + 2), (size, size)]:
        assert await got(engine, right.task_id, "data", start, min(end, size)) == data[start : min(end, size)]


async def test_a_task_shows_its_artifacts_with_what_is_said_of_them(engine):
    right = await lease(engine)
    await send(engine, right, "a", b"one", of=b"one", media_type="image/png")
    await send(engine, right, "b", b"three", of=b"three")
    (first, second) = (await task_of(engine, right)).history.artifacts
    assert (first.name, first.media_type, first.size, first.attempt) == ("a", "image/png", 3, 1)
    assert (second.name, second.size) == ("b", 5)


async def test_the_last_part_reports_the_start_and_others_do_not(engine):
    right, data = await lease(engine), content(PART_BYTES + 1)
    await send(engine, right, "data", data[:PART_BYTES])
    assert (await task_of(engine, right)).state.value == "assigned"
    await send(engine, right, "data", data[PART_BYTES:], PART_BYTES, of=data)
    assert (await task_of(engine, right)).state.value == "running"


async def test_a_part_that_comes_again_is_taken_once(engine):
    right, data = await lease(engine), content(2 * PART_BYTES + 7)
    for offset in (0, PART_BYTES):
        for _ in range(2):
            uploaded = await send(engine, right, "data", data[offset : offset + PART_BYTES], offset)
            assert uploaded.received == offset + PART_BYTES
    for _ in range(3):
        uploaded = await send(engine, right, "data", data[2 * PART_BYTES :], 2 * PART_BYTES, of=data)
        assert uploaded.artifact.size == len(data)
    assert await got(engine, right.task_id, "data") == data
    assert len((await task_of(engine, right)).history.artifacts) == 1


async def test_last_parts_that_come_at_once_make_one_artifact_that_stays(engine):
    right, data = await lease(engine), content(PART_BYTES + 7)
    await send(engine, right, "data", data[:PART_BYTES])
    last = [send(engine, right, "data", data[PART_BYTES:], PART_BYTES, of=data) for _ in range(4)]
    outcomes = await asyncio.gather(*last, return_exceptions=True)
    assert any(not isinstance(each, Exception) for each in outcomes)
    assert all(isinstance(each, Unavailable) for each in outcomes if isinstance(each, Exception))
    assert await got(engine, right.task_id, "data") == data


async def test_an_upload_may_begin_anew_with_other_bytes(engine):
    right, data = await lease(engine), content(PART_BYTES + 7, seed=9)
    await send(engine, right, "data", content(PART_BYTES))
    await put(engine, right, "data", data)
    assert await got(engine, right.task_id, "data") == data


@pytest.mark.parametrize(
    ("offset", "size", "said"),
    [
        (5, 1, "offset: must be 131072, since so much has come"),
        (3 * PART_BYTES, 1, "offset: must be 131072"),
        (2 * PART_BYTES, PART_BYTES + 1, "content: must have 65536 bytes as the first part"),
        (0, (1 << 20) + 1, "content: must have at most 1048576 bytes"),
    ],
)
async def test_a_part_at_the_wrong_place_or_of_the_wrong_size_changes_nothing(engine, offset, size, said):
    right, data = await lease(engine), content(2 * PART_BYTES)
    await send(engine, right, "data", data[:PART_BYTES])
    await send(engine, right, "data", data[PART_BYTES:], PART_BYTES)
    with pytest.raises(BadRequest, match=said):
        await send(engine, right, "data", content(size), offset)
    await send(engine, right, "data", b"", 2 * PART_BYTES, of=data)
    assert await got(engine, right.task_id, "data") == data


async def test_small_parts_are_refused_once_a_further_one_comes(engine):
    right = await lease(engine)
    await send(engine, right, "data", b"short")
    with pytest.raises(BadRequest, match="content: must have at least 65536 bytes"):
        await send(engine, right, "data", b"short", 5)


async def test_after_a_short_part_nothing_follows(engine):
    right, data = await lease(engine), content(PART_BYTES + 5)
    await send(engine, right, "data", data[:PART_BYTES])
    await send(engine, right, "data", data[PART_BYTES:], PART_BYTES)
    with pytest.raises(BadRequest, match="content: must have 65536 bytes"):
        await send(engine, right, "data", b"more", len(data))


async def test_another_hash_is_refused_and_the_task_gets_nothing(engine):
    right = await lease(engine)
    with pytest.raises(BadRequest, match="sha256: what has come, 5 bytes, has another"):
        await send(engine, right, "data", b"wrong", of=b"right")
    assert (await task_of(engine, right)).history.artifacts == ()
    await send(engine, right, "data", b"right", of=b"right")
    assert await got(engine, right.task_id, "data") == b"right"


# Rights


async def test_under_an_earlier_lease_nothing_is_taken(engine):
    right = await lease(engine)
    await send(engine, right, "data", content(PART_BYTES))
    await reporting.release(engine, NAMESPACE, HOST, right.task_id, right.token)
    with pytest.raises(LeaseLost):
        await send(engine, right, "data", b"x", PART_BYTES, of=b"x")
    (later,) = await engine.leases.claim(NAMESPACE, HOST, show=live)
    with pytest.raises(LeaseLost):
        await send(engine, right, "data", b"x", of=b"x")
    await send(engine, right._replace(token=later.token), "data", b"later", of=b"later")
    assert await got(engine, right.task_id, "data") == b"later"


async def test_a_lease_that_ends_while_a_part_is_written_gets_nothing(store, tmp_path):
    objects = SlowObjects(f"file://{tmp_path}")
    async with running_engine(store=store, objects=objects) as engine:
        right = await lease(engine)
        sending = asyncio.create_task(send(engine, right, "data", b"late", of=b"late"))
        await objects.is_writing.wait()
        await reporting.complete(engine, NAMESPACE, HOST, right.task_id, right.token, None)
        objects.may_write.set()
        with pytest.raises(LeaseLost):
            await sending
        assert (await task_of(engine, right)).history.artifacts == ()


async def test_the_submitter_attaches_to_a_held_task_alone(engine):
    task = await engine.tasks.submit(NAMESPACE, Submission("ann", "click", options=TaskOptions(hold=True)), show=live)
    right = Right(task.id, agents=names(["ann"]))
    await put(engine, right, "params", content(PART_BYTES + 1))
    assert (await task_of(engine, right)).history.artifacts[0].attempt == 0
    with pytest.raises(NotFound):
        await send(engine, right._replace(agents=names(["eve"])), "params", b"x", of=b"x")
    await engine.tasks.resume(NAMESPACE, task.id, show=live)
    with pytest.raises(Conflict, match="task is not held"):
        await send(engine, right, "params", b"x", of=b"x")
    assert await got(engine, task.id, "params") == content(PART_BYTES + 1)


async def test_a_host_reads_what_its_own_task_has(engine):
    right = await lease(engine)
    await send(engine, right, "data", b"mine", of=b"mine")
    assert (await engine.artifacts.find_under(NAMESPACE, right, "data")).artifact.size == 4
    with pytest.raises(LeaseLost):
        await engine.artifacts.find_under(NAMESPACE, right._replace(token=right.token + 1), "data")
    with pytest.raises(NotFound, match="artifact not found"):
        await engine.artifacts.find_under(NAMESPACE, right, "other")


async def test_a_server_without_objects_keeps_none():
    async with running_engine() as engine:
        right = await lease(engine)
        with pytest.raises(Conflict, match=r"store\.artifacts is not set"):
            await send(engine, right, "data", b"x", of=b"x")


# Bounds


async def test_a_task_has_at_most_a_hundred_those_under_way_included(engine):
    right = await lease(engine)
    for index in range(99):
        await send(engine, right, f"n{index}", b"", of=b"")
    await send(engine, right, "half", b"x")
    with pytest.raises(TooLarge, match="at most 100"):
        await send(engine, right, "more", b"", of=b"")
    await send(engine, right, "n7", b"y", of=b"y")
    await send(engine, right, "half", b"", 1, of=b"x")


async def test_a_task_and_a_namespace_have_their_bytes_and_no_more(store, tmp_path):
    limits = Limits(max_artifact_bytes=100, max_namespace_artifact_bytes=150)
    async with running_engine(limits, store=store, objects=objects_in(tmp_path)) as engine:
        right = await lease(engine)
        with pytest.raises(TooLarge, match="of a task may have 100 bytes"):
            await send(engine, right, "a", b"x", size=101)
        await send(engine, right, "a", content(60), of=content(60))
        await send(engine, right, "b", content(30))
        with pytest.raises(TooLarge, match="of a task may have 100 bytes"):
            await send(engine, right, "c", content(11))
        await send(engine, right, "a", content(70), of=content(70))
        other = await lease(engine)
        with pytest.raises(TooLarge, match="of a namespace may have 150 bytes"):
            await send(engine, other, "d", content(51), of=content(51))
        await send(engine, other, "d", content(50), of=content(50))


async def test_without_a_store_the_memory_is_bounded(monkeypatch):
    monkeypatch.setattr("taskyard_server.engine.artifacts.MAX_MEMORY_BYTES", 100)
    async with running_engine(objects=Objects("memory:///")) as engine:
        right = await lease(engine)
        await send(engine, right, "a", content(60), of=content(60))
        with pytest.raises(TooLarge, match="without a store all artifacts may have 100 bytes"):
            await send(engine, right, "b", content(41), of=content(41))
        assert await got(engine, right.task_id, "a") == content(60)


async def test_parts_that_wait_for_a_slow_store_are_bounded(monkeypatch, tmp_path):
    monkeypatch.setattr("taskyard_server.engine.artifacts.MAX_BYTES_AT_ONCE", 100)
    objects = SlowObjects(f"file://{tmp_path}")
    async with running_engine(objects=objects) as engine:
        right = await lease(engine)
        sending = asyncio.create_task(send(engine, right, "a", content(60), of=content(60)))
        await objects.is_writing.wait()
        with pytest.raises(Unavailable, match="still being written"):
            await send(engine, right, "b", content(41), of=content(41))
        objects.may_write.set()
        await sending
        await send(engine, right, "b", content(41), of=content(41))


# Faults


async def test_a_store_of_objects_that_fails_loses_nothing(store, tmp_path):
    objects = FailingObjects(f"file://{tmp_path}")
    async with running_engine(store=store, objects=objects) as engine:
        right, data = await lease(engine), content(2 * PART_BYTES + 9)
        await send(engine, right, "data", data[:PART_BYTES])
        for offset in (0, PART_BYTES, 2 * PART_BYTES):
            objects.fails = True
            last = data if offset == 2 * PART_BYTES else None
            with pytest.raises(Unavailable, match="store of artifacts"):
                await send(engine, right, "data", data[offset : offset + PART_BYTES], offset, of=last)
            objects.fails = False
            await send(engine, right, "data", data[offset : offset + PART_BYTES], offset, of=last)
        objects.fails = True
        with pytest.raises(Unavailable, match="store of artifacts"):
            await got(engine, right.task_id, "data")
        objects.fails = False
        assert await got(engine, right.task_id, "data") == data
        assert engine._namespaces.here(NAMESPACE).scheduler.artifacts.used == len(data)


async def test_after_a_restart_an_upload_goes_on_where_it_was(tmp_path):
    store, data = DictStore(), content(2 * PART_BYTES + 5)
    async with running_engine(store=store, objects=objects_in(tmp_path)) as engine:
        right = await lease(engine)
        await send(engine, right, "data", data[:PART_BYTES])
        await send(engine, right, "data", data[PART_BYTES : 2 * PART_BYTES], PART_BYTES)
        store = store.copy()
    async with running_engine(store=store, objects=objects_in(tmp_path)) as engine:
        with pytest.raises(BadRequest, match=f"offset: must be {2 * PART_BYTES}"):
            await send(engine, right, "data", data[:5], 3 * PART_BYTES)
        await send(engine, right, "data", data[2 * PART_BYTES :], 2 * PART_BYTES, of=data)
        assert await got(engine, right.task_id, "data") == data


async def test_after_a_restart_artifacts_are_there_and_the_last_part_again_changes_nothing(tmp_path):
    store, data = DictStore(), content(PART_BYTES + 5)
    async with running_engine(store=store, objects=objects_in(tmp_path)) as engine:
        right = await lease(engine)
        await put(engine, right, "data", data)
        before = (await task_of(engine, right)).history.artifacts
        store = store.copy()
    async with running_engine(store=store, objects=objects_in(tmp_path)) as engine:
        assert (await send(engine, right, "data", data[PART_BYTES:], PART_BYTES, of=data)).artifact == before[0]
        assert (await task_of(engine, right)).history.artifacts == before
        assert await got(engine, right.task_id, "data") == data


async def test_nobody_is_told_of_an_artifact_before_its_commit(tmp_path):
    store, objects = GatedStore(), SlowObjects(f"file://{tmp_path}")
    async with running_engine(store=store, objects=objects) as engine:
        right = await lease(engine)
        sending = asyncio.create_task(send(engine, right, "data", b"x", of=b"x"))
        await objects.is_writing.wait()
        await settled(engine)
        tried = len(store.tried)
        store.gate.clear()
        objects.may_write.set()
        await until(lambda: len(store.tried) > tried)
        reading = asyncio.create_task(got(engine, right.task_id, "data"))
        await asyncio.wait([sending, reading], timeout=0)
        assert not sending.done()
        assert not reading.done()
        store.gate.set()
        await sending
        assert await reading == b"x"


# What goes


async def test_the_one_before_goes_once_another_has_its_name(engine, tmp_path):
    right = await lease(engine)
    for data in (b"one", b"other", b"third"):
        await send(engine, right, "data", data, of=data)
    assert await got(engine, right.task_id, "data") == b"third"
    assert len(files(tmp_path)) == 1
    assert [each.size for each in (await task_of(engine, right)).history.artifacts] == [5]


async def test_who_reads_while_it_is_replaced_gets_no_mixture(engine):
    right, data = await lease(engine), content(2 * PART_BYTES)
    await put(engine, right, "data", data)
    kept = await engine.artifacts.find(NAMESPACE, right.task_id, "data")
    reading = engine.artifacts.read(kept, 0, len(data))
    assert await anext(reading) == data[:PART_BYTES]
    await put(engine, right, "data", content(2 * PART_BYTES, seed=5))
    with pytest.raises(NotFound, match="gone"):
        await anext(reading)


async def test_what_was_left_half_goes_once_its_lease_has_ended(engine, tmp_path):
    right = await lease(engine)
    await send(engine, right, "half", content(PART_BYTES))
    await send(engine, right, "whole", b"x", of=b"x")
    await engine.artifacts._sweep()
    assert len(files(tmp_path)) == 2
    await reporting.complete(engine, NAMESPACE, HOST, right.task_id, right.token, None)
    await engine.artifacts._sweep()
    assert len(files(tmp_path)) == 1
    assert engine._namespaces.here(NAMESPACE).scheduler.artifacts.used == 1
    assert await got(engine, right.task_id, "whole") == b"x"


async def test_without_history_artifacts_go_with_their_task(store, tmp_path):
    options, clock = StoreOptions(history_days=0), Clock()
    async with running_engine(clock=clock, store=store, store_options=options, objects=objects_in(tmp_path)) as engine:
        right = await lease(engine)
        await send(engine, right, "data", b"x", of=b"x")
        await reporting.complete(engine, NAMESPACE, HOST, right.task_id, right.token, None)
        await engine.artifacts._sweep()
        assert len(files(tmp_path)) == 1
        clock.now += HOUR
        other = await lease(engine)
        await settled(engine)
        await engine.artifacts._sweep()
        assert files(tmp_path) == []
        with pytest.raises(NotFound):
            await got(engine, right.task_id, "data")
        assert other.task_id


async def test_in_the_history_artifacts_stay_and_go_once_it_forgets_them(tmp_path):
    clock, store = Clock(), DictStore()
    async with running_engine(clock=clock, store=store, objects=objects_in(tmp_path)) as engine:
        right = await lease(engine)
        await send(engine, right, "data", b"x", of=b"x")
        await reporting.complete(engine, NAMESPACE, HOST, right.task_id, right.token, None)
        state = engine._namespaces.here(NAMESPACE)
        clock.now += HOUR
        await speaker(engine)
        await settled(engine)
        assert state.scheduler.find(right.task_id) is None
        assert await got(engine, right.task_id, "data") == b"x"
        for each in tmp_path.rglob("*/0"):
            os.utime(each, (clock.now, clock.now))
        clock.now += 8 * 24 * HOUR
        await engine.artifacts._collect(state)
        assert len(files(tmp_path)) == 1
        while await store.forget(int(clock.now * 1000), 100):
            pass
        await engine.artifacts._collect(state)
        assert files(tmp_path) == []


async def test_a_collection_measures_what_a_namespace_has(tmp_path):
    store = DictStore()
    async with running_engine(store=store, objects=objects_in(tmp_path)) as engine:
        right = await lease(engine)
        await send(engine, right, "data", content(77), of=content(77))
        store = store.copy()
    async with running_engine(store=store, objects=objects_in(tmp_path)) as engine:
        state = engine._namespaces.here(NAMESPACE)
        await engine.artifacts._collect(state)
        assert state.scheduler.artifacts.used == 77


async def test_with_a_namespace_its_artifacts_go(store, tmp_path):
    async with running_engine(store=store, objects=objects_in(tmp_path)) as engine:
        right = await lease(engine)
        await send(engine, right, "data", b"x", of=b"x")
        number = engine._namespaces.here(NAMESPACE).number
        await engine.namespaces.delete(NAMESPACE, force=True)
        if store is None:
            await engine.artifacts._sweep()
        else:
            await engine.persistence.removals._objects(number)
        assert files(tmp_path) == []
