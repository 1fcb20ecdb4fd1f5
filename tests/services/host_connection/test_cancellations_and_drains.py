"""Connect, cancellations and drains (runtime_host.proto, Cancellations and Drain), by agents and by the server."""

import asyncio

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1.runtime_host_pb2 import Cancellation
from tests.live import live
from tests.services.host_streams import held_lease, report


@pytest.fixture
async def stream(server):
    """A stream with much credit."""
    return await server.connect(credit=100)


async def start_tasks(server, stream, count=1, **fields):
    """Submit `count` tasks and start them at the host."""
    task_ids = [await server.submit(**fields) for _ in range(count)]
    tasks = await stream.tasks(count)
    assert [task.task.task_id for task in tasks] == task_ids
    await stream.report(*(report(task, started=True) for task in tasks))
    return tasks


def lease_and_reason(cancellation):
    return held_lease((cancellation.task_id, cancellation.fencing_token)), cancellation.reason


# Cancellations


async def test_a_cancelled_task_is_sent_as_a_cancellation_and_can_be_released(server, stream):
    (task,) = await start_tasks(server, stream)
    await server.cancel(task.task.task_id)
    cancellation = await stream.cancellation()
    assert lease_and_reason(cancellation) == (held_lease(task), Cancellation.cancelled)
    assert cancellation.message == "task cancelled"
    assert await stream.report_one(task, completed=True) == "lease_lost"
    assert await stream.report_one(task, released=True) == "cancelled"
    assert await stream.report_one(task, released=True) == "cancelled"
    await stream.assert_quiet()


async def test_a_host_is_told_the_reason_that_was_given(server, stream):
    first, second = await start_tasks(server, stream, 2)
    await server.engine.tasks.cancel("default", first.task.task_id, reason="wrong site", show=live)
    assert (await stream.cancellation()).message == "task cancelled: wrong site"
    await server.engine.tasks.pause("default", second.task.task_id, reason="lunch\nbreak", show=live)
    assert (await stream.cancellation()).message == "Job was interrupted by user: lunch break"


@pytest.mark.parametrize("target", [None, "shop"])
async def test_who_waits_is_told_once_the_host_has_released_the_task(server, stream, target):
    (task,) = await start_tasks(server, stream, target=target)
    call = server.engine.tasks.cancel_and_wait("default", task.task.task_id, 30, show=live)
    waiting = asyncio.ensure_future(call)
    assert lease_and_reason(await stream.cancellation()) == (held_lease(task), Cancellation.cancelled)
    assert not waiting.done()
    assert await stream.report_one(task, released=True) == "cancelled"
    assert (await waiting)[-1] == "released"


async def test_a_host_that_comes_back_without_the_task_has_stopped(server, stream):
    (task,) = await start_tasks(server, stream)
    waiting = asyncio.ensure_future(server.engine.tasks.pause_and_wait("default", task.task.task_id, 30, show=live))
    await stream.cancellation()
    await server.connect(credit=1)
    assert (await waiting)[-1] == "released"


async def test_an_assigned_task_that_is_not_started_is_cancelled_too(server, stream):
    task_id = await server.submit()
    task = await stream.task()
    await server.cancel(task_id)
    assert lease_and_reason(await stream.cancellation()) == (held_lease(task), Cancellation.cancelled)
    assert await stream.report_one(task, released=True) == "cancelled"


async def test_an_attempt_that_runs_for_too_long_is_cancelled(server, stream):
    (task,) = await start_tasks(server, stream, run_timeout_ms=2_000)
    for _ in range(3):
        await server.advance(1)
    cancellation = await stream.cancellation()
    assert lease_and_reason(cancellation) == (held_lease(task), Cancellation.timed_out)
    assert cancellation.message == "run timeout of 2000 ms exceeded"
    assert (await server.get(task.task.task_id)).code == "timed_out"


