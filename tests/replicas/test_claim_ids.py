"""A claim with an id is repeated at the replica that serves its namespace now (docs/rules.md, Claim ids)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from taskyard_server.core.errors import NotOwner
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.leases import Lease
from tests.live import live

from .members import FAILOVER_SECS, Member, Yard

NS = "yard"


@pytest.fixture
async def yard() -> AsyncIterator[Yard]:
    async with AsyncExitStack() as stack:
        yield Yard(stack)


def tokens(leases: list[Lease]) -> list[tuple[str, int]]:
    return [(lease.task.id, lease.token) for lease in leases]


async def claim(member: Member, wait_secs: float = 0) -> list[tuple[str, int]]:
    return await member.engine.leases.claim(NS, "host", 2, 60, wait_secs, claim_id="first", show=tokens)


async def owner_and_other(yard: Yard) -> tuple[Member, Member]:
    """The replica that has the namespace, with two tasks and a host; and another one."""
    one, two = [await yard.member(name) for name in ("one", "two")]
    await one.submit(NS, NS)
    await one.engine.hosts.register(NS, "host", None, HostProfile(), show=live)
    return one, two


async def test_after_a_hand_over(yard: Yard) -> None:
    one, two = await owner_and_other(yard)
    leases = await claim(one)
    await one.serving.drain("one", True)
    await yard.settle()
    assert two.owned() == [NS]
    assert len(leases) == 2
    assert await claim(two) == leases


async def test_after_its_owner_has_died(yard: Yard) -> None:
    one, two = await owner_and_other(yard)
    leases = await claim(one)
    yard.members.remove(one)
    yard.secs += FAILOVER_SECS + 1
    await yard.settle()
    assert two.owned() == [NS]
    assert await claim(two) == leases
    # It learns that it was found dead, and ends with nothing to wait for.
    await one.go_on()


async def test_a_claim_that_waits_during_a_hand_over_goes_on_at_the_next_owner(yard: Yard) -> None:
    one, two = await owner_and_other(yard)
    for task_id, token in await claim(one):
        assert token
        await one.engine.tasks.cancel(NS, task_id, show=live)
    waiting = asyncio.ensure_future(claim(one, 30))
    await asyncio.sleep(0)
    await one.serving.drain("one", True)
    await yard.settle()
    with pytest.raises(NotOwner):
        await waiting
    again = asyncio.ensure_future(claim(two, 30))
    await asyncio.sleep(0)
    await two.submit(NS)
    leases = await again
    assert len(leases) == 1
    assert await claim(two) == leases
