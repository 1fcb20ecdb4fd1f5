"""Connect, breaks (runtime_host.proto, Connect; DESIGN, The host stream): what lives on, for how long, and for whom."""

import asyncio

import grpc
import pytest

from taskyard.v1 import lease_pb2
from taskyard.v1 import runtime_host_pb2 as pb
from taskyard_server.core.leases import Lease
from tests.services.host_streams import named, report, turns


async def work_on(yard, stream, count):
    """So many tasks that the host has begun."""
    await yard.submit_many(count)
    tasks = await stream.tasks(count)
    await stream.report(*(report(task, started=True) for task in tasks))
    return tasks


@pytest.fixture(params=["cut", "left"])
def part(request, yard):
    """Ends a stream, in one way and in the other, and waits until the server knows."""

    async def end(stream):
        if request.param == "left":
            await stream.leave()
        else:
            stream.call.cancel()
        while (await yard.host(stream.host_id)).HasField("instance"):
            await turns()

    return end


async def test_a_host_that_is_back_in_time_keeps_what_it_lists_and_loses_what_it_does_not(yard, part):
    stream = await yard.connect(credit=2)
    kept, left_out = await work_on(yard, stream, 2)
    await part(stream)
    await yard.pass_time(4.5)
    back = yard.stream()
    welcome = await back.hello(leases=[named(kept), named(("tsk_gone", 1)), named((kept.task.task_id, 7))])
    (lease,) = welcome.kept
    assert named(lease) == named(kept)
    assert list(welcome.lost) == [named(("tsk_gone", 1)), named((kept.task.task_id, 7))]
    assert await yard.leased() == [(kept.task.task_id, "host", 1)]
    assert await yard.state(left_out.task.task_id) == "queued"
    assert await back.told(left_out, completed=True) == "lease_lost"
    assert await back.told(kept, completed=True) == "done"


async def test_a_kept_lease_is_renewed_and_outlives_the_grace(yard, part):
    stream = await yard.connect(credit=1)
    (task,) = await work_on(yard, stream, 1)
    await part(stream)
    await yard.pass_time(4)
    back = yard.stream()
    (lease,) = (await back.hello(leases=[named(task)])).kept
    assert lease.expires_at.ToNanoseconds() / 1e9 == pytest.approx(yard.clock.now + 60, abs=1e-5)
    for _ in range(3):
        await yard.pass_time(19)
        assert not (await back.beat(task)).lost
    assert await back.told(task, completed=True) == "done"


async def test_of_two_tokens_of_a_task_the_live_one_is_kept_whatever_the_order(yard, part):
    stream = await yard.connect(credit=2)
    await yard.submit()
    await stream.told(await stream.task(), released=True)
    task = await stream.task()
    await stream.told(task, started=True)
    await part(stream)
    old, new = (task.task.task_id, 1), (task.task.task_id, 2)
    welcome = await yard.stream().hello(leases=[named(new), named(old)])
    assert [named(lease) for lease in welcome.kept] == [named(new)]
    assert list(welcome.lost) == [named(old)]


async def test_a_host_that_is_not_back_in_time_loses_all_and_the_work_starts_elsewhere(yard, part):
    stream = await yard.connect("lost", credit=1)
    (task,) = await work_on(yard, stream, 1)
    other = await yard.connect("other", credit=1)
    await part(stream)
    await yard.pass_time(4.8)
    await other.is_quiet()
    await yard.pass_time(0.4)
    again = await other.task()
    assert (again.task.task_id, again.lease.fencing_token) == (task.task.task_id, 2)
    back = yard.stream("lost")
    welcome = await back.hello(leases=[named(task)])
    assert not welcome.kept
    assert list(welcome.lost) == [named(task)]
    assert await back.told(task, completed=True) == "lease_lost"
    assert await other.told(again, completed=True) == "done"


async def test_leases_never_outlive_their_own_end_by_a_break(open_yard, still):
    yard = await open_yard(still, reconnect_grace_secs=50.0)
    stream = await yard.connect(credit=1, lease_secs=2)
    (task,) = await work_on(yard, stream, 1)
    await stream.leave()
    await yard.pass_time(2.3)
    assert await yard.state(task.task.task_id) == "queued"


async def test_a_task_that_was_not_begun_before_a_break_does_not_count_as_a_delivery(open_yard, still):
    yard = await open_yard(still, max_deliveries=1)
    stream = await yard.connect(credit=1)
    task_id = await yard.submit()
    await stream.task()
    await stream.leave()
    await yard.pass_time(5.3)
    assert await yard.state(task_id) == "queued"


async def test_a_begun_task_that_a_break_ends_counts_as_a_delivery(open_yard, still):
    yard = await open_yard(still, max_deliveries=1)
    stream = await yard.connect(credit=1)
    (task,) = await work_on(yard, stream, 1)
    await stream.leave()
    await yard.pass_time(5.3)
    assert await yard.state(task.task.task_id) == "failed"
    assert (await yard.get(task.task.task_id)).error == "lease expired"


