"""The calls about namespaces, against a real server: what they return and raise."""

import asyncio

import pytest

from taskyard import AlreadyExists, BadRequest, Conflict, NamespaceLimits, NamespaceTotals, NotFound
from taskyard_server.core import errors as refusals
from taskyard_server.core.limits import OWN_LIMITS
from tests.waiting import LIMIT_SECS


@pytest.fixture
def namespaces(client):
    return client.namespaces


async def names(namespaces, **fields):
    return [each.name async for each in namespaces.list(**fields)]


def test_it_has_every_limit():
    assert set(NamespaceLimits.__dataclass_fields__) == set(OWN_LIMITS)


async def test_one_is_created_with_limits_and_shown(namespaces, client):
    made = await namespaces.create("red", max_inflight=3, lease_secs=7.5)
    assert made.limits == NamespaceLimits(max_inflight=3, lease_secs=7.5)
    assert (made.effective_limits.max_inflight, made.effective_limits.max_queue_size) == (3, 20_000)
    assert made.totals == NamespaceTotals(0, 0, 0, 0, 0, 0)
    assert made.created_at is not None
    assert made.owner is None
    assert await namespaces.get("red") == made
    assert await namespaces.create("red", max_inflight=3, lease_secs=7.5) == made
    await client.submit("click")
    assert (await namespaces.get("default")).totals.queued == 1


async def test_they_are_listed_page_by_page(namespaces):
    for name in ("c", "a", "b"):
        await namespaces.create(name)
    assert await names(namespaces, page_size=2) == ["a", "b", "c"]


async def test_none_gives_a_limit_back(namespaces):
    await namespaces.create("red", max_inflight=3, lease_secs=7.5)
    changed = await namespaces.update("red", max_inflight=None, max_queue_size=9)
    assert changed.limits == NamespaceLimits(lease_secs=7.5, max_queue_size=9)


async def test_what_is_wrong_is_raised(namespaces):
    await namespaces.create("red")
    with pytest.raises(AlreadyExists):
        await namespaces.create("red", max_inflight=3)
    with pytest.raises(BadRequest, match="must be greater than 0"):
        await namespaces.update("red", max_inflight=0)
    with pytest.raises(TypeError, match="max_tasks: is no limit"):
        await namespaces.update("red", max_tasks=0)
    with pytest.raises(ValueError, match="out of range"):
        await namespaces.update("red", max_inflight=-1)
    for call in (namespaces.get("blue"), namespaces.update("blue"), namespaces.delete("blue")):
        with pytest.raises(NotFound):
            await call


async def test_one_in_use_is_deleted_by_force_alone(namespaces, client):
    await client.submit("click")
    with pytest.raises(Conflict, match="1 queued task"):
        await namespaces.delete("default")
    await namespaces.delete("default", force=True)
    assert await names(namespaces) == []


async def test_a_deletion_whose_answer_was_lost_is_repeated(namespaces, server, monkeypatch):
    await namespaces.create("red")
    real, tries = server.engine.namespaces.delete, []

    async def loses_its_answer(name, force):
        tries.append(name)
        await real(name, force)
        raise refusals.Unavailable("gone")

    monkeypatch.setattr(server.engine.namespaces, "delete", loses_its_answer)
    await namespaces.delete("red")
    assert len(tries) == 2


async def test_a_watch_of_a_namespace_that_is_deleted_ends(namespaces, client):
    await client.submit("click")
    seen = asyncio.Event()

    async def watch():
        async for _ in client.watch(include_current=True):
            seen.set()

    watching = asyncio.create_task(watch())
    await asyncio.wait_for(seen.wait(), LIMIT_SECS)
    await namespaces.delete("default", force=True)
    with pytest.raises(NotFound, match="the namespace was deleted"):
        await asyncio.wait_for(watching, LIMIT_SECS)
