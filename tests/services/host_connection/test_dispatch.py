"""Connect, the hand-out (runtime_host.proto, Credit and Assignments): within the credit, soon, and in order."""

import asyncio
import time
from collections import Counter

import pytest
from google.protobuf.struct_pb2 import Struct, Value

from taskyard.v1 import lease_pb2, task_pb2
from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1.task_pb2 import Task
from taskyard_server.core.task import Submission
from tests import reporting

MOST_CREDIT = 2**32 - 1


def params(size):
    return Struct(fields={"x": Value(string_value="x" * size)})


def ids(assignments):
    return [assignment.task.task_id for assignment in assignments]


# Credit


async def test_a_stream_begins_without_credit(yard):
    stream = await yard.connect()
    task_id = await yard.submit()
    await stream.is_quiet()
    assert await yard.state(task_id) == "queued"
    await stream.credit(1)
    assert ids([await stream.task()]) == [task_id]


async def test_never_more_is_handed_out_than_the_credit(yard):
    stream = await yard.connect(credit=3)
    task_ids = await yard.submit_many(5)
    assert ids(await stream.tasks(3)) == task_ids[:3]
    await stream.is_quiet()
    assert [await yard.state(task_id) for task_id in task_ids[3:]] == ["queued", "queued"]


async def test_credit_adds_up(yard):
    stream = await yard.connect()
    for count in (1, 2, 0, 3):
        await stream.credit(count)
    task_ids = await yard.submit_many(8)
    assert ids(await stream.tasks(6)) == task_ids[:6]
    await stream.is_quiet()


async def test_the_end_of_a_task_gives_no_credit(yard):
    stream = await yard.connect(credit=1)
    await yard.submit_many(2)
    assert await stream.told(await stream.task(), completed=True) == "done"
    await stream.is_quiet()
    await stream.credit(1)
    await stream.task()


async def test_slots_are_for_display_and_credit_alone_decides(yard):
    stream = await yard.connect(slots=1, credit=3)
    task_ids = await yard.submit_many(4)
    assert ids(await stream.tasks(3)) == task_ids[:3]


async def test_a_new_stream_of_the_same_host_begins_without_credit(yard):
    await yard.connect(credit=5)
    again = await yard.connect()
    await yard.submit()
    await again.is_quiet()


async def test_the_largest_credit_twice_over_is_taken_as_it_is(yard):
    stream = await yard.connect()
    await stream.credit(MOST_CREDIT)
    await stream.credit(MOST_CREDIT)
    task_ids = await yard.submit_many(120)
    assert ids(await stream.tasks(120)) == task_ids


async def test_a_task_that_ends_before_the_host_hears_of_it_uses_no_credit(yard):
    stream = await yard.connect(credit=1)
    first = await handed_but_unsaid(yard)
    await yard.engine.tasks.cancel("default", first)
    second = await yard.submit()
    assert ids([await stream.task()]) == [second]
    await stream.is_quiet()


async def test_a_task_that_its_host_ends_by_a_call_before_it_hears_of_it_uses_no_credit(yard):
    stream = await yard.connect(credit=1)
    first = await handed_but_unsaid(yard)
    await reporting.complete(yard.engine, "default", "host", first, 1, None)
    second = await yard.submit()
    assert ids([await stream.task()]) == [second]
    await stream.is_quiet()


async def handed_but_unsaid(yard):
    """The id of a task that was handed out in this very turn of the loop, so that its stream could not say it yet."""
    task = await yard.engine.tasks.submit("default", Submission("ann", "click"))
    yard.engine._namespaces.driver.flush()
    assert task.lease
    return task.id


# What an assignment holds


async def test_an_assignment_is_the_lease_with_the_task_as_it_was_submitted(yard):
    stream = await yard.connect(credit=1, capabilities=["gpu", "browser"])
    task_id = await yard.submit(
        params=params(10), priority=-2, tab_id="tab", ref="e1", requires=["gpu"], labels={"a": "b"}
    )
    assignment = await stream.task()
    assert assignment.task == await yard.get(task_id)
    assert Task.State.Name(assignment.task.state) == "assigned"
    assert assignment.task.params["x"] == "x" * 10
    assert assignment.lease.task_id == task_id
    assert assignment.lease.host_id == "host"
    assert assignment.lease.fencing_token == 1
    assert assignment.lease.lease_secs == 60
    assert await yard.leased() == [(task_id, "host", 1)]


