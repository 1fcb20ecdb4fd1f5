"""Connect, broken streams (runtime_host.proto, Connect; docs/rules.md, Host stream): which leases continue, how
long."""

import asyncio

import grpc
import pytest

from taskyard.v1 import lease_pb2
from taskyard.v1 import runtime_host_pb2 as pb
from taskyard_server.core.leases import Lease
from tests.services.host_streams import held_lease, report, run_loop


async def start_tasks(server, stream, count):
    """Assign `count` tasks to the host and start them."""
    await server.submit_many(count)
    tasks = await stream.tasks(count)
    await stream.report(*(report(task, started=True) for task in tasks))
    return tasks


@pytest.fixture(params=["cancelled", "closed"])
def disconnect(request, server):
    """Ends a stream by cancellation or by half-close, and waits until the server notices."""

    async def end(stream):
        if request.param == "closed":
            await stream.leave()
        else:
            stream.call.cancel()
        while (await server.host(stream.host_id)).HasField("instance"):
            await run_loop()

    return end


async def test_a_host_that_reconnects_in_time_keeps_the_leases_it_lists_and_loses_the_others(server, disconnect):
    stream = await server.connect(credit=2)
    kept, left_out = await start_tasks(server, stream, 2)
    await disconnect(stream)
    await server.advance(4.5)
    back = server.stream()
    welcome = await back.hello(
        leases=[held_lease(kept), held_lease(("tsk_gone", 1)), held_lease((kept.task.task_id, 7))]
    )
    (lease,) = welcome.kept
    assert held_lease(lease) == held_lease(kept)
    assert list(welcome.lost) == [held_lease(("tsk_gone", 1)), held_lease((kept.task.task_id, 7))]
    assert await server.live_leases() == [(kept.task.task_id, "host", 1)]
    assert await server.state(left_out.task.task_id) == "queued"
    assert await back.report_one(left_out, completed=True) == "lease_lost"
    assert await back.report_one(kept, completed=True) == "done"


async def test_a_kept_lease_is_renewed_and_outlives_the_reconnect_grace(server, disconnect):
    stream = await server.connect(credit=1)
    (task,) = await start_tasks(server, stream, 1)
    await disconnect(stream)
    await server.advance(4)
    back = server.stream()
    (lease,) = (await back.hello(leases=[held_lease(task)])).kept
    assert lease.expires_at.ToNanoseconds() / 1e9 == pytest.approx(server.clock.now + 60, abs=1e-5)
    for _ in range(3):
        await server.advance(19)
        assert not (await back.heartbeat(task)).lost
    assert await back.report_one(task, completed=True) == "done"


async def test_of_two_listed_tokens_of_a_task_the_live_one_is_kept_in_any_order(server, disconnect):
    stream = await server.connect(credit=2)
    await server.submit()
    await stream.report_one(await stream.task(), released=True)
    task = await stream.task()
    await stream.report_one(task, started=True)
    await disconnect(stream)
    old, new = (task.task.task_id, 1), (task.task.task_id, 2)
    welcome = await server.stream().hello(leases=[held_lease(new), held_lease(old)])
    assert [held_lease(lease) for lease in welcome.kept] == [held_lease(new)]
    assert list(welcome.lost) == [held_lease(old)]


async def test_a_host_that_does_not_reconnect_in_time_loses_its_leases_to_another_host(server, disconnect):
    stream = await server.connect("lost", credit=1)
    (task,) = await start_tasks(server, stream, 1)
    other = await server.connect("other", credit=1)
    await disconnect(stream)
    await server.advance(4.8)
    await other.assert_quiet()
    await server.advance(0.4)
    again = await other.task()
    assert (again.task.task_id, again.lease.fencing_token) == (task.task.task_id, 2)
    back = server.stream("lost")
    welcome = await back.hello(leases=[held_lease(task)])
    assert not welcome.kept
    assert list(welcome.lost) == [held_lease(task)]
    assert await back.report_one(task, completed=True) == "lease_lost"
    assert await other.report_one(again, completed=True) == "done"


async def test_a_broken_stream_does_not_extend_leases(start_server, clock):
    server = await start_server(clock, reconnect_grace_secs=50.0)
    stream = await server.connect(credit=1, lease_secs=2)
    (task,) = await start_tasks(server, stream, 1)
    await stream.leave()
    await server.advance(2.3)
    assert await server.state(task.task.task_id) == "queued"


async def test_an_assigned_task_that_a_broken_stream_ends_does_not_count_as_a_delivery(start_server, clock):
    server = await start_server(clock, max_deliveries=1)
    stream = await server.connect(credit=1)
    task_id = await server.submit()
    await stream.task()
    await stream.leave()
    await server.advance(5.3)
    assert await server.state(task_id) == "queued"


async def test_a_started_task_that_a_broken_stream_ends_counts_as_a_delivery(start_server, clock):
    server = await start_server(clock, max_deliveries=1)
    stream = await server.connect(credit=1)
    (task,) = await start_tasks(server, stream, 1)
    await stream.leave()
    await server.advance(5.3)
    assert await server.state(task.task.task_id) == "failed"
    assert (await server.get(task.task.task_id)).error == "lease expired"


