"""Namespaces: isolated from each other, and created only by submits and registrations."""

import pytest

from taskyard_server.core.errors import NotFound, QueueFull
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.search.task_filter import TaskFilter
from tests import reporting
from tests.engine.lease_commands import REPORTS
from tests.live import live


async def test_namespaces_are_isolated(make_engine, submission):
    engine = make_engine(max_queue_size=2, max_inflight=1)
    for namespace in ("red", "blue"):
        await engine.hosts.register(namespace, "host", None, HostProfile(), show=live)
    red = [await engine.tasks.submit("red", submission(), show=live) for _ in range(2)]
    batch = await engine.tasks.submit_batch("blue", [submission()], show=live)
    (blue,) = batch.outcomes

    with pytest.raises(QueueFull):
        await engine.tasks.submit("red", submission(), show=live)
    with pytest.raises(NotFound):
        await engine.tasks.get("blue", red[0].id, show=live)
    with pytest.raises(NotFound):
        await engine.tasks.cancel("red", blue.id, show=live)
    with pytest.raises(NotFound):
        await engine.tasks.get_batch("red", batch.batch.id, show=live)
    with pytest.raises(NotFound):
        await engine.tasks.cancel_batch("red", batch.batch.id)

    (red_lease,) = await engine.leases.claim("red", "host", 5, show=live)
    (blue_lease,) = await engine.leases.claim("blue", "host", 5, show=live)
    assert (red_lease.task.id, blue_lease.task.id) == (red[0].id, blue.id)
    with pytest.raises(NotFound):
        await reporting.complete(engine, "blue", "host", red[0].id, red_lease.token, None)
    await engine.hosts.deregister("red", "host")
    with pytest.raises(NotFound):
        await engine.leases.claim("red", "host", show=live)
    assert (await reporting.complete(engine, "blue", "host", blue.id, blue_lease.token, None)).state == "done"

    red_stats, blue_stats = await engine.admin.stats("red"), await engine.admin.stats("blue")
    assert (red_stats.counters.submitted, red_stats.queued, red_stats.counters.rejected) == (2, 2, 1)
    assert (blue_stats.counters.submitted, blue_stats.queued, blue_stats.counters.completed) == (1, 0, 1)
    totals = engine.admin.totals()
    assert (totals.namespaces, totals.queued, totals.counters.submitted) == (2, 2, 3)


async def read_everything(engine, namespace):
    """Call every command that only reads."""
    stats = await engine.admin.stats(namespace)
    assert (stats.queued, stats.counters.submitted, stats.agents) == (0, 0, {})
    page = await engine.tasks.list_tasks(namespace, TaskFilter(), 0, 10)
    assert (page.tasks, page.next_after) == ([], None)
    assert (
        await engine.hosts.list_hosts(namespace, 0, show=live)
        == await engine.leases.list_leases(namespace, 0, show=live)
        == []
    )
    for get in (engine.tasks.get, engine.tasks.get_batch):
        with pytest.raises(NotFound):
            await get(namespace, "anything", show=live)
    with pytest.raises(NotFound, match="task not found"):
        await engine.tasks.wait(namespace, "anything", 10, show=live)


async def test_reading_an_unknown_namespace_does_not_create_it(engine):
    await read_everything(engine, "made up")
    assert engine.admin.totals().namespaces == 0


async def test_commands_on_unknown_resources_create_no_namespace(engine):
    """Callers choose the names of namespaces; only submits and registrations create one."""
    calls = [
        engine.tasks.cancel("made up", "tsk_1", show=live),
        engine.tasks.cancel_batch("made up", "bat_1"),
        engine.hosts.deregister("made up", "host"),
        engine.hosts.heartbeat("made up", "host", show=live),
        engine.hosts.drain("made up", "host", show=live),
        engine.leases.claim("made up", "host", wait_secs=10, show=live),
        *(report(engine, "host", "tsk_1", 1) for report in REPORTS.values()),
    ]
    for call in calls:
        with pytest.raises(NotFound):
            await call
    assert engine.admin.totals().namespaces == 0
