"""ListSnapshots, and the hosts of GetStats: how hosts and the server stood, and how many hosts there are."""

import asyncio
from types import SimpleNamespace

import psutil
import pytest
import structlog

from taskyard.v1.runtime_host_pb2 import Machine
from taskyard.v1.stats_pb2 import ListSnapshotsRequest
from taskyard_server import snapshots
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.streams import Hello

NS = "default"


@pytest.fixture
async def yard(start_api, clock):
    """A server whose time stands still until a test moves it."""
    return await start_api(clock=clock)


async def report(yard, host="host", namespace=NS, **figures):
    """A host says how its machine stands."""
    await yard.engine.hosts.register(namespace, host, None, HostProfile())
    await yard.engine.hosts.heartbeat(namespace, host, None, Machine(**figures).SerializeToString())


async def listed(yard, metadata=None, **fields):
    """The snapshots of hosts, unless a test asks for others."""
    return await yard.stats_stub.ListSnapshots(ListSnapshotsRequest(**{"server": False, **fields}), metadata=metadata)


async def own(yard, metadata=None):
    """The server's own snapshots."""
    return (await listed(yard, metadata, server=True)).snapshots


async def test_there_are_no_snapshots_before_the_first_is_taken(yard):
    await report(yard, cpu_percent=50)
    assert not (await listed(yard)).snapshots


async def test_a_snapshot_holds_the_last_figures_of_the_machine(yard, clock):
    await report(yard, cpu_percent=10)
    await report(yard, cpu_percent=50, memory_mb=1024, active_workers=3, active_teams=2, sessions=1)
    await yard.snapshots.take()
    (snapshot,) = (await listed(yard)).snapshots
    assert (snapshot.host_id, snapshot.cpu_percent, snapshot.memory_mb) == ("host", 50, 1024)
    assert (snapshot.active_workers, snapshot.active_teams, snapshot.sessions) == (3, 2, 1)
    assert snapshot.created_at.seconds == int(clock.now)


async def test_what_was_not_measured_is_absent(yard):
    await report(yard, active_workers=1)
    await yard.snapshots.take()
    (snapshot,) = (await listed(yard)).snapshots
    assert not snapshot.HasField("cpu_percent")
    assert not snapshot.HasField("memory_mb")
    assert not snapshot.HasField("context")


async def test_a_host_without_figures_and_one_that_is_offline_have_no_snapshot(yard, clock):
    await yard.engine.hosts.register(NS, "mute", None, HostProfile())
    await report(yard, "gone", cpu_percent=1)
    clock.now += 61
    await yard.snapshots.take()
    assert not (await listed(yard)).snapshots


async def test_snapshots_come_newest_first_and_can_be_those_of_one_host(yard, clock):
    for cpu in (1, 2):
        await report(yard, "one", cpu_percent=cpu)
        await report(yard, "two", cpu_percent=10 * cpu)
        await yard.snapshots.take()
        clock.now += 10
    found = (await listed(yard)).snapshots
    assert [(each.host_id, each.cpu_percent) for each in found] == [("two", 20), ("one", 2), ("two", 10), ("one", 1)]
    assert len({each.id for each in found}) == 4
    assert [each.cpu_percent for each in (await listed(yard, host_id="one")).snapshots] == [2, 1]


async def test_pages_follow_each_other_without_a_gap_or_a_double(yard):
    for cpu in range(5):
        await report(yard, cpu_percent=cpu)
        await yard.snapshots.take()
    found, token = [], ""
    while True:
        page = await listed(yard, page_size=2, page_token=token)
        found += [each.cpu_percent for each in page.snapshots]
        token = page.next_page_token
        if not token:
            break
    assert found == [4, 3, 2, 1, 0]


async def test_a_token_of_another_listing_is_refused(yard, refused):
    for _ in range(3):
        await report(yard, cpu_percent=1)
        await yard.snapshots.take()
    token = (await listed(yard, page_size=1)).next_page_token
    assert (await refused(listed(yard, host_id="host", page_token=token))).code == "bad_request"


async def test_after_an_hour_a_snapshot_is_gone(yard, clock):
    await report(yard, cpu_percent=1)
    await yard.snapshots.take()
    clock.now += 3600
    await report(yard, cpu_percent=2)
    await yard.snapshots.take()
    assert [each.cpu_percent for each in (await listed(yard)).snapshots] == [2]


async def test_snapshots_of_a_namespace_are_not_seen_from_another(yard):
    await report(yard, namespace="red", cpu_percent=1)
    await yard.snapshots.take()
    assert not (await listed(yard)).snapshots
    assert len((await listed(yard, metadata=(("taskyard-namespace", "red"),))).snapshots) == 1


# The server's own


@pytest.fixture
def machine(monkeypatch):
    """The machine that the server runs on, as a test wants it."""
    figures = SimpleNamespace(cpu=25.0, memory_mb=2048)
    monkeypatch.setattr(psutil, "cpu_percent", lambda _interval: figures.cpu)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(used=figures.memory_mb * 1024 * 1024))
    return figures


async def test_the_server_has_a_snapshot_of_its_own_before_anyone_used_it(yard, clock, machine):
    await yard.snapshots.take()
    (snapshot,) = await own(yard)
    assert not snapshot.HasField("host_id")
    assert (snapshot.cpu_percent, snapshot.memory_mb) == (machine.cpu, machine.memory_mb)
    assert (snapshot.active_workers, snapshot.active_teams, snapshot.sessions) == (0, 0, 0)
    assert snapshot.HasField("inflight_tasks")
    assert snapshot.HasField("queued_tasks")
    assert (snapshot.inflight_tasks, snapshot.queued_tasks) == (0, 0)
    assert snapshot.created_at.seconds == int(clock.now)


