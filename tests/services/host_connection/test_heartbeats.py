"""Connect, heartbeats (runtime_host.proto, Heartbeat; docs/rules.md, Heartbeats, Renewal): which leases they renew, and
which expire."""

import pytest

from taskyard.v1 import lease_pb2
from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1.runtime_host_pb2 import Cancellation, Machine, RuntimeHost
from taskyard_server.core.errors import Unavailable
from taskyard_server.interceptors.callers import Call
from taskyard_server.services.host_reading import HostReader
from taskyard_server.services.host_writing import StreamEnd
from tests.services.host_streams import held_lease, report


@pytest.fixture
async def stream(server):
    """A stream with much credit."""
    return await server.connect(credit=100)


async def start_tasks(server, stream, count):
    """Assign `count` tasks to the host and start them."""
    await server.submit_many(count)
    tasks = await stream.tasks(count)
    await stream.report(*(report(task, started=True) for task in tasks))
    return tasks


async def expiries(server):
    listing = await server.leases.ListLeases(lease_pb2.ListLeasesRequest())
    return {lease.task_id: lease.expires_at.ToNanoseconds() / 1e9 for lease in listing.leases}


async def test_an_acknowledgement_repeats_the_sequence_number(stream):
    for sequence in (7, 7, 0, 2**32 - 1):
        await stream.send(heartbeat=pb.Heartbeat(sequence=sequence))
        assert (await stream.receive("heartbeat_ack")).sequence == sequence


async def test_a_heartbeat_renews_exactly_the_leases_that_it_lists(server, stream):
    listed, left_out = await start_tasks(server, stream, 2)
    before = await expiries(server)
    await server.advance(20)
    ack = await stream.heartbeat(listed)
    assert not ack.lost
    after = await expiries(server)
    assert after[listed.task.task_id] == pytest.approx(server.clock.now + 60, abs=1e-5)
    assert after[left_out.task.task_id] == before[left_out.task.task_id]


async def test_each_lease_is_renewed_by_its_own_length(server):
    stream = await server.connect(credit=1, lease_secs=30)
    (short,) = await start_tasks(server, stream, 1)
    await server.submit()
    long = await server.leases.ClaimTask(lease_pb2.ClaimTaskRequest(host_id="host", lease_secs=600))
    await server.advance(10)
    await stream.heartbeat(short, (long.task_id, long.fencing_token))
    assert await expiries(server) == {
        short.task.task_id: pytest.approx(server.clock.now + 30, abs=1e-5),
        long.task_id: pytest.approx(server.clock.now + 600, abs=1e-5),
    }


async def test_a_renewal_never_shortens_a_lease(server, stream):
    (task,) = await start_tasks(server, stream, 1)
    lease = held_lease(task)
    await server.leases.RenewLease(
        lease_pb2.RenewLeaseRequest(
            host_id="host", task_id=lease.task_id, fencing_token=lease.fencing_token, lease_secs=3600
        )
    )
    before = await expiries(server)
    await stream.heartbeat(task)
    assert await expiries(server) == before


async def test_listed_leases_that_have_ended_are_lost(server, stream):
    alive, done = await start_tasks(server, stream, 2)
    await stream.report_one(done, completed=True)
    ack = await stream.heartbeat(alive, done, ("tsk_unknown", 1), (alive.task.task_id, 9))
    assert list(ack.lost) == [held_lease(done), held_lease(("tsk_unknown", 1)), held_lease((alive.task.task_id, 9))]


async def test_the_lease_of_another_host_is_lost_and_is_not_renewed(server, stream):
    (task,) = await start_tasks(server, stream, 1)
    before = await expiries(server)
    thief = await server.connect("thief")
    await server.advance(5)
    assert list((await thief.heartbeat(task)).lost) == [held_lease(task)]
    assert await expiries(server) == before


async def test_a_lease_that_is_not_listed_expires_while_the_others_are_renewed(server, stream):
    kept, left_out = await start_tasks(server, stream, 2)
    for _ in range(3):
        await server.advance(19.9)
        assert not (await stream.heartbeat(kept)).lost
    await server.advance(0.5)
    stop = await stream.cancellation()
    assert (stop.task_id, stop.fencing_token) == (left_out.task.task_id, left_out.lease.fencing_token)
    assert stop.reason == Cancellation.lease_ended
    assert stop.message == "lease expired"
    # The host rests before it is handed the task again.
    await server.advance(2.3)
    again = await stream.task()
    assert (again.task.task_id, again.lease.fencing_token) == (left_out.task.task_id, 3)
    assert await stream.report_one(left_out, completed=True) == "lease_lost"
    assert await stream.report_one(kept, completed=True) == "done"


