"""Commands on hosts: register, heartbeat, drain, deregister, list."""

import pytest

from taskyard_server.core.errors import NotFound
from taskyard_server.core.hosts import HostProfile, HostStatus
from tests import reporting
from tests.engine.lease_commands import NS, lease_of
from tests.live import live


async def test_a_host_is_registered_and_replaced_under_its_id(engine, clock):
    host = await engine.hosts.register(NS, "h1", "One", HostProfile(frozenset({"gpu"})), show=live)
    assert (host.id, host.display_name, host.registered_at) == ("h1", "One", clock.now)
    clock.now += 10
    again = await engine.hosts.register(NS, "h1", None, HostProfile(), show=live)
    assert (again.display_name, again.profile, again.registered_at) == ("h1", HostProfile(), clock.now - 10)


async def test_a_heartbeat_records_its_time_and_the_reported_status_and_machine(engine, host, clock):
    clock.now += 10
    beating = await engine.hosts.heartbeat(NS, host, HostStatus.BUSY, b"cpu", show=live)
    assert (beating.last_heartbeat_at, beating.reported_status, beating.machine) == (clock.now, "busy", b"cpu")


async def test_a_draining_host_gets_no_new_tasks(engine, host, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    assert (await engine.hosts.drain(NS, host, show=live)).draining
    assert await engine.leases.claim(NS, host, show=live) == []


async def test_heartbeats_and_drains_of_an_unregistered_host_are_not_found(engine, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    for call in (engine.hosts.heartbeat, engine.hosts.drain):
        with pytest.raises(NotFound, match="runtime host not found"):
            await call(NS, "stranger", show=live)


async def test_hosts_are_listed_in_order_of_their_first_registration(engine):
    for name in ("one", "two", "three", "one"):
        await engine.hosts.register(NS, name, None, HostProfile(), show=live)
    await engine.hosts.register("other", "four", None, HostProfile(), show=live)
    hosts = await engine.hosts.list_hosts(NS, 0, show=live)
    assert [host.id for host in hosts] == ["one", "two", "three"]
    assert [host.id for host in await engine.hosts.list_hosts(NS, hosts[0].number, show=live)] == ["two", "three"]


async def test_claims_and_deregistrations_of_an_unregistered_host_are_not_found(engine, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    with pytest.raises(NotFound, match="runtime host not found"):
        await engine.leases.claim(NS, "stranger", wait_secs=10, show=live)
    with pytest.raises(NotFound, match="runtime host not found"):
        await engine.hosts.deregister(NS, "stranger")


async def test_deregistering_a_host_ends_its_leases(engine, host, submission):
    task = await engine.tasks.submit(NS, submission(), show=live)
    await lease_of(engine, host)
    await engine.hosts.deregister(NS, host)
    assert (await engine.tasks.get(NS, task.id, show=live)).state == "queued"


async def test_the_tab_executor_gets_plain_tasks_only_while_no_runtime_host_is_registered(engine, submission):
    await engine.hosts.register(NS, "tabs", None, HostProfile(), built_in=True, show=live)
    await engine.tasks.submit(NS, submission(), show=live)
    (lease,) = await engine.leases.claim(NS, "tabs", show=live)
    await reporting.release(engine, NS, "tabs", lease.task.id, lease.token)
    await engine.hosts.register(NS, "host", None, HostProfile(project="red"), show=live)
    assert await engine.leases.claim(NS, "tabs", show=live) == []