async def test_it_counts_hosts_that_are_online_their_streams_and_the_tasks_of_the_namespace(yard, clock):
    await yard.engine.hosts.register(NS, "silent", None, HostProfile())
    clock.now += 61
    await yard.engine.hosts.register(NS, "taskyard:tabs", None, HostProfile(), built_in=True)
    await yard.engine.hosts.register(NS, "polls", None, HostProfile())
    session = await yard.engine.hosts.connect(NS, Hello("streams", "i1"), lambda: None)
    await yard.engine.hosts.give_credit(session, 1)
    for _ in range(3):
        await yard.submit()
    await yard.snapshots.take()
    (snapshot,) = await own(yard)
    assert (snapshot.active_workers, snapshot.sessions) == (2, 1)
    assert (snapshot.inflight_tasks, snapshot.queued_tasks) == (1, 2)


async def test_each_namespace_in_use_has_its_own(yard):
    red = (("taskyard-namespace", "red"),)
    await yard.submit(metadata=red)
    await yard.snapshots.take()
    assert [each.queued_tasks for each in await own(yard, red)] == [1]
    assert [each.queued_tasks for each in await own(yard)] == [0]
    assert not await own(yard, (("taskyard-namespace", "blue"),))


async def test_snapshots_of_hosts_and_of_the_server_are_told_apart_by_their_host(yard):
    await report(yard, cpu_percent=50)
    await yard.snapshots.take()
    everything = (await yard.stats_stub.ListSnapshots(ListSnapshotsRequest())).snapshots
    assert sorted(each.host_id for each in everything) == ["", "host"]
    (of_host,) = (await listed(yard, server=False)).snapshots
    assert of_host.host_id == "host"
    assert not of_host.HasField("inflight_tasks")
    assert not of_host.HasField("queued_tasks")
    assert not (await listed(yard, server=True, host_id="host")).snapshots


async def test_a_token_of_the_servers_own_is_none_for_those_of_hosts(yard, refused):
    for _ in range(2):
        await yard.snapshots.take()
    token = (await listed(yard, server=True, page_size=1)).next_page_token
    assert len((await listed(yard, server=True, page_token=token)).snapshots) == 1
    assert (await refused(listed(yard, server=False, page_token=token))).code == "bad_request"


async def test_what_the_system_does_not_show_is_absent(yard, monkeypatch):
    def refuse(*_args):
        raise PermissionError

    monkeypatch.setattr(psutil, "cpu_percent", refuse)
    monkeypatch.setattr(psutil, "virtual_memory", refuse)
    await yard.snapshots.take()
    (snapshot,) = await own(yard)
    assert not snapshot.HasField("cpu_percent")
    assert not snapshot.HasField("memory_mb")


async def test_the_first_is_taken_at_once_and_the_next_after_the_interval(yard, monkeypatch):
    slept, woken = asyncio.Queue(), asyncio.Event()

    async def sleep(secs):
        slept.put_nowait(secs)
        await woken.wait()
        woken.clear()

    monkeypatch.setattr(snapshots, "asyncio", SimpleNamespace(sleep=sleep))
    running = asyncio.create_task(yard.snapshots.run())
    for count in (1, 2):
        assert await asyncio.wait_for(slept.get(), 5) == 60
        assert len(await own(yard)) == count
        woken.set()
    running.cancel()


# What is logged


async def test_the_hosts_are_counted_by_their_status_in_one_line(yard, clock):
    await yard.engine.hosts.register(NS, "dead", None, HostProfile())
    clock.now += 1000
    await yard.engine.hosts.register("red", "idle", None, HostProfile())
    for host in ("busy", "busy too"):
        await yard.engine.hosts.register(NS, host, None, HostProfile(), slots=1)
        await yard.submit()
        assert len(await yard.engine.leases.claim(NS, host)) == 1
    await yard.engine.hosts.register(NS, "taskyard:tabs", None, HostProfile(), built_in=True)
    with structlog.testing.capture_logs() as lines:
        await yard.snapshots.take()
    assert [line for line in lines if line["event"] == "heartbeats_collected"] == [
        {"event": "heartbeats_collected", "log_level": "debug", "alive": 0, "idle": 1, "busy": 2, "dead": 1}
    ]


async def test_without_hosts_nothing_is_logged(yard):
    with structlog.testing.capture_logs() as lines:
        await yard.snapshots.take()
    assert lines == []


# The hosts of the stats


async def test_the_stats_have_no_hosts_while_none_is_registered(yard):
    await yard.engine.hosts.register(NS, "taskyard:tabs", None, HostProfile(), built_in=True)
    assert not (await yard.stats()).HasField("hosts")


async def test_the_stats_count_hosts_those_that_are_online_and_the_credit_that_is_free(yard, clock):
    await yard.engine.hosts.register(NS, "silent", None, HostProfile())
    clock.now += 61
    session = await yard.engine.hosts.connect(NS, Hello("busy", "i1"), lambda: None)
    await yard.engine.hosts.give_credit(session, 3)
    await yard.submit()
    hosts = (await yard.stats()).hosts
    assert (hosts.registered, hosts.online, hosts.free_credit) == (2, 1, 2)


async def test_a_draining_host_has_no_free_credit(yard):
    session = await yard.engine.hosts.connect(NS, Hello("host", "i1"), lambda: None)
    await yard.engine.hosts.give_credit(session, 3)
    await yard.engine.hosts.drain(NS, "host")
    assert (await yard.stats()).hosts.free_credit == 0
