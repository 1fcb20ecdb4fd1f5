"""Connect, heartbeats and time (runtime_host.proto, Heartbeat; DESIGN, Leases): what they renew, and what runs out."""

import pytest

from taskyard.v1 import lease_pb2
from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1.runtime_host_pb2 import Cancellation, Machine, RuntimeHost
from tests.services.host_streams import named, report


@pytest.fixture
async def stream(yard):
    """A connected host with room for many."""
    return await yard.connect(credit=100)


async def work_on(yard, stream, count):
    """So many tasks that the host has begun."""
    await yard.submit_many(count)
    tasks = await stream.tasks(count)
    await stream.report(*(report(task, started=True) for task in tasks))
    return tasks


async def expiries(yard):
    listing = await yard.leases.ListLeases(lease_pb2.ListLeasesRequest())
    return {lease.task_id: lease.expires_at.ToNanoseconds() / 1e9 for lease in listing.leases}


async def test_the_answer_carries_the_sequence_back(stream):
    for sequence in (7, 7, 0, 2**32 - 1):
        await stream.say(heartbeat=pb.Heartbeat(sequence=sequence))
        assert (await stream.hear("heartbeat_ack")).sequence == sequence


async def test_a_heartbeat_renews_exactly_the_leases_that_it_lists(yard, stream):
    listed, left_out = await work_on(yard, stream, 2)
    before = await expiries(yard)
    await yard.pass_time(20)
    ack = await stream.beat(listed)
    assert not ack.lost
    after = await expiries(yard)
    assert after[listed.task.task_id] == pytest.approx(yard.clock.now + 60, abs=1e-5)
    assert after[left_out.task.task_id] == before[left_out.task.task_id]


async def test_a_renewal_gives_each_lease_its_own_length(yard):
    stream = await yard.connect(credit=1, lease_secs=30)
    (short,) = await work_on(yard, stream, 1)
    await yard.submit()
    long = await yard.leases.ClaimTask(lease_pb2.ClaimTaskRequest(host_id="host", lease_secs=600))
    await yard.pass_time(10)
    await stream.beat(short, (long.task_id, long.fencing_token))
    assert await expiries(yard) == {
        short.task.task_id: pytest.approx(yard.clock.now + 30, abs=1e-5),
        long.task_id: pytest.approx(yard.clock.now + 600, abs=1e-5),
    }


async def test_a_renewal_never_shortens_a_lease(yard, stream):
    (task,) = await work_on(yard, stream, 1)
    about = named(task)
    await yard.leases.RenewLease(
        lease_pb2.RenewLeaseRequest(
            host_id="host", task_id=about.task_id, fencing_token=about.fencing_token, lease_secs=3600
        )
    )
    before = await expiries(yard)
    await stream.beat(task)
    assert await expiries(yard) == before


async def test_leases_that_have_ended_are_named_as_lost(yard, stream):
    alive, done = await work_on(yard, stream, 2)
    await stream.told(done, completed=True)
    ack = await stream.beat(alive, done, ("tsk_unknown", 1), (alive.task.task_id, 9))
    assert list(ack.lost) == [named(done), named(("tsk_unknown", 1)), named((alive.task.task_id, 9))]


async def test_the_lease_of_another_host_is_lost_and_is_not_renewed(yard, stream):
    (task,) = await work_on(yard, stream, 1)
    before = await expiries(yard)
    thief = await yard.connect("thief")
    await yard.pass_time(5)
    assert list((await thief.beat(task)).lost) == [named(task)]
    assert await expiries(yard) == before


async def test_a_lease_that_is_left_out_runs_out_while_the_others_live(yard, stream):
    kept, left_out = await work_on(yard, stream, 2)
    for _ in range(3):
        await yard.pass_time(19.9)
        assert not (await stream.beat(kept)).lost
    await yard.pass_time(0.5)
    stop = await stream.cancellation()
    assert (stop.task_id, stop.fencing_token) == (left_out.task.task_id, left_out.lease.fencing_token)
    assert stop.reason == Cancellation.lease_ended
    assert stop.message == "lease expired"
    again = await stream.task()
    assert (again.task.task_id, again.lease.fencing_token) == (left_out.task.task_id, 2)
    assert await stream.told(left_out, completed=True) == "lease_lost"
    assert await stream.told(kept, completed=True) == "done"


