"""Cancel and pause, and whether anything may still run (docs/rules.md, Waiting for a stop)."""

import asyncio

import pytest

from taskyard_server.core.errors import Conflict, NotFound
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.reports import Report, ReportKind
from tests import reporting
from tests.live import live

NS = "default"
LEASE_SECS = 40
COMMANDS = ["cancel_and_wait", "pause_and_wait"]

pytestmark = pytest.mark.usefixtures("host")


def state(task):
    return task.state.value


@pytest.fixture
async def start(clock):
    """Starts a call that will wait. Calls that still wait at the end of the test are cancelled."""
    calls = []

    async def start(call):
        calls.append(asyncio.ensure_future(call))
        await clock.run_pending()
        return calls[-1]

    yield start
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def running(engine, submission, target=None, is_started=True, **fields):
    """The lease of a new task that runs at the host."""
    await engine.tasks.submit(NS, submission(deadline=engine.now() + 10_000, target=target, **fields), show=live)
    (lease,) = await engine.leases.claim(NS, "host", 1, LEASE_SECS, show=live)
    if is_started:
        await reporting.start(engine, NS, "host", lease.task.id, lease.token)
    return lease


async def release(engine, lease):
    await engine.leases.report(NS, "host", [Report(ReportKind.RELEASED, lease.task.id, lease.token)])


def told(call):
    """What a call said: the state of the task, and whether anything may still run."""
    answer = call.result()
    return answer[0], answer[-1].value


STATES = {"cancel_and_wait": "cancelled", "pause_and_wait": "paused"}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("target", [None, "shop"])
@pytest.mark.parametrize("is_started", [True, False], ids=["running", "assigned"])
async def test_a_call_waits_until_the_host_says_that_nothing_runs(
    engine, submission, start, clock, command, target, is_started
):
    lease = await running(engine, submission, target, is_started)
    call = await start(getattr(engine.tasks, command)(NS, lease.task.id, 30, show=state))
    await clock.advance(10)
    assert not call.done()
    assert engine.tasks.state_of(NS, lease.task.id) == STATES[command]
    await release(engine, lease)
    await clock.run_pending()
    assert told(call) == (STATES[command], "released")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("target", [None, "shop"])
async def test_once_the_time_of_the_lease_is_over_it_is_presumed(engine, submission, start, clock, command, target):
    lease = await running(engine, submission, target)
    call = await start(getattr(engine.tasks, command)(NS, lease.task.id, 60, show=state))
    await clock.advance(LEASE_SECS - 1)
    assert not call.done()
    await clock.advance(2)
    assert told(call) == (STATES[command], "presumed")


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_wait_that_is_over_says_so(engine, submission, start, clock, command):
    lease = await running(engine, submission)
    call = await start(getattr(engine.tasks, command)(NS, lease.task.id, 10, show=state))
    await clock.advance(11)
    assert told(call) == (STATES[command], "waiting")


async def test_without_time_to_wait_the_answer_comes_at_once(engine, submission):
    lease = await running(engine, submission)
    answer = await engine.tasks.cancel_and_wait(NS, lease.task.id, 0, show=state)
    assert (answer[0], answer[-1].value) == ("cancelled", "waiting")


async def test_what_no_host_had_does_not_run(engine, submission, start):
    task = await engine.tasks.submit(NS, submission(), show=live)
    call = await start(engine.tasks.cancel_and_wait(NS, task.id, 30, show=state))
    assert told(call) == ("cancelled", "not_running")


@pytest.mark.parametrize("target", [None, "shop"])
async def test_a_paused_task_that_is_cancelled_waits_for_the_host_that_had_it(engine, submission, start, clock, target):
    lease = await running(engine, submission, target)
    await engine.tasks.pause(NS, lease.task.id, show=state)
    call = await start(engine.tasks.cancel_and_wait(NS, lease.task.id, 30, show=state))
    assert not call.done()
    await release(engine, lease)
    await clock.run_pending()
    assert told(call) == ("cancelled", "released")