async def test_a_heartbeat_keeps_the_host_online_and_updates_its_status_and_machine(server, stream):
    await server.advance(55)
    await stream.heartbeat(status=RuntimeHost.busy, machine=Machine(cpu_percent=50, active_workers=2))
    host = await server.host()
    assert host.status == RuntimeHost.busy
    assert host.machine == Machine(cpu_percent=50, active_workers=2)
    assert host.last_heartbeat_at.ToNanoseconds() / 1e9 == pytest.approx(server.clock.now, abs=1e-5)
    await server.advance(55)
    await stream.heartbeat()
    host = await server.host()
    assert host.online
    assert host.status == RuntimeHost.idle
    assert host.machine.cpu_percent == 50


async def test_a_host_cannot_report_itself_dead(server, stream):
    await stream.heartbeat(status=RuntimeHost.dead)
    assert (await server.host()).status == RuntimeHost.idle


@pytest.mark.parametrize("sign", ["credit", "report", "call"])
async def test_every_message_and_call_of_a_host_counts_as_a_heartbeat(server, stream, sign):
    await server.advance(50)
    match sign:
        case "credit":
            await stream.credit(1)
            await stream.report()
        case "report":
            await stream.report_one(("tsk_unknown", 1), started=True)
        case "call":
            await server.hosts.HeartbeatHost(pb.HeartbeatHostRequest(host_id="host"))
    assert (await server.host()).last_heartbeat_at.ToNanoseconds() / 1e9 == pytest.approx(server.clock.now, abs=1e-5)


# Tasks that are not started


async def test_a_task_not_started_in_time_goes_to_another_host_and_is_cancelled_at_the_first(server):
    idle = await server.connect("idle", credit=1)
    task_id = await server.submit()
    assignment = await idle.task()
    other = await server.connect("other", credit=1)
    await server.advance(9.8)
    await other.assert_quiet()
    await server.advance(0.4)
    stop = await idle.cancellation()
    assert (stop.task_id, stop.fencing_token, stop.reason) == (task_id, 1, Cancellation.lease_ended)
    assert (await other.task()).lease.fencing_token == 2
    assert await idle.report_one(assignment, started=True) == "lease_lost"


async def test_a_heartbeat_does_not_count_as_a_start(server):
    idle = await server.connect("idle", credit=1)
    await server.submit()
    assignment = await idle.task()
    await server.advance(9)
    await idle.heartbeat(assignment)
    await server.advance(1.5)
    await idle.cancellation()


async def test_an_assignment_that_is_never_started_does_not_count_as_a_delivery(start_server, clock):
    server = await start_server(clock, max_deliveries=1)
    stream = await server.connect(credit=5)
    task_id = await server.submit()
    for token in range(1, 5):
        assert (await stream.task()).lease.fencing_token == token
        await server.advance(10.3)
        assert (await stream.cancellation()).fencing_token == token
        await server.hosts.HeartbeatHost(pb.HeartbeatHostRequest(host_id="host"))
        # The host rests before it is handed the task again.
        await server.advance(2**token + 0.3)
    last = await stream.task()
    assert await stream.report_one(last, completed=True) == "done"
    assert await server.state(task_id) == "done"


async def test_a_started_task_whose_lease_expires_counts_as_a_delivery(start_server, clock):
    server = await start_server(clock, max_deliveries=2)
    stream = await server.connect(credit=5)
    task_id = await server.submit()
    for state in ("assigned", "failed"):
        task = await stream.task()
        await stream.report_one(task, started=True)
        for _ in range(4):
            await server.advance(15.1)
            await server.hosts.HeartbeatHost(pb.HeartbeatHostRequest(host_id="host"))
        assert (await stream.cancellation()).message == "lease expired"
        # Before it is handed the task again the host rests.
        await server.advance(2.3)
        assert await server.state(task_id) == state
    assert (await server.get(task_id)).error == "lease expired"


class Written:
    """Stands for the writer of a stream: what would be sent."""

    is_full = False

    def __init__(self):
        self.acknowledged = []

    def answer(self, answer):
        pass

    async def wait_for_write(self):
        return True

    def acknowledge(self, sequence):
        self.acknowledged.append(sequence)

    async def acknowledge_alone(self, ack):
        self.acknowledged.append(pb.ConnectResponse.FromString(ack).heartbeat_ack)


@pytest.mark.parametrize("rides", [False, True])
async def test_a_heartbeat_that_is_read_once_its_stream_has_ended_is_not_answered(server, stream, rides):
    """Another replica may serve the namespace by now, where its leases live on: they are not lost."""
    (task,) = await start_tasks(server, stream, 1)
    engine, written = server.engine, Written()
    (session,) = engine._namespaces.get("default", "namespace").sessions.values()
    reader = HostReader(engine, Call(), session, written, StreamEnd(), 10_000, counts=True)
    heartbeat = pb.Heartbeat(sequence=1, leases=[held_lease(task)])
    request = pb.ConnectRequest(heartbeat=heartbeat)
    if rides:
        request = pb.ConnectRequest(reports=pb.Reports(heartbeat=heartbeat))

    async def requests():
        session.end(Unavailable("another replica serves the namespace"))
        yield request

    await reader.read(requests())
    assert written.acknowledged == []
