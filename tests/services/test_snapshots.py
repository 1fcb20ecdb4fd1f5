"""ListSnapshots, and the hosts of GetStats: figures of hosts and of the server over time, and counts of hosts."""

import asyncio
from types import SimpleNamespace

import psutil
import pytest
import structlog

from taskyard.v1.runtime_host_pb2 import Machine
from taskyard.v1.stats_pb2 import ListSnapshotsRequest
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.streams import Hello
from taskyard_server.metrics import snapshots
from tests.live import live
from tests.waiting import LIMIT_SECS

NS = "default"


@pytest.fixture
async def api(start_api, clock):
    """A server on a clock that tests control."""
    return await start_api(clock=clock)


async def report_machine(api, host="host", namespace=NS, **figures):
    """Register a host and report the figures of its machine."""
    await api.engine.hosts.register(namespace, host, None, HostProfile(), show=live)
    await api.engine.hosts.heartbeat(namespace, host, None, Machine(**figures).SerializeToString(), show=live)


async def list_snapshots(api, metadata=None, **fields):
    """ListSnapshots, for the snapshots of hosts by default."""
    return await api.stats_stub.ListSnapshots(ListSnapshotsRequest(**{"server": False, **fields}), metadata=metadata)


async def server_snapshots(api, metadata=None):
    """The snapshots of the server itself."""
    return (await list_snapshots(api, metadata, server=True)).snapshots


async def test_there_are_no_snapshots_before_the_first_is_taken(api):
    await report_machine(api, cpu_percent=50)
    assert not (await list_snapshots(api)).snapshots


async def test_a_snapshot_holds_the_last_figures_of_the_machine(api, clock):
    await report_machine(api, cpu_percent=10)
    await report_machine(api, cpu_percent=50, memory_mb=1024, active_workers=3, active_teams=2, sessions=1)
    await api.snapshots.take()
    (snapshot,) = (await list_snapshots(api)).snapshots
    assert (snapshot.host_id, snapshot.cpu_percent, snapshot.memory_mb) == ("host", 50, 1024)
    assert (snapshot.active_workers, snapshot.active_teams, snapshot.sessions) == (3, 2, 1)
    assert snapshot.created_at.seconds == int(clock.now)


async def test_figures_that_were_not_reported_are_absent(api):
    await report_machine(api, active_workers=1)
    await api.snapshots.take()
    (snapshot,) = (await list_snapshots(api)).snapshots
    assert not snapshot.HasField("cpu_percent")
    assert not snapshot.HasField("memory_mb")
    assert not snapshot.HasField("context")


async def test_hosts_without_figures_and_offline_hosts_have_no_snapshot(api, clock):
    await api.engine.hosts.register(NS, "mute", None, HostProfile(), show=live)
    await report_machine(api, "gone", cpu_percent=1)
    clock.now += 61
    await api.snapshots.take()
    assert not (await list_snapshots(api)).snapshots


async def test_snapshots_are_listed_newest_first_and_can_be_filtered_by_host(api, clock):
    for cpu in (1, 2):
        await report_machine(api, "one", cpu_percent=cpu)
        await report_machine(api, "two", cpu_percent=10 * cpu)
        await api.snapshots.take()
        clock.now += 10
    listed_snapshots = (await list_snapshots(api)).snapshots
    assert [(snapshot.host_id, snapshot.cpu_percent) for snapshot in listed_snapshots] == [
        ("two", 20),
        ("one", 2),
        ("two", 10),
        ("one", 1),
    ]
    assert len({snapshot.id for snapshot in listed_snapshots}) == 4
    assert [snapshot.cpu_percent for snapshot in (await list_snapshots(api, host_id="one")).snapshots] == [2, 1]


async def test_the_pages_of_snapshots_are_complete_and_in_order(api):
    for cpu in range(5):
        await report_machine(api, cpu_percent=cpu)
        await api.snapshots.take()
    cpu_percents, token = [], ""
    while True:
        page = await list_snapshots(api, page_size=2, page_token=token)
        cpu_percents += [snapshot.cpu_percent for snapshot in page.snapshots]
        token = page.next_page_token
        if not token:
            break
    assert cpu_percents == [4, 3, 2, 1, 0]


