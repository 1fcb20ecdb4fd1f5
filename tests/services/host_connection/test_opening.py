"""Connect, its beginning (runtime_host.proto, Hello and Welcome): who is let in, and what both sides learn."""

import grpc
import pytest

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1.runtime_host_pb2 import Machine, RuntimeHost

OTHER = (("taskyard-namespace", "other"),)


async def test_welcome_tells_the_terms_of_the_stream(yard):
    welcome = await yard.stream().hello()
    assert welcome.session
    assert welcome.lease_secs == 60
    assert welcome.heartbeat_interval_ms == 20_000
    assert welcome.reconnect_grace_ms == 5_000
    assert welcome.start_timeout_ms == 10_000
    assert welcome.max_message_bytes == 4 * 1024 * 1024
    assert not welcome.kept
    assert not welcome.lost


async def test_the_terms_are_those_of_the_configuration(open_yard, still):
    yard = await open_yard(
        still, lease_secs=30.0, heartbeat_timeout_secs=9.0, reconnect_grace_secs=2.5, start_timeout_secs=1.5
    )
    welcome = await yard.stream().hello()
    assert welcome.lease_secs == 30
    assert welcome.heartbeat_interval_ms == 3_000
    assert welcome.reconnect_grace_ms == 2_500
    assert welcome.start_timeout_ms == 1_500


@pytest.mark.parametrize(("secs", "interval_ms"), [(1, 333), (30, 10_000), (60, 20_000), (3600, 20_000)])
async def test_heartbeats_come_at_a_third_of_the_shorter_of_lease_and_host_timeout(yard, secs, interval_ms):
    welcome = await yard.stream().hello(lease_secs=secs)
    assert welcome.lease_secs == secs
    assert welcome.heartbeat_interval_ms == interval_ms


async def test_each_stream_has_a_session_of_its_own(yard):
    sessions = [(await yard.stream(f"host-{number}").hello()).session for number in range(3)]
    sessions.append((await yard.stream("host-0").hello()).session)
    assert len(set(sessions)) == 4


async def test_hello_registers_the_host_with_all_that_it_says(yard):
    stream = yard.stream()
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
    host = await yard.host()
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


async def test_what_hello_leaves_out_has_its_default(yard):
    await yard.stream().hello()
    host = await yard.host()
    assert host.display_name == "host"
    for absent in ("slots", "project", "machine", "draining"):
        assert not host.HasField(absent)
    assert not any((host.capabilities, host.actions, host.labels))


async def test_hello_of_a_known_host_keeps_when_it_first_registered_and_replaces_the_rest(yard):
    before = (await yard.register(capabilities=["gpu"], slots=9, machine=Machine(cpu_percent=1))).host
    await yard.pass_time(5)
    await yard.stream().hello()
    host = await yard.host()
    assert host.registered_at == before.registered_at
    assert not host.capabilities
    assert not host.HasField("slots")
    assert host.machine.cpu_percent == 1
    assert host.last_heartbeat_at.ToNanoseconds() - before.last_heartbeat_at.ToNanoseconds() == pytest.approx(5e9)


async def test_the_instance_shows_only_while_the_host_has_a_stream(yard):
    stream = await yard.connect()
    assert (await yard.host()).instance == "i"
    await stream.leave()
    assert not (await yard.host()).HasField("instance")


async def test_the_lease_length_of_hello_holds_for_every_task(yard):
    stream = await yard.connect(lease_secs=7, credit=1)
    await yard.submit()
    lease = (await stream.task()).lease
    assert lease.lease_secs == 7
    assert lease.expires_at.ToNanoseconds() - lease.claimed_at.ToNanoseconds() == pytest.approx(7e9)


async def test_hosts_of_two_namespaces_do_not_see_each_other(yard):
    here = await yard.connect(credit=1)
    there = await yard.connect(credit=1, metadata=OTHER, instance="another")
    task_id = await yard.submit(metadata=OTHER)
    assert (await there.task()).task.task_id == task_id
    await here.is_quiet()
    assert (await yard.host()).instance == "i"
    assert (await yard.host(metadata=OTHER)).instance == "another"
    assert await here.told((task_id, 1), started=True) == "not_found"
    assert await yard.state(task_id, OTHER) == "assigned"


async def test_another_instance_is_refused_while_the_first_lives(yard, refused):
    first = await yard.connect(instance="a", credit=1)
    second = yard.stream()
    await second.say(hello=pb.Hello(host_id="host", instance="b", slots=99))
    refusal = await refused(second.end())
    assert refusal.status is grpc.StatusCode.ALREADY_EXISTS
    assert refusal.code == "already_exists"
    host = await yard.host()
    assert host.instance == "a"
    assert not host.HasField("slots")
    await yard.submit()
    assert await first.told(await first.task(), started=True) == "running"


async def test_another_instance_takes_over_when_the_heartbeats_of_the_first_fail_to_come(yard, refused):
    first = await yard.connect(instance="a", credit=1)
    await yard.submit()
    await first.told(await first.task(), started=True)
    await yard.pass_time(39)
    second = yard.stream()
    await second.say(hello=pb.Hello(host_id="host", instance="b"))
    assert (await refused(second.end())).code == "already_exists"
    await yard.pass_time(2)
    third = await yard.connect(instance="b")
    await third.credit(1)
    assert (await refused(first.end())).status is grpc.StatusCode.FAILED_PRECONDITION
    assert (await third.task()).lease.fencing_token == 2


async def test_another_instance_may_come_at_once_after_the_first_has_left(yard):
    first = await yard.connect(instance="a")
    await first.leave()
    assert await yard.connect(instance="b")


async def test_a_host_that_registered_by_a_call_is_no_obstacle(yard):
    await yard.register()
    assert await yard.connect()
