"""Connect, hello and welcome (runtime_host.proto, Hello and Welcome): which hosts are accepted, and on which terms."""

import grpc
import pytest

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1.runtime_host_pb2 import Machine, RuntimeHost

OTHER = (("taskyard-namespace", "other"),)


async def test_the_welcome_holds_the_terms_of_the_stream(server):
    welcome = await server.stream().hello()
    assert welcome.session
    assert welcome.lease_secs == 60
    assert welcome.heartbeat_interval_ms == 20_000
    assert welcome.reconnect_grace_ms == 5_000
    assert welcome.start_timeout_ms == 10_000
    assert welcome.max_message_bytes == 4 * 1024 * 1024
    assert not welcome.kept
    assert not welcome.lost


async def test_the_terms_follow_the_configured_limits(start_server, clock):
    server = await start_server(
        clock, lease_secs=30.0, heartbeat_timeout_secs=9.0, reconnect_grace_secs=2.5, start_timeout_secs=1.5
    )
    welcome = await server.stream().hello()
    assert welcome.lease_secs == 30
    assert welcome.heartbeat_interval_ms == 3_000
    assert welcome.reconnect_grace_ms == 2_500
    assert welcome.start_timeout_ms == 1_500


@pytest.mark.parametrize(("secs", "interval_ms"), [(1, 333), (30, 10_000), (60, 20_000), (3600, 20_000)])
async def test_the_heartbeat_interval_is_a_third_of_the_shorter_of_lease_and_host_timeout(server, secs, interval_ms):
    welcome = await server.stream().hello(lease_secs=secs)
    assert welcome.lease_secs == secs
    assert welcome.heartbeat_interval_ms == interval_ms


async def test_each_stream_has_its_own_session_id(server):
    sessions = [(await server.stream(f"host-{number}").hello()).session for number in range(3)]
    sessions.append((await server.stream("host-0").hello()).session)
    assert len(set(sessions)) == 4


async def test_hello_registers_the_host_with_all_its_fields(server):
    stream = server.stream()
    await stream.hello(
        instance="run-7",
        display_name="The host",
        capabilities=["gpu", "browser"],
        slots=3,
        project="p",
        actions=["click"],
        labels={"zone": "a"},
        machine=Machine(cpu_percent=12.5, sessions=4),
    )
    host = await server.host()
    assert host.id == "host"
    assert host.instance == "run-7"
    assert host.display_name == "The host"
    assert host.capabilities == ["browser", "gpu"]
    assert host.slots == 3
    assert host.project == "p"
    assert host.actions == ["click"]
    assert host.labels == {"zone": "a"}
    assert host.machine == Machine(cpu_percent=12.5, sessions=4)
    assert host.online
    assert host.status == RuntimeHost.idle
    assert not host.HasField("draining")


async def test_fields_missing_from_hello_have_their_defaults(server):
    await server.stream().hello()
    host = await server.host()
    assert host.display_name == "host"
    for absent in ("slots", "project", "machine", "draining"):
        assert not host.HasField(absent)
    assert not any((host.capabilities, host.actions, host.labels))


async def test_hello_of_a_known_host_keeps_its_registration_time_and_replaces_the_rest(server):
    before = (await server.register(capabilities=["gpu"], slots=9, machine=Machine(cpu_percent=1))).host
    await server.advance(5)
    await server.stream().hello()
    host = await server.host()
    assert host.registered_at == before.registered_at
    assert not host.capabilities
    assert not host.HasField("slots")
    assert host.machine.cpu_percent == 1
    assert host.last_heartbeat_at.ToNanoseconds() - before.last_heartbeat_at.ToNanoseconds() == pytest.approx(5e9)


async def test_the_instance_is_shown_only_while_the_host_has_a_stream(server):
    stream = await server.connect()
    assert (await server.host()).instance == "i"
    await stream.leave()
    assert not (await server.host()).HasField("instance")


async def test_the_lease_length_of_hello_applies_to_every_task(server):
    stream = await server.connect(lease_secs=7, credit=1)
    await server.submit()
    lease = (await stream.task()).lease
    assert lease.lease_secs == 7
    assert lease.expires_at.ToNanoseconds() - lease.claimed_at.ToNanoseconds() == pytest.approx(7e9)


async def test_hosts_of_two_namespaces_are_isolated(server):
    here = await server.connect(credit=1)
    there = await server.connect(credit=1, metadata=OTHER, instance="another")
    task_id = await server.submit(metadata=OTHER)
    assert (await there.task()).task.task_id == task_id
    await here.assert_quiet()
    assert (await server.host()).instance == "i"
    assert (await server.host(metadata=OTHER)).instance == "another"
    assert await here.report_one((task_id, 1), started=True) == "not_found"
    assert await server.state(task_id, OTHER) == "assigned"


async def test_another_instance_is_refused_while_the_first_is_alive(server, refused):
    first = await server.connect(instance="a", credit=1)
    second = server.stream()
    await second.send(hello=pb.Hello(host_id="host", instance="b", slots=99))
    refusal = await refused(second.read_to_end())
    assert refusal.status is grpc.StatusCode.ALREADY_EXISTS
    assert refusal.code == "already_exists"
    host = await server.host()
    assert host.instance == "a"
    assert not host.HasField("slots")
    await server.submit()
    assert await first.report_one(await first.task(), started=True) == "running"


async def test_another_instance_takes_over_once_the_heartbeats_of_the_first_are_missing(server, refused):
    first = await server.connect(instance="a", credit=1)
    await server.submit()
    await first.report_one(await first.task(), started=True)
    await server.advance(39)
    second = server.stream()
    await second.send(hello=pb.Hello(host_id="host", instance="b"))
    assert (await refused(second.read_to_end())).code == "already_exists"
    await server.advance(2)
    third = await server.connect(instance="b")
    await third.credit(1)
    assert (await refused(first.read_to_end())).status is grpc.StatusCode.FAILED_PRECONDITION
    assert (await third.task()).lease.fencing_token == 2


async def test_another_instance_can_connect_as_soon_as_the_first_has_left(server):
    first = await server.connect(instance="a")
    await first.leave()
    assert await server.connect(instance="b")


async def test_a_host_registered_by_a_call_can_connect(server):
    await server.register()
    assert await server.connect()
