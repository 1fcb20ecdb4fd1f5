"""Connect, the other way round (runtime_host.proto, Cancellations and Drain): work to stop, and hosts to leave."""

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1.runtime_host_pb2 import Cancellation
from tests.services.host_streams import named, report


@pytest.fixture
async def stream(yard):
    """A connected host with room for many."""
    return await yard.connect(credit=100)


async def begun(yard, stream, count=1, **fields):
    """So many tasks that the host has begun."""
    task_ids = [await yard.submit(**fields) for _ in range(count)]
    tasks = await stream.tasks(count)
    assert [task.task.task_id for task in tasks] == task_ids
    await stream.report(*(report(task, started=True) for task in tasks))
    return tasks


def facts(stop):
    return named((stop.task_id, stop.fencing_token)), stop.reason


# Work to stop


async def test_a_cancelled_task_is_to_be_stopped_and_released_is_taken_after_it(yard, stream):
    (task,) = await begun(yard, stream)
    await yard.cancel(task.task.task_id)
    stop = await stream.cancellation()
    assert facts(stop) == (named(task), Cancellation.cancelled)
    assert stop.message == "task cancelled"
    assert await stream.told(task, completed=True) == "lease_lost"
    assert await stream.told(task, released=True) == "cancelled"
    assert await stream.told(task, released=True) == "cancelled"
    await stream.is_quiet()


async def test_a_task_that_was_handed_out_and_not_begun_is_to_be_stopped_too(yard, stream):
    task_id = await yard.submit()
    task = await stream.task()
    await yard.cancel(task_id)
    assert facts(await stream.cancellation()) == (named(task), Cancellation.cancelled)
    assert await stream.told(task, released=True) == "cancelled"


async def test_a_passed_deadline_stops_the_work(yard, stream):
    at = Timestamp(seconds=int(yard.clock.now) + 30)
    (task,) = await begun(yard, stream, deadline=at)
    await yard.pass_time(31.3)
    stop = await stream.cancellation()
    assert facts(stop) == (named(task), Cancellation.deadline_exceeded)
    assert stop.message == "deadline exceeded"
    assert await stream.told(task, released=True) == "failed"
    assert (await yard.get(task.task.task_id)).error == "deadline exceeded"


async def test_many_cancellations_share_a_message(yard, stream):
    tasks = await begun(yard, stream, 5)
    for task in tasks:
        await yard.engine.tasks.cancel("default", task.task.task_id)
    stops = (await stream.hear("cancellations")).cancellations
    assert [facts(stop) for stop in stops] == [(named(task), Cancellation.cancelled) for task in tasks]


async def test_only_the_host_that_holds_the_lease_is_told(yard, stream):
    await stream.leave()
    hosts = [await yard.connect(f"host-{number}", slots=1, credit=1) for number in range(3)]
    for _ in hosts:
        await yard.submit()
    tasks = [await host.task() for host in hosts]
    await yard.cancel(tasks[1].task.task_id)
    assert facts(await hosts[1].cancellation()) == (named(tasks[1]), Cancellation.cancelled)
    for host in (hosts[0], hosts[2]):
        await host.is_quiet()


async def test_a_hosts_own_reports_are_not_told_back_to_it(yard, stream):
    tasks = await begun(yard, stream, 3)
    await stream.report(
        report(tasks[0], completed=True), report(tasks[1], failed="x"), report(tasks[2], completed=True)
    )
    await stream.is_quiet()


async def test_after_an_adoption_the_new_stream_is_told(yard, stream):
    (task,) = await begun(yard, stream)
    await stream.leave()
    back = yard.stream()
    await back.hello(leases=[named(task)])
    await yard.cancel(task.task.task_id)
    assert facts(await back.cancellation()) == (named(task), Cancellation.cancelled)


async def test_what_was_cancelled_over_a_break_is_lost_in_the_welcome(yard, stream):
    (task,) = await begun(yard, stream)
    await stream.leave()
    await yard.cancel(task.task.task_id)
    back = yard.stream()
    welcome = await back.hello(leases=[named(task)])
    assert list(welcome.lost) == [named(task)]
    assert await back.told(task, released=True) == "cancelled"


async def test_work_to_stop_comes_before_work_to_do(yard):
    stream = await yard.connect(credit=2)
    await yard.submit()
    await stream.task()
    await yard.pass_time(10.3)
    assert (await stream.cancellation()).fencing_token == 1
    assert (await stream.task()).lease.fencing_token == 2


# A host that shall leave


async def test_a_drained_host_is_told_and_gets_nothing_new_and_may_finish(yard, stream):
    (task,) = await begun(yard, stream)
    await yard.drain()
    notice = await stream.hear("drain")
    assert notice.reason
    assert not notice.HasField("deadline")
    task_id = await yard.submit()
    await stream.credit(5)
    await stream.is_quiet()
    assert await yard.state(task_id) == "queued"
    assert (await yard.host()).draining
    assert not (await stream.beat(task)).lost
    assert await stream.told(task, completed=True) == "done"
    await stream.leave()