async def test_a_passed_deadline_sends_a_cancellation(server, stream):
    at = Timestamp(seconds=int(server.clock.now) + 30)
    (task,) = await start_tasks(server, stream, deadline=at)
    await server.advance(31.3)
    cancellation = await stream.cancellation()
    assert lease_and_reason(cancellation) == (held_lease(task), Cancellation.deadline_exceeded)
    assert cancellation.message == "deadline exceeded"
    assert await stream.report_one(task, released=True) == "failed"
    assert (await server.get(task.task.task_id)).error == "deadline exceeded"


async def test_many_cancellations_share_a_message(server, stream):
    tasks = await start_tasks(server, stream, 5)
    # In one turn of the event loop.
    await asyncio.gather(*(server.engine.tasks.cancel("default", task.task.task_id, show=live) for task in tasks))
    stops = (await stream.receive("cancellations")).cancellations
    assert [lease_and_reason(cancellation) for cancellation in stops] == [
        (held_lease(task), Cancellation.cancelled) for task in tasks
    ]


async def test_only_the_host_that_holds_the_lease_gets_the_cancellation(server, stream):
    await stream.leave()
    hosts = [await server.connect(f"host-{number}", slots=1, credit=1) for number in range(3)]
    for _ in hosts:
        await server.submit()
    tasks = [await host.task() for host in hosts]
    await server.cancel(tasks[1].task.task_id)
    assert lease_and_reason(await hosts[1].cancellation()) == (held_lease(tasks[1]), Cancellation.cancelled)
    for host in (hosts[0], hosts[2]):
        await host.assert_quiet()


async def test_a_host_gets_no_cancellation_for_its_own_reports(server, stream):
    tasks = await start_tasks(server, stream, 3)
    await stream.report(
        report(tasks[0], completed=True), report(tasks[1], failed="x"), report(tasks[2], completed=True)
    )
    await stream.assert_quiet()


async def test_the_stream_that_adopted_a_lease_gets_its_cancellation(server, stream):
    (task,) = await start_tasks(server, stream)
    await stream.leave()
    back = server.stream()
    await back.hello(leases=[held_lease(task)])
    await server.cancel(task.task.task_id)
    assert lease_and_reason(await back.cancellation()) == (held_lease(task), Cancellation.cancelled)


async def test_a_lease_cancelled_while_disconnected_is_lost_in_the_welcome(server, stream):
    (task,) = await start_tasks(server, stream)
    await stream.leave()
    await server.cancel(task.task.task_id)
    back = server.stream()
    welcome = await back.hello(leases=[held_lease(task)])
    assert list(welcome.lost) == [held_lease(task)]
    assert await back.report_one(task, released=True) == "cancelled"


async def test_cancellations_are_sent_before_assignments(start_server, clock):
    server = await start_server(clock, max_inflight=1)
    stream = await server.connect(credit=2)
    first, _ = await server.submit(), await server.submit()
    await stream.task()
    await server.cancel(first)
    assert (await stream.cancellation()).fencing_token == 1
    assert (await stream.task()).lease.fencing_token == 2


# Drained and deregistered hosts


async def test_a_drained_host_gets_a_notice_and_no_new_tasks_and_can_finish(server, stream):
    (task,) = await start_tasks(server, stream)
    await server.drain()
    notice = await stream.receive("drain")
    assert notice.reason
    assert not notice.HasField("deadline")
    task_id = await server.submit()
    await stream.credit(5)
    await stream.assert_quiet()
    assert await server.state(task_id) == "queued"
    assert (await server.host()).draining
    assert not (await stream.heartbeat(task)).lost
    assert await stream.report_one(task, completed=True) == "done"
    await stream.leave()


async def test_registering_again_ends_the_drain(server, stream):
    await server.drain()
    await stream.receive("drain")
    task_id = await server.submit()
    await stream.assert_quiet()
    await server.register()
    assert (await stream.task()).task.task_id == task_id
    assert not (await server.host()).draining


async def test_a_new_stream_ends_the_drain(server, stream):
    await server.drain()
    await stream.receive("drain")
    await stream.leave()
    again = await server.connect(credit=1)
    await server.submit()
    assert await again.task()


