"""Artifacts that hosts put of children that are held, under the leases of their parents (docs/rules.md, Children)."""

import asyncio

import pytest

from taskyard_server.core.errors import Conflict, LeaseLost, NotFound
from taskyard_server.core.task import Submission
from taskyard_server.core.task_options import TaskExtras, TaskOptions
from tests import reporting
from tests.engines import running_engine
from tests.live import live
from tests.speakers import HOST
from tests.store.dict_store import DictStore
from tests.uploaders import NAMESPACE, PART_BYTES, SlowObjects, content, got, lease, objects_in, put, send

pytestmark = pytest.mark.memory_store


@pytest.fixture
async def engine(tmp_path):
    async with running_engine(objects=objects_in(tmp_path)) as engine:
        yield engine


async def child(engine, right, **options):
    """The child `page` of a task under a lease."""
    submission = Submission("", "click", options=TaskOptions(extras=TaskExtras(child_name="page"), **options))
    under = (NAMESPACE, HOST, right.task_id, right.token)
    return await engine.children.submit(*under, submission, show=lambda made: made[0])


async def artifacts_of(engine, task):
    return (await engine.tasks.get(NAMESPACE, task.id, show=live)).history.artifacts


async def test_a_held_child_gets_what_its_parent_puts_and_the_parent_what_is_its_own(engine):
    right = await lease(engine)
    made = await child(engine, right, hold=True)
    of_child, data = right._replace(child="page"), content(PART_BYTES + 1)
    await send(engine, of_child, "data", data[:PART_BYTES])
    await send(engine, right, "data", b"its own", of=b"its own")
    await send(engine, of_child, "data", data[PART_BYTES:], PART_BYTES, of=data)
    assert await got(engine, made.id, "data") == data
    assert await got(engine, right.task_id, "data") == b"its own"
    assert [each.attempt for each in await artifacts_of(engine, made)] == [0]
    await child(engine, right)
    with pytest.raises(Conflict, match="child is not held"):
        await send(engine, of_child, "data", b"x", of=b"x")
    assert await got(engine, made.id, "data") == data


async def test_a_child_gets_nothing_under_another_lease_or_name(engine):
    right = await lease(engine)
    made = await child(engine, right, hold=True)
    with pytest.raises(NotFound, match="child not found"):
        await send(engine, right._replace(child="other"), "data", b"x", of=b"x")
    with pytest.raises(LeaseLost):
        await send(engine, right._replace(child="page", token=right.token + 1), "data", b"x", of=b"x")
    assert await artifacts_of(engine, made) == ()


async def test_the_next_run_of_a_parent_begins_anew_what_the_one_before_has_put(engine):
    right, data = await lease(engine), content(PART_BYTES + 7, seed=9)
    made = await child(engine, right, hold=True)
    await send(engine, right._replace(child="page"), "data", content(PART_BYTES))
    await reporting.release(engine, NAMESPACE, HOST, right.task_id, right.token)
    (later,) = await engine.leases.claim(NAMESPACE, HOST, show=live)
    with pytest.raises(LeaseLost):
        await send(engine, right._replace(child="page"), "data", b"x", PART_BYTES, of=b"x")
    await put(engine, right._replace(child="page", token=later.token), "data", data)
    assert await got(engine, made.id, "data") == data
    assert engine._namespaces.here(NAMESPACE).scheduler.artifacts.used == len(data)


async def test_a_child_that_is_let_go_while_a_part_is_written_gets_nothing(tmp_path):
    objects = SlowObjects(f"file://{tmp_path}")
    async with running_engine(objects=objects) as engine:
        right = await lease(engine)
        made = await child(engine, right, hold=True)
        sending = asyncio.create_task(send(engine, right._replace(child="page"), "data", b"late", of=b"late"))
        await objects.is_writing.wait()
        await child(engine, right)
        objects.may_write.set()
        with pytest.raises(Conflict, match="child is not held"):
            await sending
        assert await artifacts_of(engine, made) == ()


async def test_after_a_restart_a_host_goes_on_where_it_was(tmp_path):
    store, data = DictStore(), content(PART_BYTES + 5)
    async with running_engine(store=store, objects=objects_in(tmp_path)) as engine:
        right = await lease(engine)
        made = await child(engine, right, hold=True)
        await send(engine, right._replace(child="page"), "data", data[:PART_BYTES])
        store = store.copy()
    async with running_engine(store=store, objects=objects_in(tmp_path)) as engine:
        await send(engine, right._replace(child="page"), "data", data[PART_BYTES:], PART_BYTES, of=data)
        assert await got(engine, made.id, "data") == data
