"""The embedded engine: no task outlives it, and it logs when a limit holds tasks back."""

import asyncio
import tracemalloc

import pytest
from structlog.testing import capture_logs

from taskyard_server.core.errors import Unavailable
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.engine.engine import Engine
from tests import reporting
from tests.live import live

NS = "default"


@pytest.fixture
async def make_memory_engine(clock):
    engines = []

    def make(**limits):
        engines.append(Engine(Limits(**limits), clock))
        return engines[-1]

    yield make
    for engine in engines:
        await engine.admin.close()


async def test_a_draining_engine_refuses_new_tasks(make_memory_engine, submission):
    engine = make_memory_engine()
    await engine.tasks.submit(NS, submission(), show=live)
    engine.admin.drain()
    for namespace in (NS, "later"):
        with pytest.raises(Unavailable, match="draining"):
            await engine.tasks.submit(namespace, submission(), show=live)
        with pytest.raises(Unavailable, match="draining"):
            await engine.tasks.submit_batch(namespace, [submission()], show=live)


async def test_closing_cancels_queued_tasks_and_pauses_tasks_in_flight(make_memory_engine, submission):
    engine = make_memory_engine()
    await engine.hosts.register(NS, "host", None, HostProfile(), show=live)
    running, waiting = [await engine.tasks.submit(NS, submission(), show=live) for _ in range(2)]
    other = await engine.tasks.submit("other", submission(), show=live)
    await engine.leases.claim(NS, "host", show=live)
    await engine.admin.close()
    assert (running.state, running.error) == ("paused", "Job was interrupted by user")
    for task in (waiting, other):
        assert (task.state, task.error) == ("cancelled", "scheduler shutdown")


# Warnings about limits


async def claim_at_the_limit(engine, clock, submission):
    """A waiting claim for a task that a limit holds back, while another one is in flight."""
    await engine.hosts.register(NS, "host", None, HostProfile(), show=live)
    for _ in range(2):
        await engine.tasks.submit(NS, submission(), show=live)
    await engine.leases.claim(NS, "host", show=live)
    claim = asyncio.ensure_future(engine.leases.claim(NS, "host", wait_secs=1, show=live))
    await clock.run_pending()
    return claim


@pytest.mark.parametrize(
    ("limit", "key"),
    [("max_inflight", "scheduler.maxInflight"), ("max_per_agent_inflight", "scheduler.maxPerAgentInflight")],
)
async def test_a_limit_that_holds_tasks_back_is_logged_once_with_the_key_to_raise(
    make_memory_engine, clock, submission, limit, key
):
    engine = make_memory_engine(**{limit: 1})
    with capture_logs() as logs:
        for _ in range(3):
            await claim_at_the_limit(engine, clock, submission)
            await clock.advance(1)
    warnings = [line for line in logs if line["event"] == "limit_reached"]
    assert [(line["raise_key"], line["namespace"], line["log_level"]) for line in warnings] == [(key, NS, "warning")]
    assert (await engine.admin.stats(NS)).limited_by == key.removeprefix("scheduler.")


async def test_no_limit_is_logged_while_none_holds_tasks_back(make_memory_engine, clock, submission):
    engine = make_memory_engine()
    with capture_logs() as logs:
        claim = await claim_at_the_limit(engine, clock, submission)
        await engine.leases.claim(NS, "host", wait_secs=0, show=live)
        await clock.run_pending()
    assert len(claim.result()) == 1
    assert logs == []


async def test_a_limit_is_logged_although_hosts_that_cannot_run_the_task_also_wait(
    make_memory_engine, clock, submission
):
    """The claim of the tab executor always waits, and so does that of any other idle host."""
    engine = make_memory_engine(max_inflight=1)
    await engine.hosts.register(NS, "gpu", None, HostProfile(frozenset({"gpu"})), show=live)
    await engine.hosts.register(NS, "tabs", None, HostProfile(), built_in=True, show=live)
    for _ in range(2):
        await engine.tasks.submit(NS, submission(requires=frozenset({"gpu"})), show=live)
    with capture_logs() as logs:
        claims = [
            asyncio.ensure_future(engine.leases.claim(NS, host, wait_secs=1, show=live))
            for host in ("gpu", "gpu", "tabs")
        ]
        await clock.run_pending()
        stats = await engine.admin.stats(NS)
        await clock.advance(1)
    assert [len(claim.result()) for claim in claims] == [1, 0, 0]
    assert [line["raise_key"] for line in logs] == ["scheduler.maxInflight"]
    assert stats.limited_by == "maxInflight"


# Memory


async def test_repeated_alarms_do_not_use_memory(make_memory_engine, clock, submission):
    """A task that is claimed and released many times leaves no memory behind."""
    engine = make_memory_engine()
    await engine.hosts.register(NS, "host", None, HostProfile(), show=live)
    await engine.tasks.submit(NS, submission(deadline=clock.now + 10_000), show=live)

    async def claim_and_release(times):
        for _ in range(times):
            (lease,) = await engine.leases.claim(NS, "host", 1, 10, show=live)
            await asyncio.sleep(0)
            await reporting.release(engine, NS, "host", lease.task.id, lease.token)
            await asyncio.sleep(0)

    await claim_and_release(100)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    await claim_and_release(3_000)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 20_000
