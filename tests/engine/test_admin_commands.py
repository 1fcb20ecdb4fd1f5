"""Figures, limits, ids and drains of an engine."""

import pytest

from taskyard_server.core.errors import QueueFull
from taskyard_server.core.limits import Limits
from tests import reporting
from tests.engine.lease_commands import NS, lease_of
from tests.live import live

# Figures and limits


async def test_the_stats_are_current(engine, host, submission):
    for agent in ("ann", "ann", "bob"):
        await engine.tasks.submit(NS, submission(agent), show=live)
    await lease_of(engine, host)
    stats = await engine.admin.stats(NS)
    assert (stats.queued, stats.inflight, stats.counters.submitted, stats.counters.dispatched) == (2, 1, 3, 1)
    assert {agent: (its.queued, its.inflight) for agent, its in stats.agents.items()} == {"ann": (1, 1), "bob": (1, 0)}
    assert stats.limits == Limits()


async def test_new_limits_apply_at_once_to_present_and_future_namespaces(make_engine, submission):
    engine = make_engine(max_queue_size=1)
    await engine.tasks.submit(NS, submission(), show=live)
    engine.admin.reconfigure(Limits(max_queue_size=2))
    await engine.tasks.submit(NS, submission(), show=live)
    for _ in range(2):
        await engine.tasks.submit("later", submission(), show=live)
    for namespace in (NS, "later"):
        with pytest.raises(QueueFull):
            await engine.tasks.submit(namespace, submission(), show=live)
        assert (await engine.admin.stats(namespace)).limits.max_queue_size == 2


async def test_the_time_of_the_engine_is_that_of_its_clock(engine, clock):
    clock.now += 5
    assert engine.now() == clock.now


# Ids


async def ids(engine, submission):
    tasks = [await engine.tasks.submit(NS, submission(), show=live) for _ in range(5)]
    batch = await engine.tasks.submit_batch(NS, [submission(), submission()], show=live)
    return [task.id for task in tasks] + [batch.batch.id] + [task.id for task in batch.outcomes]


async def test_ids_are_repeatable_with_a_seed(make_engine, submission):
    assert await ids(make_engine(seed=7), submission) == await ids(make_engine(seed=7), submission)


async def test_ids_differ_with_another_seed_and_without_one(make_engine, submission):
    id_lists = [await ids(make_engine(seed=seed), submission) for seed in (7, 8, None, None)]
    assert len({task_id for id_list in id_lists for task_id in id_list}) == 4 * 8


# Drains


async def test_a_draining_engine_dispatches_nothing(engine, host, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    engine.admin.drain()
    assert await engine.leases.claim(NS, host, show=live) == []


async def test_tasks_in_flight_can_finish_while_the_engine_drains(engine, host, clock, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    lease = await lease_of(engine, host)
    engine.admin.drain()
    await reporting.start(engine, NS, host, lease.task.id, lease.token)
    clock.now += 30
    await engine.leases.renew(NS, host, lease.task.id, lease.token, show=live)
    assert (await reporting.complete(engine, NS, host, lease.task.id, lease.token, None)).state == "done"