async def test_only_tasks_come_that_the_host_may_run(yard):
    stream = await yard.connect(capabilities=["gpu"], project="p", actions=["click"], credit=9)
    wanted = await yard.submit(project="p", requires=["gpu"])
    for other in ({"project": "q"}, {"project": "p", "action": "type"}, {"project": "p", "requires": ["tpu"]}):
        await yard.submit(**other)
    assert ids([await stream.task()]) == [wanted]
    await stream.is_quiet()


async def test_registering_by_a_call_changes_what_the_stream_is_handed(yard):
    stream = await yard.connect(credit=9)
    task_id = await yard.submit(requires=["gpu"])
    await stream.is_quiet()
    await yard.register(capabilities=["gpu"])
    assert ids([await stream.task()]) == [task_id]


# How soon, and how many at once


async def test_a_waiting_host_has_the_task_in_milliseconds(open_yard):
    yard = await open_yard()
    stream = await yard.connect(credit=50)
    took = []
    for _ in range(50):
        begin = time.perf_counter()
        await yard.submit()
        await stream.task()
        took.append(time.perf_counter() - begin)
    assert sorted(took)[25] < 0.02


async def test_many_tasks_share_a_message_up_to_fifty(yard):
    task_ids = await yard.submit_many(120)
    stream = await yard.connect()
    await stream.credit(1000)
    sizes, handed = [], []
    while len(handed) < 120:
        assignments = (await stream.hear("assignments")).assignments
        sizes.append(len(assignments))
        handed += ids(assignments)
    assert handed == task_ids
    assert sizes == [50, 50, 20]


async def test_a_message_of_large_tasks_is_bounded_by_bytes(yard):
    task_ids = []
    for _ in range(12):
        task_ids.append(await yard.submit(params=params(200_000)))
    stream = await yard.connect()
    await stream.credit(12)
    handed, largest = [], 0
    while len(handed) < 12:
        message = await stream.next()
        largest = max(largest, message.ByteSize())
        assert len(message.assignments.assignments) > 1
        handed += ids(message.assignments.assignments)
    assert handed == task_ids
    assert largest <= 1_000_000


async def test_a_lone_task_larger_than_the_bound_comes_in_a_message_of_its_own(open_yard, still):
    yard = await open_yard(still, max_payload_bytes=2_000_000)
    task_ids = [await yard.submit(params=params(1_500_000)) for _ in range(2)]
    stream = await yard.connect()
    await stream.credit(2)
    for task_id in task_ids:
        assert ids((await stream.hear("assignments")).assignments) == [task_id]


async def test_tasks_come_between_the_answers_of_a_host_that_never_stops_reporting(open_yard):
    yard = await open_yard()
    stream = await yard.connect(credit=1)
    done = asyncio.Event()

    async def flood():
        while not done.is_set():
            await stream.say(reports=pb.Reports(reports=[pb.Report(task_id="x", fencing_token=1)] * 20))

    flooding = asyncio.create_task(flood())
    for _ in range(20):
        await stream.next()
    begin = time.perf_counter()
    submitting = asyncio.create_task(yard.submit())
    while (await stream.next()).WhichOneof("message") != "assignments":
        pass
    took = time.perf_counter() - begin
    done.set()
    await submitting
    await flooding
    assert took < 2


# Whose turn it is


async def test_the_least_loaded_host_by_share_of_its_slots_comes_first(yard):
    streams = {name: await yard.connect(name, slots=slots) for name, slots in (("small", 2), ("large", 8))}
    for stream in streams.values():
        await stream.credit(20)
        await stream.is_quiet()
    await yard.submit_many(10)
    handed = Counter(host_id for _, host_id, _ in await yard.leased())
    assert handed == {"small": 2, "large": 8}


async def test_hosts_of_equal_load_take_turns(yard):
    streams = [await yard.connect(f"host-{number}", slots=10, credit=10) for number in range(3)]
    task_ids = [await yard.submit() for _ in range(9)]
    for number, stream in enumerate(streams):
        assert ids(await stream.tasks(3)) == task_ids[number::3]