async def test_a_heartbeat_keeps_the_host_online_and_shows_its_word_and_its_machine(yard, stream):
    await yard.pass_time(55)
    await stream.beat(status=RuntimeHost.busy, machine=Machine(cpu_percent=50, active_workers=2))
    host = await yard.host()
    assert host.status == RuntimeHost.busy
    assert host.machine == Machine(cpu_percent=50, active_workers=2)
    assert host.last_heartbeat_at.ToNanoseconds() / 1e9 == pytest.approx(yard.clock.now, abs=1e-5)
    await yard.pass_time(55)
    await stream.beat()
    host = await yard.host()
    assert host.online
    assert host.status == RuntimeHost.idle
    assert host.machine.cpu_percent == 50


async def test_the_word_that_a_host_is_dead_is_the_servers(yard, stream):
    await stream.beat(status=RuntimeHost.dead)
    assert (await yard.host()).status == RuntimeHost.idle


@pytest.mark.parametrize("sign", ["credit", "report", "call"])
async def test_everything_that_a_host_says_is_a_sign_of_life(yard, stream, sign):
    await yard.pass_time(50)
    match sign:
        case "credit":
            await stream.credit(1)
            await stream.report()
        case "report":
            await stream.told(("tsk_unknown", 1), started=True)
        case "call":
            await yard.hosts.HeartbeatHost(pb.HeartbeatHostRequest(host_id="host"))
    assert (await yard.host()).last_heartbeat_at.ToNanoseconds() / 1e9 == pytest.approx(yard.clock.now, abs=1e-5)


# Tasks that are not begun


async def test_a_task_that_is_not_started_in_time_goes_elsewhere_and_the_host_is_told(yard):
    idle = await yard.connect("idle", credit=1)
    task_id = await yard.submit()
    assignment = await idle.task()
    other = await yard.connect("other", credit=1)
    await yard.pass_time(9.8)
    await other.is_quiet()
    await yard.pass_time(0.4)
    stop = await idle.cancellation()
    assert (stop.task_id, stop.fencing_token, stop.reason) == (task_id, 1, Cancellation.lease_ended)
    assert (await other.task()).lease.fencing_token == 2
    assert await idle.told(assignment, started=True) == "lease_lost"


async def test_a_heartbeat_does_not_stand_for_a_start(yard):
    idle = await yard.connect("idle", credit=1)
    await yard.submit()
    assignment = await idle.task()
    await yard.pass_time(9)
    await idle.beat(assignment)
    await yard.pass_time(1.5)
    await idle.cancellation()


async def test_a_start_that_is_late_for_ever_never_counts_as_a_delivery(open_yard, still):
    yard = await open_yard(still, max_deliveries=1)
    stream = await yard.connect(credit=5)
    task_id = await yard.submit()
    for token in range(1, 5):
        assert (await stream.task()).lease.fencing_token == token
        await yard.pass_time(10.3)
        assert (await stream.cancellation()).fencing_token == token
        await yard.hosts.HeartbeatHost(pb.HeartbeatHostRequest(host_id="host"))
    last = await stream.task()
    assert await stream.told(last, completed=True) == "done"
    assert await yard.state(task_id) == "done"


async def test_a_started_task_whose_lease_runs_out_counts_as_a_delivery(open_yard, still):
    yard = await open_yard(still, max_deliveries=2)
    stream = await yard.connect(credit=5)
    task_id = await yard.submit()
    for state in ("assigned", "failed"):
        task = await stream.task()
        await stream.told(task, started=True)
        for _ in range(4):
            await yard.pass_time(15.1)
            await yard.hosts.HeartbeatHost(pb.HeartbeatHostRequest(host_id="host"))
        assert (await stream.cancellation()).message == "lease expired"
        assert await yard.state(task_id) == state
    assert (await yard.get(task_id)).error == "lease expired"
