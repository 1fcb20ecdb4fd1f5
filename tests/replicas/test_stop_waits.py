"""A wait for a host that stops ends when its namespace leaves (docs/rules.md, Waiting for a stop)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from taskyard_server.core.hosts import HostProfile
from tests.live import live

from .members import Member, Yard

LOOP_TURNS = 40
"""Turns of the event loop that suffice for a command and its commit."""


@pytest.fixture
async def yard() -> AsyncIterator[Yard]:
    async with AsyncExitStack() as stack:
        yield Yard(stack)


async def cancelling(member: Member) -> asyncio.Future[tuple[str, int, str]]:
    """A call that cancels a task that is in flight, and waits."""
    await member.submit("shop")
    await member.engine.hosts.register("shop", "host", None, HostProfile(), show=live)
    (lease,) = await member.engine.leases.claim("shop", "host", 1, 60, show=live)
    call = asyncio.ensure_future(
        member.engine.tasks.cancel_and_wait("shop", lease.task.id, 30, show=lambda task: task.state.value)
    )
    for _ in range(LOOP_TURNS):
        await asyncio.sleep(0)
    assert not call.done()
    return call


async def test_in_order_and_what_it_did_is_kept(yard: Yard) -> None:
    one, two = await yard.member("one"), await yard.member("two")
    call = await cancelling(one)
    await one.serving.replica.stop()
    await one.serving.replica.leave()
    yard.members.remove(one)
    assert await call == ("cancelled", 0, "waiting")
    await yard.settle()
    await two.submit("shop")
    page = await two.engine.tasks.list_tasks("shop", two.everything, 0, 10)
    assert [task.state.value for task in page.tasks] == ["cancelled", "queued"]


async def test_where_it_is_lost(yard: Yard) -> None:
    one = await yard.member("one")
    call = await cancelling(one)
    assert one.engine.owned is not None
    one.engine.owned.end("shop")
    assert await call == ("cancelled", 0, "waiting")