@pytest.mark.parametrize("target", [None, "shop"])
async def test_a_paused_task_whose_host_has_stopped_does_not_run(engine, submission, start, target):
    lease = await running(engine, submission, target)
    await engine.tasks.pause(NS, lease.task.id, show=state)
    await release(engine, lease)
    call = await start(engine.tasks.cancel_and_wait(NS, lease.task.id, 30, show=state))
    assert told(call) == ("cancelled", "not_running")


async def test_two_calls_may_wait_for_one_host(engine, submission, start, clock):
    lease = await running(engine, submission)
    pause = await start(engine.tasks.pause_and_wait(NS, lease.task.id, 30, show=state))
    cancel = await start(engine.tasks.cancel_and_wait(NS, lease.task.id, 30, show=state))
    await release(engine, lease)
    await clock.run_pending()
    assert (told(pause), told(cancel)) == (("paused", "released"), ("cancelled", "released"))


async def test_with_children_all_that_was_cancelled_is_waited_for(engine, submission, start, clock):
    parent = await running(engine, submission)
    child = await running(engine, submission, parent_id=parent.task.id)
    call = await start(engine.tasks.cancel_and_wait(NS, parent.task.id, 60, with_children=True, show=state))
    await release(engine, parent)
    await clock.run_pending()
    assert not call.done()
    await release(engine, child)
    await clock.run_pending()
    assert (told(call), call.result()[1]) == (("cancelled", "released"), 1)


async def test_one_of_them_that_is_presumed_makes_it_presumed(engine, submission, start, clock):
    parent = await running(engine, submission)
    await running(engine, submission, parent_id=parent.task.id)
    call = await start(engine.tasks.cancel_and_wait(NS, parent.task.id, 60, with_children=True, show=state))
    await release(engine, parent)
    await clock.advance(LEASE_SECS + 1)
    assert told(call) == ("cancelled", "presumed")


async def test_what_cannot_be_cancelled_is_refused_as_always(engine, submission):
    lease = await running(engine, submission)
    await reporting.complete(engine, NS, "host", lease.task.id, lease.token, None)
    with pytest.raises(Conflict):
        await engine.tasks.cancel_and_wait(NS, lease.task.id, 30, show=state)
    with pytest.raises(Conflict):
        await engine.tasks.pause_and_wait(NS, lease.task.id, 30, show=state)
    with pytest.raises(NotFound):
        await engine.tasks.cancel_and_wait(NS, "tsk_nope", 30, show=state)


async def test_the_engine_that_closes_ends_the_wait(engine, submission, start, clock):
    lease = await running(engine, submission)
    call = await start(engine.tasks.cancel_and_wait(NS, lease.task.id, 30, show=state))
    await engine.admin.close()
    await clock.run_pending()
    assert told(call) == ("cancelled", "waiting")


async def test_a_deleted_namespace_ends_the_wait(engine, submission, start, clock):
    await engine.hosts.register("shop", "host", None, HostProfile(), show=live)
    await engine.tasks.submit("shop", submission(), show=live)
    (lease,) = await engine.leases.claim("shop", "host", 1, LEASE_SECS, show=live)
    call = await start(engine.tasks.cancel_and_wait("shop", lease.task.id, 30, show=state))
    await engine.namespaces.delete("shop", force=True)
    await clock.run_pending()
    assert told(call) == ("cancelled", "waiting")


@pytest.mark.parametrize("target", [None, "shop"])
async def test_nothing_stays_of_a_call_that_is_over(engine, submission, start, clock, target):
    lease = await running(engine, submission, target)
    call = await start(engine.tasks.cancel_and_wait(NS, lease.task.id, 10, show=state))
    call.cancel()
    await clock.advance(LEASE_SECS + 1)
    life = next(iter(engine._namespaces)).scheduler.life
    stopping = life.grants.stopping
    assert (stopping._by_host, stopping.waits, next(iter(engine._namespaces)).stop_calls) == ({}, {}, set())
