"""Calls that claim under an id: repeated while the first waits, or is cancelled (docs/rules.md, Claim ids)."""

import asyncio

import pytest

from tests import reporting
from tests.live import live

NS = "default"


def claim(engine, claim_id="first", count=1, wait_secs=0):
    call = engine.leases.claim(NS, "host", count, None, wait_secs, claim_id=claim_id, show=live)
    return asyncio.ensure_future(call)


@pytest.fixture
async def new_task(engine, host, submission, clock):
    """Submits a task whose deadline is far off; the host is registered."""

    assert host == "host"

    async def submit():
        task = await engine.tasks.submit(NS, submission(deadline=clock.now + 10_000), show=live)
        await clock.run_pending()
        return task

    return submit


async def waiting(engine, clock, **details):
    call = claim(engine, wait_secs=30, **details)
    await clock.run_pending()
    assert not call.done()
    return call


async def state_of(engine, task):
    return await engine.tasks.get(NS, task.id, show=lambda task: task.state)


async def test_a_repeat_is_answered_with_the_leases_of_the_first_call(engine, new_task):
    for _ in range(3):
        await new_task()
    leases = await claim(engine, count=2)
    assert await claim(engine, count=2) == leases
    assert await claim(engine, count=2, wait_secs=30) == leases


async def test_a_repeat_ends_the_call_that_waits_and_waits_in_its_place(engine, new_task, clock):
    first = await waiting(engine, clock)
    again = await waiting(engine, clock)
    assert first.result() == []
    task = await new_task()
    (lease,) = again.result()
    assert lease.task.id == task.id
    assert await claim(engine) == [lease]


async def test_a_call_that_was_ended_by_its_repeat_withdraws_nothing_of_it(engine, new_task, clock):
    first = await waiting(engine, clock)
    again = await waiting(engine, clock)
    first.cancel()
    await clock.run_pending()
    await new_task()
    assert len(again.result()) == 1


async def test_calls_of_other_ids_wait_beside_each_other(engine, new_task, clock):
    first = await waiting(engine, clock, claim_id="first")
    second = await waiting(engine, clock, claim_id="second")
    await new_task()
    await new_task()
    assert {len(first.result()), len(second.result())} == {1}


@pytest.mark.usefixtures("host")
async def test_a_repeat_that_finds_a_task_ends_the_call_that_waits(engine, clock, submission):
    first = await waiting(engine, clock)
    # The repeat comes in the turn of the submission, before the task is handed to the call that waits.
    submitting = asyncio.ensure_future(engine.tasks.submit(NS, submission(), show=live))
    _, leases = await asyncio.gather(submitting, claim(engine))
    await clock.run_pending()
    assert first.result() == []
    assert len(leases) == 1


async def test_two_at_once_get_the_same_lease(engine, new_task, clock):
    task = await new_task()
    first, again = claim(engine), claim(engine)
    await clock.run_pending()
    assert first.result() == again.result()
    assert await state_of(engine, task) == "assigned"


async def test_an_id_is_free_once_its_task_has_ended(engine, new_task):
    await new_task()
    (lease,) = await claim(engine)
    await reporting.complete(engine, NS, "host", lease.task.id, lease.token, None)
    assert await claim(engine) == []
    task = await new_task()
    (again,) = await claim(engine)
    assert again.task.id == task.id