async def test_deregistering_ends_the_stream_and_requeues_at_once(server, stream, refused):
    (task,) = await start_tasks(server, stream)
    other = await server.connect("other", credit=1)
    await server.deregister()
    cancellation = await stream.cancellation()
    assert lease_and_reason(cancellation) == (held_lease(task), Cancellation.lease_ended)
    refusal = await refused(stream.read_to_end())
    assert refusal.status is grpc.StatusCode.FAILED_PRECONDITION
    assert refusal.code == "conflict"
    assert refusal.info.metadata["cause"] == "deregistered"
    again = await other.task()
    assert (again.task.task_id, again.lease.fencing_token) == (task.task.task_id, 2)
    assert await server.host() is None


async def test_credit_read_after_a_deregistration_is_ignored(server, stream, refused):
    """The credit is read between the deregistration and the end of the stream."""
    engine = server.engine
    (session,) = engine._namespaces.get("default", "namespace").sessions.values()
    await engine.hosts.deregister("default", "host")
    await engine.hosts.give_credit(session, 10)
    assert await engine.hosts.beat(session, [("tsk_1", 1)]) is None
    task_id = await server.submit()
    assert (await refused(stream.read_to_end())).code == "conflict"
    assert await server.state(task_id) == "queued"
    assert not server.leftovers()


async def test_a_deregistered_host_can_connect_again(server, stream, refused):
    await server.deregister()
    assert (await refused(stream.read_to_end())).code == "conflict"
    again = await server.connect(credit=1, instance="another")
    await server.submit()
    assert await again.task()


# Shutdown of the server


async def test_a_draining_server_sends_every_host_a_deadline(server, stream):
    other = await server.connect("other")
    task = (await start_tasks(server, stream))[0]
    server.engine.admin.drain(server.clock.now + 300)
    for host_stream in (stream, other):
        notice = await host_stream.receive("drain")
        assert notice.reason == "the server shuts down"
        assert notice.deadline.ToNanoseconds() / 1e9 == pytest.approx(server.clock.now + 300, abs=1e-5)
    await stream.credit(5)
    await stream.assert_quiet()
    assert await stream.report_one(task, completed=True) == "done"


async def test_a_host_that_connects_while_the_server_drains_gets_the_notice_after_the_welcome(server):
    server.engine.admin.drain(server.clock.now + 5)
    stream = server.stream()
    await stream.hello()
    assert (await stream.receive("drain")).reason == "the server shuts down"


async def test_closing_the_server_cancels_running_tasks_and_ends_the_streams(server, stream, refused):
    (task,) = await start_tasks(server, stream)
    server.engine.admin.drain(server.clock.now)
    await stream.receive("drain")
    await server.engine.admin.close()
    cancellation = await stream.cancellation()
    assert lease_and_reason(cancellation) == (held_lease(task), Cancellation.shutdown)
    refusal = await refused(stream.read_to_end())
    assert refusal.status is grpc.StatusCode.UNAVAILABLE
    assert refusal.code == "unavailable"
    assert await server.state(task.task.task_id) == "paused"
    assert not server.leftovers()


async def test_no_stream_opens_once_the_server_is_closed(server, refused):
    await server.engine.admin.close()
    stream = server.stream()
    await stream.send(hello=pb.Hello(host_id="host", instance="i"))
    assert (await refused(stream.read_to_end())).status is grpc.StatusCode.UNAVAILABLE
    assert not server.leftovers()


async def test_an_internal_error_ends_the_stream_and_the_task_is_requeued(start_server, clock, refused, monkeypatch):
    def fail(lease):
        raise ValueError(lease.task.id)

    monkeypatch.setattr("taskyard_server.services.hosts.assignment_encoder", lambda _: fail)
    server = await start_server(clock)
    stream = await server.connect(credit=1)
    task_id = await server.submit()
    refusal = await refused(stream.read_to_end())
    assert refusal.status is grpc.StatusCode.INTERNAL
    assert refusal.message == "internal error"
    assert not server.leftovers()
    await server.advance(5.3)
    assert await server.state(task_id) == "queued"