async def test_registering_again_ends_the_drain(yard, stream):
    await yard.drain()
    await stream.hear("drain")
    task_id = await yard.submit()
    await stream.is_quiet()
    await yard.register()
    assert (await stream.task()).task.task_id == task_id
    assert not (await yard.host()).draining


async def test_a_new_stream_registers_and_so_ends_the_drain(yard, stream):
    await yard.drain()
    await stream.hear("drain")
    await stream.leave()
    again = await yard.connect(credit=1)
    await yard.submit()
    assert await again.task()


async def test_deregistering_ends_the_stream_and_requeues_at_once(yard, stream, refused):
    (task,) = await begun(yard, stream)
    other = await yard.connect("other", credit=1)
    await yard.deregister()
    stop = await stream.cancellation()
    assert facts(stop) == (named(task), Cancellation.lease_ended)
    refusal = await refused(stream.end())
    assert refusal.status is grpc.StatusCode.FAILED_PRECONDITION
    assert refusal.code == "conflict"
    assert refusal.info.metadata["cause"] == "deregistered"
    again = await other.task()
    assert (again.task.task_id, again.lease.fencing_token) == (task.task.task_id, 2)
    assert await yard.host() is None


async def test_credit_that_crosses_the_deregistration_is_void(yard, stream, refused):
    """Here it is read after the host is gone and before its stream has ended."""
    engine = yard.engine
    (session,) = engine._namespaces.get("default", "namespace").sessions.values()
    await engine.hosts.deregister("default", "host")
    await engine.hosts.give_credit(session, 10)
    assert await engine.hosts.beat(session, [("tsk_1", 1)]) == [("tsk_1", 1)]
    task_id = await yard.submit()
    assert (await refused(stream.end())).code == "conflict"
    assert await yard.state(task_id) == "queued"
    assert not yard.leftovers()


async def test_a_deregistered_host_may_come_back(yard, stream, refused):
    await yard.deregister()
    assert (await refused(stream.end())).code == "conflict"
    again = await yard.connect(credit=1, instance="another")
    await yard.submit()
    assert await again.task()


# A server that shuts down


async def test_a_server_that_drains_tells_every_host_by_when_to_leave(yard, stream):
    other = await yard.connect("other")
    task = (await begun(yard, stream))[0]
    yard.engine.admin.drain(yard.clock.now + 300)
    for each in (stream, other):
        notice = await each.hear("drain")
        assert notice.reason == "the server shuts down"
        assert notice.deadline.ToNanoseconds() / 1e9 == pytest.approx(yard.clock.now + 300, abs=1e-5)
    await stream.credit(5)
    await stream.is_quiet()
    assert await stream.told(task, completed=True) == "done"


async def test_a_host_that_connects_while_the_server_drains_is_told_after_the_welcome(yard):
    yard.engine.admin.drain(yard.clock.now + 5)
    stream = yard.stream()
    await stream.hello()
    assert (await stream.hear("drain")).reason == "the server shuts down"


async def test_a_server_that_closes_interrupts_what_runs_and_ends_the_streams(yard, stream, refused):
    (task,) = await begun(yard, stream)
    yard.engine.admin.drain(yard.clock.now)
    await stream.hear("drain")
    await yard.engine.admin.close()
    stop = await stream.cancellation()
    assert facts(stop) == (named(task), Cancellation.shutdown)
    refusal = await refused(stream.end())
    assert refusal.status is grpc.StatusCode.UNAVAILABLE
    assert refusal.code == "unavailable"
    assert await yard.state(task.task.task_id) == "paused"
    assert not yard.leftovers()


async def test_no_stream_opens_once_the_server_is_closed(yard, refused):
    await yard.engine.admin.close()
    stream = yard.stream()
    await stream.say(hello=pb.Hello(host_id="host", instance="i"))
    assert (await refused(stream.end())).status is grpc.StatusCode.UNAVAILABLE
    assert not yard.leftovers()


async def test_a_fault_of_the_server_is_told_as_such_and_the_task_is_not_lost(yard, stream, refused, monkeypatch):
    def fail(lease):
        raise ValueError(lease.task.id)

    monkeypatch.setattr("taskyard_server.services.host_connection.encode_assignment", fail)
    task_id = await yard.submit()
    refusal = await refused(stream.end())
    assert refusal.status is grpc.StatusCode.INTERNAL
    assert refusal.message == "internal error"
    assert not yard.leftovers()
    await yard.pass_time(5.3)
    assert await yard.state(task_id) == "queued"
