"""Liveness of hosts (docs/rules.md, Registration, Liveness, Matching): online, status, and which calls count as
heartbeats."""

from types import SimpleNamespace

import grpc
import pytest

from taskyard.v1 import lease_pb2
from tests.services.hosts.host_fields import seconds, status_name

# Online and status


@pytest.mark.parametrize(("silent_secs", "online"), [(59.0, True), (60.0, True), (60.001, False), (80_000.0, False)])
async def test_a_host_is_online_until_its_timeout_has_passed(api, silent_secs, online):
    api.clock.now = float(int(api.clock.now))
    await api.register()
    await api.advance(silent_secs)
    assert (await api.get_host()).online is online


async def test_the_timeout_is_configurable(start_api):
    api = await start_api(heartbeat_timeout_secs=5.0)
    api.clock.now = float(int(api.clock.now))
    await api.register()
    await api.advance(5)
    assert (await api.get_host()).online
    await api.advance(0.001)
    assert not (await api.get_host()).online


@pytest.mark.parametrize(
    ("silent_secs", "status"), [(60.001, "idle"), (120.0, "idle"), (120.001, "dead"), (80_000.0, "dead")]
)
async def test_a_host_is_dead_once_it_is_silent_for_more_than_twice_its_timeout(api, silent_secs, status):
    api.clock.now = float(int(api.clock.now))
    await api.register()
    await api.advance(silent_secs)
    assert status_name(await api.get_host()) == status


async def test_a_heartbeat_revives_a_dead_host(api):
    await api.register()
    await api.advance(1000)
    assert status_name(await api.get_host()) == "dead"
    assert status_name(await api.heartbeat()) == "idle"


async def test_without_a_reported_status_the_status_follows_from_leases_and_slots(api):
    await api.register(slots=2)
    statuses = []
    for _ in range(3):
        host = await api.get_host()
        statuses.append((host.leases, status_name(host)))
        await api.submit()
        await api.claim()
    assert statuses == [(0, "idle"), (1, "alive"), (2, "busy")]


async def test_a_host_without_slots_is_never_busy_because_of_its_leases(api):
    await api.register()
    for _ in range(5):
        await api.submit()
        await api.claim()
    assert status_name(await api.get_host()) == "alive"


@pytest.mark.parametrize("status", ["alive", "idle", "busy"])
async def test_the_last_reported_status_is_shown(api, status):
    await api.register(slots=1)
    await api.heartbeat(status=status)
    assert status_name(await api.get_host()) == status
    await api.submit()
    await api.claim()
    assert status_name(await api.get_host()) == status
    assert status_name(await api.heartbeat()) == "busy"


async def test_the_reported_status_of_a_dead_host_is_ignored(api):
    await api.register()
    await api.heartbeat(status="busy")
    await api.advance(121)
    assert status_name(await api.get_host()) == "dead"


async def test_registering_again_clears_the_reported_status(api):
    await api.register()
    await api.heartbeat(status="busy")
    assert status_name(await api.register()) == "idle"


async def test_a_host_cannot_report_itself_dead(api):
    await api.register()
    assert status_name(await api.heartbeat(status="dead")) == "idle"


# Calls that count as heartbeats


CALLS = ["claim", "renew", "start", "progress", "late", "complete", "fail", "release"]


@pytest.mark.parametrize("call", CALLS)
async def test_every_call_of_a_host_counts_as_a_heartbeat(api, call):
    await api.register()
    await api.submit()
    lease = await api.claim(lease_secs=3600)
    lease_fields = SimpleNamespace(host_id="host", task_id=lease.task_id, fencing_token=lease.fencing_token).__dict__
    await api.advance(110)
    assert not (await api.get_host()).online
    match call:
        case "claim":
            await api.claim()
        case "renew":
            await api.leases.RenewLease(lease_pb2.RenewLeaseRequest(**lease_fields))
        case "start":
            await api.leases.StartTask(lease_pb2.StartTaskRequest(**lease_fields))
        case "progress":
            await api.leases.ReportProgress(lease_pb2.ReportProgressRequest(**lease_fields))
        case "late":
            with pytest.raises(grpc.aio.AioRpcError):
                await api.leases.StartTask(lease_pb2.StartTaskRequest(**{**lease_fields, "fencing_token": 9}))
        case "complete":
            await api.leases.CompleteTask(lease_pb2.CompleteTaskRequest(**lease_fields))
        case "fail":
            await api.leases.FailTask(lease_pb2.FailTaskRequest(**lease_fields, error="broken"))
        case "release":
            await api.leases.ReleaseTask(lease_pb2.ReleaseTaskRequest(**lease_fields))
    host = await api.get_host()
    assert host.online
    assert seconds(host.last_heartbeat_at) == pytest.approx(api.clock.now, abs=1e-5)


async def test_draining_and_listing_a_host_do_not_count_as_heartbeats(api):
    await api.register()
    await api.advance(200)
    assert status_name((await api.drain()).host) == "dead"
    assert status_name(await api.get_host()) == "dead"