async def test_a_task_that_was_not_begun_has_its_whole_time_to_start_after_an_adoption(yard, part):
    stream = await yard.connect(credit=1)
    await yard.submit()
    task = await stream.task()
    await yard.pass_time(9)
    await part(stream)
    back = yard.stream()
    await back.hello(leases=[named(task)])
    await yard.pass_time(9)
    assert await back.told(task, started=True) == "running"


async def test_leases_by_calls_live_on_over_a_break_by_themselves(yard, part):
    stream = await yard.connect()
    await yard.submit()
    claim = await yard.leases.ClaimTask(lease_pb2.ClaimTaskRequest(host_id="host"))
    await part(stream)
    await yard.pass_time(30)
    assert not (await yard.stream().hello()).kept
    assert await yard.leased() == [(claim.task_id, "host", 1)]


async def test_reports_by_calls_are_taken_while_the_stream_is_broken(yard, part):
    stream = await yard.connect(credit=1)
    (task,) = await work_on(yard, stream, 1)
    await part(stream)
    about = {"host_id": "host", "task_id": task.task.task_id, "fencing_token": 1}
    await yard.leases.CompleteTask(lease_pb2.CompleteTaskRequest(**about))
    assert await yard.state(task.task.task_id) == "done"


async def test_half_closing_lets_the_host_hear_the_answers_to_what_it_said(yard):
    stream = await yard.connect(credit=3)
    tasks = await work_on(yard, stream, 3)
    for task in tasks:
        await stream.say(reports=pb.Reports(reports=[report(task, completed=True)]))
    await stream.call.done_writing()
    for _ in tasks:
        await stream.hear("report_results")
    assert await stream.call.read() is grpc.aio.EOF
    assert await stream.call.code() == grpc.StatusCode.OK
    assert not yard.leftovers()


async def test_a_host_that_left_is_handed_nothing(yard, part):
    stream = await yard.connect(credit=3)
    await part(stream)
    task_id = await yard.submit()
    assert await yard.state(task_id) == "queued"
    assert not yard.leftovers()


# A second stream of the same instance


async def test_the_same_instance_supersedes_its_stream_and_its_leases_live_on_in_the_new_one(yard, refused):
    first = await yard.connect(credit=5)
    (task,) = await work_on(yard, first, 1)
    second = yard.stream()
    welcome = await second.hello(leases=[named(task)])
    assert [named(lease) for lease in welcome.kept] == [named(task)]
    refusal = await refused(first.end())
    assert refusal.status is grpc.StatusCode.FAILED_PRECONDITION
    assert (refusal.code, refusal.info.metadata["cause"]) == ("conflict", "superseded")
    await yard.submit()
    await second.is_quiet()
    await yard.pass_time(30)
    assert await second.told(task, completed=True) == "done"
    assert (await yard.host()).instance == "i"


async def test_what_the_new_stream_does_not_list_is_handed_out_anew_at_once(yard, refused):
    first = await yard.connect(credit=1)
    task_id = await yard.submit()
    other = await yard.connect("other", credit=1)
    second = await yard.connect()
    assert (await refused(first.end())).code == "conflict"
    assert (await other.task()).task.task_id == task_id
    await second.is_quiet()


async def test_the_end_of_the_old_stream_does_not_touch_the_leases_of_the_new_one(yard, refused):
    first = await yard.connect(credit=1)
    (task,) = await work_on(yard, first, 1)
    second = yard.stream()
    await second.hello(leases=[named(task)])
    await refused(first.end())
    await yard.pass_time(10)
    assert not (await second.beat(task)).lost
    (lease,) = leases(yard)
    assert lease.stream is not None


def leases(yard) -> list[Lease]:
    return [
        lease
        for host in yard.engine._namespaces.get("default", "namespace").scheduler.hosts
        for lease in host.leases.values()
    ]


async def test_two_hundred_streams_of_one_instance_in_a_row_leave_one(yard, refused):
    stream = await yard.connect(credit=1)
    (task,) = await work_on(yard, stream, 1)
    streams = []
    for _ in range(200):
        streams.append(yard.stream())
        welcome = await streams[-1].hello(leases=[named(task)])
        assert len(welcome.kept) == 1
    last = streams.pop()
    for earlier in (stream, *streams):
        assert (await refused(earlier.end())).code == "conflict"
    assert yard.leftovers() == {"sessions": 1, "groups": 1, "offers": 2}
    assert await last.told(task, completed=True) == "done"
    await last.leave()
    assert not yard.leftovers()


async def test_streams_of_one_instance_opened_all_at_once_leave_one(yard):
    streams = [yard.stream() for _ in range(50)]
    for stream in streams:
        await stream.say(hello=pb.Hello(host_id="host", instance="i"))
        await stream.credit(1)
    for stream in streams:
        await stream.hear("welcome")
    await yard.submit()
    heard = await asyncio.gather(*(stream.call.read() for stream in streams), return_exceptions=True)
    (alive,) = [stream for stream, what in zip(streams, heard, strict=True) if not isinstance(what, grpc.RpcError)]
    assert {what.code() for what in heard if isinstance(what, grpc.RpcError)} == {grpc.StatusCode.FAILED_PRECONDITION}
    await alive.leave()
    assert not yard.leftovers()
