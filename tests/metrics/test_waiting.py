"""Gauges of what waits for hosts (docs/rules.md, Demand, Why a task waits)."""

from taskyard_server.core.figures.demand import Pool
from taskyard_server.core.hosts import HostProfile
from tests.live import live


async def test_the_demand_of_pools_is_summed_over_namespaces(make_harness):
    harness = await make_harness()
    harness.pools += [Pool("everybody"), Pool("gpu", capabilities=frozenset({"gpu"}))]
    for namespace in ("one", "two"):
        await harness.submit(namespace)
        harness.now += 2
    await harness.submit("two")
    await harness.claim("two")
    scrape = await harness.scrape()
    for name, everybody, gpu in (
        ("runnable", 2, 2),
        ("inflight", 1, 0),
        ("oldest_seconds", 4, 4),
        ("free_credit", 0, 0),
        ("hosts", 1, 0),
    ):
        assert scrape.value(f"taskyard_pool_{name}", pool="everybody") == everybody
        assert scrape.value(f"taskyard_pool_{name}", pool="gpu") == gpu


async def test_without_pools_there_are_no_gauges_of_them(harness):
    assert not [name for name in (await harness.scrape()).families if name.startswith("taskyard_pool_")]


async def test_tasks_that_no_host_may_run_are_counted_once_they_have_a_notice(make_harness):
    harness = await make_harness(no_host_notice_secs=10.0, default_deadline_secs=1000.0)
    await harness.submit("one")
    await harness.submit("two")
    harness.engine.admin.look_for_hosts()
    harness.now += 10
    assert (await harness.scrape()).value("taskyard_tasks_noticed") == 0
    harness.engine.admin.look_for_hosts()
    assert (await harness.scrape()).value("taskyard_tasks_noticed") == 2
    await harness.engine.hosts.register("one", "host", None, HostProfile(), show=live)
    assert (await harness.scrape()).value("taskyard_tasks_noticed") == 1


async def test_blocked_targets_of_all_namespaces_are_counted(harness):
    for namespace in ("one", "two"):
        task = await harness.submit(namespace, target="shop")
        await harness.start(await harness.claim(namespace), namespace)
        await harness.engine.tasks.pause(namespace, task.id, show=live)
    assert (await harness.scrape()).value("taskyard_targets_blocked") == 2
    await harness.engine.tasks.cancel("two", task.id, show=live)
    assert (await harness.scrape()).value("taskyard_targets_blocked") == 1