async def test_agents_take_turns_on_a_stream_as_they_do_by_calls(yard):
    for agent in ("ann", "bob"):
        await yard.submit_many(3, agent_id=agent)
    stream = await yard.connect()
    await stream.credit(6)
    agents = [assignment.task.agent_id for assignment in await stream.tasks(6)]
    assert agents == ["ann", "bob"] * 3


async def test_a_stream_and_the_calls_of_the_same_host_go_side_by_side(yard):
    stream = await yard.connect(credit=1)
    first, second = await yard.submit_many(2)
    by_stream = await stream.task()
    by_call = await yard.leases.ClaimTask(lease_pb2.ClaimTaskRequest(host_id="host"))
    assert (by_stream.task.task_id, by_call.task_id) == (first, second)
    about = {"host_id": "host", "task_id": first, "fencing_token": 1}
    await yard.leases.RenewLease(lease_pb2.RenewLeaseRequest(**about, lease_secs=90))
    await yard.leases.CompleteTask(lease_pb2.CompleteTaskRequest(**about))
    assert await stream.told((second, 1), completed=True) == "done"
    assert [await yard.state(task_id) for task_id in (first, second)] == ["done", "done"]
    await stream.is_quiet()
    assert not await yard.leased()


async def test_a_claim_that_waits_and_a_stream_of_one_host_share_fairly(yard):
    stream = await yard.connect(credit=1)
    waiting = asyncio.ensure_future(yard.leases.ClaimTask(lease_pb2.ClaimTaskRequest(host_id="host", wait_ms=50_000)))
    while not yard.engine._namespaces.get("default", "namespace").claims:  # noqa: ASYNC110
        await asyncio.sleep(0)
    task_ids = await yard.submit_many(2)
    got = {(await stream.task()).task.task_id, (await waiting).task_id}
    assert got == set(task_ids)


@pytest.mark.parametrize("limit", ["max_inflight", "max_per_agent_inflight"])
async def test_the_limits_hold_on_streams_and_a_freed_place_is_used_at_once(open_yard, still, limit):
    yard = await open_yard(still, **{limit: 2})
    stream = await yard.connect(credit=9)
    task_ids = await yard.submit_many(3)
    first, second = await stream.tasks(2)
    await stream.is_quiet()
    await stream.say(reports=pb.Reports(reports=[pb.Report(**about(second), completed=pb.TaskCompleted())]))
    heard = {(await stream.next()).WhichOneof("message"): None, (await stream.next()).WhichOneof("message"): None}
    assert set(heard) == {"report_results", "assignments"}
    assert await yard.state(task_ids[2]) == "assigned"
    assert await stream.told(first, completed=True) == "done"


def about(assignment):
    return {"task_id": assignment.task.task_id, "fencing_token": assignment.lease.fencing_token}


async def test_a_silent_host_is_handed_nothing_until_it_is_heard_again(yard):
    stream = await yard.connect(credit=2)
    await yard.pass_time(41)
    task_id = await yard.submit()
    assert await yard.state(task_id) == "queued"
    await stream.say(heartbeat=pb.Heartbeat(sequence=1))
    kinds = {(await stream.next()).WhichOneof("message") for _ in range(2)}
    assert kinds == {"heartbeat_ack", "assignments"}


async def test_a_task_that_a_silent_host_cannot_have_goes_to_one_that_lives(yard):
    await yard.connect("silent", credit=5)
    await yard.pass_time(41)
    alive = await yard.connect("alive", credit=5)
    task_id = await yard.submit()
    assert ids([await alive.task()]) == [task_id]


async def test_a_long_message_of_tasks_is_answered_with_their_state_at_admission(yard):
    stream = await yard.connect("host", credit=300)
    await yard.submit()
    await stream.task()
    call = yard.tasks.SubmitTasks()
    asked = [task_pb2.SubmitTaskRequest(agent_id="ann", action="click") for _ in range(250)]
    await call.write(task_pb2.SubmitTasksRequest(tasks=asked))
    outcomes = (await call.read()).outcomes
    assert [Task.State.Name(outcome.accepted.state) for outcome in outcomes] == ["queued"] * 250
