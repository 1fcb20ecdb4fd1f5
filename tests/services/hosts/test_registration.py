"""Registration, heartbeats and deregistration of hosts (docs/rules.md, Registration, Liveness, Matching)."""

import grpc
import pytest

from taskyard.v1 import lease_pb2
from taskyard_server.core.hosts import HostProfile
from tests.live import live
from tests.services.hosts.host_fields import seconds, status_name

# Registration


async def test_registering_again_keeps_the_registration_time_and_replaces_the_rest(api):
    first = await api.register(
        display_name="One", capabilities=["gpu"], slots=4, project="p", actions=["click"], labels={"rack": "7"}
    )
    assert (first.display_name, list(first.capabilities), first.slots) == ("One", ["gpu"], 4)
    assert (first.project, list(first.actions), dict(first.labels)) == ("p", ["click"], {"rack": "7"})
    await api.advance(10)
    second = await api.register(capabilities=["cpu"])
    assert second.registered_at == first.registered_at
    assert seconds(second.last_heartbeat_at) == pytest.approx(seconds(first.last_heartbeat_at) + 10)
    assert (second.display_name, list(second.capabilities)) == ("host", ["cpu"])
    assert not second.HasField("slots")
    assert not second.HasField("project")
    assert (list(second.actions), dict(second.labels)) == ([], {})
    assert list((await api.list_hosts()).hosts) == [second]


async def test_a_host_registered_without_fields_is_named_by_its_id(api):
    host = await api.register("h-1")
    assert (host.id, host.display_name, list(host.capabilities)) == ("h-1", "h-1", [])
    assert host.online
    assert status_name(host) == "idle"
    assert host.registered_at == host.last_heartbeat_at
    assert not host.HasField("machine")
    assert not host.HasField("draining")


async def test_registering_again_keeps_the_leases(api):
    await api.register()
    task_id = await api.submit()
    await api.claim()
    assert (await api.register()).leases == 1
    assert await api.state(task_id) == "assigned"


async def test_a_host_without_an_id_is_refused(api, refused, by_rest):
    refusal = await refused(api.register("", metadata=by_rest))
    assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.trailers["x-http-status"] == "400"
    assert refusal.rest_body == {"code": "bad_request", "error": "host_id: is required"}


async def test_ids_of_built_in_hosts_are_reserved(api, refused):
    await api.engine.hosts.register("default", "taskyard:executor", None, HostProfile(), built_in=True, show=live)
    calls = [api.register, api.heartbeat, api.deregister, api.drain, api.claim]
    for call in calls:
        refusal = await refused(call("taskyard:executor"))
        assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
        assert "host_id" in refusal.message


async def test_built_in_hosts_are_not_listed(api):
    await api.engine.hosts.register("default", "taskyard:executor", None, HostProfile(), built_in=True, show=live)
    await api.register()
    assert [host.id for host in (await api.list_hosts()).hosts] == ["host"]


# Heartbeats


async def test_calls_of_an_unknown_host_are_not_found(api, refused, by_rest):
    await api.register("known")
    for call in [api.heartbeat_call("ghost", metadata=by_rest), api.claim("ghost", metadata=by_rest)]:
        refusal = await refused(call)
        assert refusal.status is grpc.StatusCode.NOT_FOUND
        assert refusal.trailers["x-http-status"] == "404"
        assert refusal.rest_body == {"code": "not_found", "error": "runtime host not found"}
    for call in [api.deregister("ghost"), api.drain("ghost")]:
        assert (await refused(call)).status is grpc.StatusCode.NOT_FOUND
    assert [host.id for host in (await api.list_hosts()).hosts] == ["known"]


async def test_in_an_unknown_namespace_every_host_is_not_found(api, refused):
    for call in [api.heartbeat_call(), api.deregister(), api.drain(), api.claim()]:
        assert (await refused(call)).message == "runtime host not found"
    assert not (await api.list_hosts()).hosts


async def test_a_heartbeat_makes_a_silent_host_online_again(api):
    await api.register()
    await api.advance(100)
    assert not (await api.get_host()).online
    host = await api.heartbeat()
    assert host.online
    assert await api.get_host() == host


async def test_a_heartbeat_renews_no_lease(api):
    await api.register()
    task_id = await api.submit()
    await api.claim()
    await api.advance(50)
    await api.heartbeat()
    await api.advance(12)
    assert await api.state(task_id) == "queued"


# Deregistration


async def test_deregistering_removes_the_host_and_requeues_its_tasks_at_once(api, refused):
    await api.register()
    await api.register("other")
    assigned, running = [await api.submit() for _ in range(2)]
    await api.claim()
    started = await api.claim()
    await api.leases.StartTask(
        lease_pb2.StartTaskRequest(host_id="host", task_id=started.task_id, fencing_token=started.fencing_token)
    )
    assert await api.state(running) == "running"
    assert (await api.deregister()).deregistered
    assert [await api.state(task_id) for task_id in (assigned, running)] == ["queued", "queued"]
    assert not (await api.leases.ListLeases(lease_pb2.ListLeasesRequest())).leases
    assert [host.id for host in (await api.list_hosts()).hosts] == ["other"]
    assert [(await api.claim("other")).task_id for _ in range(2)] == [assigned, running]
    assert (await refused(api.deregister())).status is grpc.StatusCode.NOT_FOUND


async def test_deregistering_does_not_affect_the_leases_of_other_hosts(api):
    await api.register()
    await api.register("other")
    kept = await api.submit()
    await api.claim("other")
    await api.deregister()
    assert await api.state(kept) == "assigned"


async def test_a_host_that_registers_after_a_deregistration_is_a_new_host(api):
    first = await api.register()
    await api.register("other")
    await api.deregister()
    await api.advance(5)
    again = await api.register()
    assert seconds(again.registered_at) == pytest.approx(seconds(first.registered_at) + 5)
    assert again.leases == 0
    assert [host.id for host in (await api.list_hosts()).hosts] == ["other", "host"]
