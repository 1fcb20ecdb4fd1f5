"""Claims with an id and the store: answers that wait for a commit, restarts (docs/rules.md, Claim ids)."""

import asyncio

import pytest

from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.engine.engine import Engine
from tests import reporting
from tests.live import live

NS = "default"


@pytest.fixture
async def task(engine, submission, clock):
    """A registered host, and a task that it may claim."""
    await engine.hosts.register(NS, "host", None, HostProfile(), show=live)
    return await engine.tasks.submit(NS, submission(deadline=clock.now + 10_000), show=live)


@pytest.fixture
async def restarted(store, clock):
    """Starts another engine on what was committed."""
    started = []

    async def restart():
        again = Engine(Limits(), clock, store=store.copy())
        started.append(again)
        clock.now += 1
        await again.open()
        return again

    yield restart
    for each in started:
        await each.admin.close()


async def claim(engine, claim_id="first", count=1, wait_secs=0):
    return await engine.leases.claim(NS, "host", count, None, wait_secs, claim_id=claim_id, show=tokens)


def tokens(leases):
    return [(lease.task.id, lease.token) for lease in leases]


async def state_of(engine, task):
    return await engine.tasks.get(NS, task.id, show=lambda task: task.state)


@pytest.mark.usefixtures("task")
async def test_a_claim_is_repeated_after_a_restart(engine, restarted):
    leases = await claim(engine)
    again = await restarted()
    assert await claim(again) == leases
    assert await claim(again, "second") == []


@pytest.mark.usefixtures("task")
async def test_several_leases_stand_in_their_order_after_a_restart(engine, submission, restarted, clock):
    # The one that was submitted last is claimed first.
    for priority in (-1, -2):
        await engine.tasks.submit(NS, submission(priority=priority, deadline=clock.now + 10_000), show=live)
    leases = await claim(engine, count=3)
    assert [token for _, token in leases] == [1, 2, 3]
    assert await claim(await restarted(), count=1) == leases


@pytest.mark.usefixtures("task")
async def test_a_lease_that_ended_after_a_restart_frees_its_id(engine, restarted):
    ((task_id, token),) = await claim(engine)
    again = await restarted()
    await reporting.complete(again, NS, "host", task_id, token, None)
    assert await claim(again) == []


async def test_a_claim_whose_answer_waits_for_its_commit_is_given_back_when_its_caller_goes(engine, store, task, clock):
    store.gate.clear()
    first = asyncio.ensure_future(claim(engine))
    await clock.run_pending()
    first.cancel()
    await clock.run_pending()
    store.gate.set()
    await clock.run_pending()
    assert await state_of(engine, task) == "queued"


@pytest.mark.parametrize("who", ["first", "repeat"])
async def test_the_end_of_one_of_two_calls_takes_nothing_from_the_other(engine, store, task, clock, who):
    store.gate.clear()
    first = asyncio.ensure_future(claim(engine))
    await clock.run_pending()
    again = asyncio.ensure_future(claim(engine))
    await clock.run_pending()
    gone, stays = (first, again) if who == "first" else (again, first)
    gone.cancel()
    await clock.run_pending()
    store.gate.set()
    ((task_id, token),) = await stays
    await reporting.complete(engine, NS, "host", task_id, token, None)
    assert await state_of(engine, task) == "done"


async def test_when_both_callers_are_gone_the_lease_is_given_back(engine, store, task, clock):
    store.gate.clear()
    calls = [asyncio.ensure_future(claim(engine)) for _ in range(2)]
    await clock.run_pending()
    for call in calls:
        call.cancel()
    await clock.run_pending()
    store.gate.set()
    await clock.run_pending()
    assert await state_of(engine, task) == "queued"