async def test_a_page_token_of_another_listing_is_refused(api, refused):
    for _ in range(3):
        await report_machine(api, cpu_percent=1)
        await api.snapshots.take()
    token = (await list_snapshots(api, page_size=1)).next_page_token
    assert (await refused(list_snapshots(api, host_id="host", page_token=token))).code == "bad_request"


async def test_a_snapshot_is_dropped_after_an_hour(api, clock):
    await report_machine(api, cpu_percent=1)
    await api.snapshots.take()
    clock.now += 3600
    await report_machine(api, cpu_percent=2)
    await api.snapshots.take()
    assert [snapshot.cpu_percent for snapshot in (await list_snapshots(api)).snapshots] == [2]


async def test_snapshots_of_another_namespace_are_not_listed(api):
    await report_machine(api, namespace="red", cpu_percent=1)
    await api.snapshots.take()
    assert not (await list_snapshots(api)).snapshots
    assert len((await list_snapshots(api, metadata=(("taskyard-namespace", "red"),))).snapshots) == 1


# Snapshots of the server


@pytest.fixture
def machine(monkeypatch):
    """The machine of the server, with figures that tests control."""
    figures = SimpleNamespace(cpu=25.0, memory_mb=2048)
    monkeypatch.setattr(psutil, "cpu_percent", lambda _interval: figures.cpu)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(used=figures.memory_mb * 1024 * 1024))
    return figures


async def test_an_unused_server_has_a_snapshot_of_itself(api, clock, machine):
    await api.snapshots.take()
    (snapshot,) = await server_snapshots(api)
    assert not snapshot.HasField("host_id")
    assert (snapshot.cpu_percent, snapshot.memory_mb) == (machine.cpu, machine.memory_mb)
    assert (snapshot.active_workers, snapshot.active_teams, snapshot.sessions) == (0, 0, 0)
    assert snapshot.HasField("inflight_tasks")
    assert snapshot.HasField("queued_tasks")
    assert (snapshot.inflight_tasks, snapshot.queued_tasks) == (0, 0)
    assert snapshot.created_at.seconds == int(clock.now)


async def test_a_snapshot_of_the_server_counts_online_hosts_streams_and_tasks_of_the_namespace(api, clock):
    await api.engine.hosts.register(NS, "silent", None, HostProfile(), show=live)
    clock.now += 61
    await api.engine.hosts.register(NS, "taskyard:tabs", None, HostProfile(), built_in=True, show=live)
    await api.engine.hosts.register(NS, "polls", None, HostProfile(), show=live)
    session, _ = await api.engine.hosts.connect(NS, Hello("streams", "i1"), lambda: None, show=live)
    await api.engine.hosts.give_credit(session, 1)
    for _ in range(3):
        await api.submit()
    await api.snapshots.take()
    (snapshot,) = await server_snapshots(api)
    assert (snapshot.active_workers, snapshot.sessions) == (2, 1)
    assert (snapshot.inflight_tasks, snapshot.queued_tasks) == (1, 2)


async def test_each_namespace_in_use_has_a_snapshot_of_the_server(api):
    red = (("taskyard-namespace", "red"),)
    await api.submit(metadata=red)
    await api.snapshots.take()
    assert [snapshot.queued_tasks for snapshot in await server_snapshots(api, red)] == [1]
    assert [snapshot.queued_tasks for snapshot in await server_snapshots(api)] == [0]
    assert not await server_snapshots(api, (("taskyard-namespace", "blue"),))


async def test_only_snapshots_of_hosts_name_a_host(api):
    await report_machine(api, cpu_percent=50)
    await api.snapshots.take()
    all_snapshots = (await api.stats_stub.ListSnapshots(ListSnapshotsRequest())).snapshots
    assert sorted(snapshot.host_id for snapshot in all_snapshots) == ["", "host"]
    (host_snapshot,) = (await list_snapshots(api, server=False)).snapshots
    assert host_snapshot.host_id == "host"
    assert not host_snapshot.HasField("inflight_tasks")
    assert not host_snapshot.HasField("queued_tasks")
    assert not (await list_snapshots(api, server=True, host_id="host")).snapshots