async def test_an_adopted_task_that_is_not_started_gets_the_full_start_timeout_again(server, disconnect):
    stream = await server.connect(credit=1)
    await server.submit()
    task = await stream.task()
    await server.advance(9)
    await disconnect(stream)
    back = server.stream()
    await back.hello(leases=[held_lease(task)])
    await server.advance(9)
    assert await back.report_one(task, started=True) == "running"


async def test_leases_claimed_by_calls_are_not_affected_by_a_broken_stream(server, disconnect):
    stream = await server.connect()
    await server.submit()
    claim = await server.leases.ClaimTask(lease_pb2.ClaimTaskRequest(host_id="host"))
    await disconnect(stream)
    await server.advance(30)
    assert not (await server.stream().hello()).kept
    assert await server.live_leases() == [(claim.task_id, "host", 1)]


async def test_reports_by_calls_are_accepted_while_the_stream_is_broken(server, disconnect):
    stream = await server.connect(credit=1)
    (task,) = await start_tasks(server, stream, 1)
    await disconnect(stream)
    fields = {"host_id": "host", "task_id": task.task.task_id, "fencing_token": 1}
    await server.leases.CompleteTask(lease_pb2.CompleteTaskRequest(**fields))
    assert await server.state(task.task.task_id) == "done"


async def test_a_half_closed_stream_delivers_the_pending_responses(server):
    stream = await server.connect(credit=3)
    tasks = await start_tasks(server, stream, 3)
    for task in tasks:
        await stream.send(reports=pb.Reports(reports=[report(task, completed=True)]))
    await stream.call.done_writing()
    for _ in tasks:
        await stream.receive("report_results")
    assert await stream.call.read() is grpc.aio.EOF
    assert await stream.call.code() == grpc.StatusCode.OK
    assert not server.leftovers()


async def test_a_disconnected_host_gets_no_tasks(server, disconnect):
    stream = await server.connect(credit=3)
    await disconnect(stream)
    task_id = await server.submit()
    assert await server.state(task_id) == "queued"
    assert not server.leftovers()


# Superseded streams


async def test_a_new_stream_of_the_instance_supersedes_the_old_one_and_keeps_its_leases(server, refused):
    first = await server.connect(credit=5)
    (task,) = await start_tasks(server, first, 1)
    second = server.stream()
    welcome = await second.hello(leases=[held_lease(task)])
    assert [held_lease(lease) for lease in welcome.kept] == [held_lease(task)]
    refusal = await refused(first.read_to_end())
    assert refusal.status is grpc.StatusCode.FAILED_PRECONDITION
    assert (refusal.code, refusal.info.metadata["cause"]) == ("conflict", "superseded")
    await server.submit()
    await second.assert_quiet()
    await server.advance(30)
    assert await second.report_one(task, completed=True) == "done"
    assert (await server.host()).instance == "i"


async def test_a_lease_that_the_new_stream_does_not_list_is_requeued_at_once(server, refused):
    first = await server.connect(credit=1)
    task_id = await server.submit()
    other = await server.connect("other", credit=1)
    second = await server.connect()
    assert (await refused(first.read_to_end())).code == "conflict"
    assert (await other.task()).task.task_id == task_id
    await second.assert_quiet()


async def test_the_end_of_the_old_stream_does_not_touch_the_leases_of_the_new_one(server, refused):
    first = await server.connect(credit=1)
    (task,) = await start_tasks(server, first, 1)
    second = server.stream()
    await second.hello(leases=[held_lease(task)])
    await refused(first.read_to_end())
    await server.advance(10)
    assert not (await second.heartbeat(task)).lost
    (lease,) = live_lease_objects(server)
    assert lease.stream is not None


def live_lease_objects(server) -> list[Lease]:
    return [
        lease
        for host in server.engine._namespaces.get("default", "namespace").scheduler.hosts
        for lease in host.leases.values()
    ]


async def test_two_hundred_streams_of_one_instance_in_sequence_leave_one(server, refused):
    stream = await server.connect(credit=1)
    (task,) = await start_tasks(server, stream, 1)
    streams = []
    for _ in range(200):
        streams.append(server.stream())
        welcome = await streams[-1].hello(leases=[held_lease(task)])
        assert len(welcome.kept) == 1
    last = streams.pop()
    for earlier in (stream, *streams):
        assert (await refused(earlier.read_to_end())).code == "conflict"
    assert server.leftovers() == {"sessions": 1, "groups": 1, "offers": 2}
    assert await last.report_one(task, completed=True) == "done"
    await last.leave()
    assert not server.leftovers()


async def test_streams_of_one_instance_opened_together_leave_one(server):
    streams = [server.stream() for _ in range(50)]
    for stream in streams:
        await stream.send(hello=pb.Hello(host_id="host", instance="i"))
        await stream.credit(1)
    for stream in streams:
        await stream.receive("welcome")
    await server.submit()
    outcomes = await asyncio.gather(*(stream.call.read() for stream in streams), return_exceptions=True)
    (alive,) = [
        stream for stream, outcome in zip(streams, outcomes, strict=True) if not isinstance(outcome, grpc.RpcError)
    ]
    assert {outcome.code() for outcome in outcomes if isinstance(outcome, grpc.RpcError)} == {
        grpc.StatusCode.FAILED_PRECONDITION
    }
    await alive.leave()
    assert not server.leftovers()
