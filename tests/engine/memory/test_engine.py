"""What is special to the embedded engine: nothing outlives it, and it tells when a limit holds work up."""

import asyncio
import tracemalloc

import pytest
from structlog.testing import capture_logs

from taskyard_server.core.errors import Unavailable
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.engine.memory.engine import MemoryEngine
from tests import reporting

NS = "default"


@pytest.fixture
async def make_memory(clock):
    made = []

    def make(**limits):
        made.append(MemoryEngine(Limits(**limits), clock))
        return made[-1]

    yield make
    for engine in made:
        await engine.admin.close()


async def test_while_it_drains_it_refuses_what_would_be_lost(make_memory, asked):
    engine = make_memory()
    await engine.tasks.submit(NS, asked())
    engine.admin.drain()
    for namespace in (NS, "later"):
        with pytest.raises(Unavailable, match="draining"):
            await engine.tasks.submit(namespace, asked())
        with pytest.raises(Unavailable, match="draining"):
            await engine.tasks.submit_batch(namespace, [asked()])


async def test_closing_cancels_what_waits_and_pauses_what_is_in_flight(make_memory, asked):
    engine = make_memory()
    await engine.hosts.register(NS, "host", None, HostProfile())
    running, waiting = [await engine.tasks.submit(NS, asked()) for _ in range(2)]
    other = await engine.tasks.submit("other", asked())
    await engine.leases.claim(NS, "host")
    await engine.admin.close()
    assert (running.state, running.error) == ("paused", "Job was interrupted by user")
    for task in (waiting, other):
        assert (task.state, task.error) == ("cancelled", "scheduler shutdown")


# The warning that a limit holds work up


async def limited(engine, clock, asked):
    """One task in flight, one that waits for the limit, and a host that would take it."""
    await engine.hosts.register(NS, "host", None, HostProfile())
    for _ in range(2):
        await engine.tasks.submit(NS, asked())
    await engine.leases.claim(NS, "host")
    claim = asyncio.ensure_future(engine.leases.claim(NS, "host", wait_secs=1))
    await clock.settle()
    return claim


@pytest.mark.parametrize(
    ("limit", "key"),
    [("max_inflight", "scheduler.maxInflight"), ("max_per_agent_inflight", "scheduler.maxPerAgentInflight")],
)
async def test_a_limit_that_holds_work_up_is_logged_once_with_the_key_to_raise(make_memory, clock, asked, limit, key):
    engine = make_memory(**{limit: 1})
    with capture_logs() as logs:
        for _ in range(3):
            await limited(engine, clock, asked)
            await clock.pass_time(1)
    told = [line for line in logs if line["event"] == "limit_reached"]
    assert [(line["raise_key"], line["namespace"], line["log_level"]) for line in told] == [(key, NS, "warning")]
    assert (await engine.admin.stats(NS)).limited_by == key.removeprefix("scheduler.")


async def test_no_limit_is_logged_while_none_holds_work_up(make_memory, clock, asked):
    engine = make_memory()
    with capture_logs() as logs:
        claim = await limited(engine, clock, asked)
        await engine.leases.claim(NS, "host", wait_secs=0)
        await clock.settle()
    assert len(claim.result()) == 1
    assert logs == []


async def test_a_limit_that_holds_work_up_is_logged_whatever_other_hosts_wait_for(make_memory, clock, asked):
    """The tab executor's claim always waits; so does that of any other idle host."""
    engine = make_memory(max_inflight=1)
    await engine.hosts.register(NS, "gpu", None, HostProfile(frozenset({"gpu"})))
    await engine.hosts.register(NS, "tabs", None, HostProfile(), built_in=True)
    for _ in range(2):
        await engine.tasks.submit(NS, asked(requires=frozenset({"gpu"})))
    with capture_logs() as logs:
        claims = [asyncio.ensure_future(engine.leases.claim(NS, host, wait_secs=1)) for host in ("gpu", "gpu", "tabs")]
        await clock.settle()
        stats = await engine.admin.stats(NS)
        await clock.pass_time(1)
    assert [len(claim.result()) for claim in claims] == [1, 0, 0]
    assert [line["raise_key"] for line in logs] == ["scheduler.maxInflight"]
    assert stats.limited_by == "maxInflight"


# Memory


async def test_alarms_that_come_and_go_take_no_memory(make_memory, clock, asked):
    """One task is claimed and given back again and again: nothing more is there than before."""
    engine = make_memory()
    await engine.hosts.register(NS, "host", None, HostProfile())
    await engine.tasks.submit(NS, asked(deadline=clock.now + 10_000))

    async def claim_and_release(times):
        for _ in range(times):
            (lease,) = await engine.leases.claim(NS, "host", 1, 10)
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