async def test_a_page_token_for_snapshots_of_the_server_is_refused_for_those_of_hosts(api, refused):
    for _ in range(2):
        await api.snapshots.take()
    token = (await list_snapshots(api, server=True, page_size=1)).next_page_token
    assert len((await list_snapshots(api, server=True, page_token=token)).snapshots) == 1
    assert (await refused(list_snapshots(api, server=False, page_token=token))).code == "bad_request"


async def test_figures_that_the_system_does_not_provide_are_absent(api, monkeypatch):
    def deny(*_args):
        raise PermissionError

    monkeypatch.setattr(psutil, "cpu_percent", deny)
    monkeypatch.setattr(psutil, "virtual_memory", deny)
    await api.snapshots.take()
    (snapshot,) = await server_snapshots(api)
    assert not snapshot.HasField("cpu_percent")
    assert not snapshot.HasField("memory_mb")


async def test_the_first_snapshot_is_taken_at_once_and_the_next_after_the_interval(api, monkeypatch):
    sleeps, wake_up = asyncio.Queue(), asyncio.Event()

    async def sleep(secs):
        sleeps.put_nowait(secs)
        await wake_up.wait()
        wake_up.clear()

    monkeypatch.setattr(snapshots, "asyncio", SimpleNamespace(sleep=sleep))
    running = asyncio.create_task(api.snapshots.run())
    for count in (1, 2):
        assert await asyncio.wait_for(sleeps.get(), LIMIT_SECS) == 60
        assert len(await server_snapshots(api)) == count
        wake_up.set()
    running.cancel()


# Logs


async def test_one_line_counts_the_hosts_by_status(api, clock):
    await api.engine.hosts.register(NS, "dead", None, HostProfile(), show=live)
    clock.now += 1000
    await api.engine.hosts.register("red", "idle", None, HostProfile(), show=live)
    for host in ("busy", "busy too"):
        await api.engine.hosts.register(NS, host, None, HostProfile(), slots=1, show=live)
        await api.submit()
        assert len(await api.engine.leases.claim(NS, host, show=live)) == 1
    await api.engine.hosts.register(NS, "taskyard:tabs", None, HostProfile(), built_in=True, show=live)
    with structlog.testing.capture_logs() as lines:
        await api.snapshots.take()
    assert [line for line in lines if line["event"] == "heartbeats_collected"] == [
        {"event": "heartbeats_collected", "log_level": "debug", "alive": 0, "idle": 1, "busy": 2, "dead": 1}
    ]


async def test_without_hosts_nothing_is_logged(api):
    with structlog.testing.capture_logs() as lines:
        await api.snapshots.take()
    assert lines == []


# The hosts of GetStats


async def test_the_stats_have_no_hosts_section_while_no_host_is_registered(api):
    await api.engine.hosts.register(NS, "taskyard:tabs", None, HostProfile(), built_in=True, show=live)
    assert not (await api.stats()).HasField("hosts")


async def test_the_stats_count_registered_and_online_hosts_and_free_credit(api, clock):
    await api.engine.hosts.register(NS, "silent", None, HostProfile(), show=live)
    clock.now += 61
    session, _ = await api.engine.hosts.connect(NS, Hello("busy", "i1"), lambda: None, show=live)
    await api.engine.hosts.give_credit(session, 3)
    await api.submit()
    hosts = (await api.stats()).hosts
    assert (hosts.registered, hosts.online, hosts.free_credit) == (2, 1, 2)


async def test_a_draining_host_has_no_free_credit(api):
    session, _ = await api.engine.hosts.connect(NS, Hello("host", "i1"), lambda: None, show=live)
    await api.engine.hosts.give_credit(session, 3)
    await api.engine.hosts.drain(NS, "host", show=live)
    assert (await api.stats()).hosts.free_credit == 0
