"""Connect, dispatch (runtime_host.proto, Credit and Assignments): within the credit, without delay, and in order."""

import asyncio
from collections import Counter

import pytest
from google.protobuf.struct_pb2 import Struct, Value

from taskyard.v1 import lease_pb2, task_pb2
from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1.task_pb2 import Task
from taskyard_server.core.task import Submission
from tests import reporting
from tests.live import live
from tests.waiting import until

MAX_CREDIT = 2**32 - 1


def params(size):
    return Struct(fields={"x": Value(string_value="x" * size)})


def ids(assignments):
    return [assignment.task.task_id for assignment in assignments]


# Credit


async def test_a_stream_starts_without_credit(server):
    stream = await server.connect()
    task_id = await server.submit()
    await stream.assert_quiet()
    assert await server.state(task_id) == "queued"
    await stream.credit(1)
    assert ids([await stream.task()]) == [task_id]


async def test_a_stream_gets_no_more_tasks_than_its_credit(server):
    stream = await server.connect(credit=3)
    task_ids = await server.submit_many(5)
    assert ids(await stream.tasks(3)) == task_ids[:3]
    await stream.assert_quiet()
    assert [await server.state(task_id) for task_id in task_ids[3:]] == ["queued", "queued"]


async def test_credit_adds_up(server):
    stream = await server.connect()
    for count in (1, 2, 0, 3):
        await stream.credit(count)
    task_ids = await server.submit_many(8)
    assert ids(await stream.tasks(6)) == task_ids[:6]
    await stream.assert_quiet()


async def test_the_end_of_a_task_returns_no_credit(server):
    stream = await server.connect(credit=1)
    await server.submit_many(2)
    assert await stream.report_one(await stream.task(), completed=True) == "done"
    await stream.assert_quiet()
    await stream.credit(1)
    await stream.task()


async def test_credit_limits_assignments_and_slots_do_not(server):
    stream = await server.connect(slots=1, credit=3)
    task_ids = await server.submit_many(4)
    assert ids(await stream.tasks(3)) == task_ids[:3]


async def test_a_new_stream_of_the_same_host_starts_without_credit(server):
    await server.connect(credit=5)
    again = await server.connect()
    await server.submit()
    await again.assert_quiet()


async def test_the_maximum_credit_is_accepted_twice(server):
    stream = await server.connect()
    await stream.credit(MAX_CREDIT)
    await stream.credit(MAX_CREDIT)
    task_ids = await server.submit_many(120)
    assert ids(await stream.tasks(120)) == task_ids


async def test_a_task_that_ends_before_it_is_sent_uses_no_credit(server):
    stream = await server.connect(credit=1)
    first = await granted_but_not_sent(server)
    await server.engine.tasks.cancel("default", first, show=live)
    second = await server.submit()
    assert ids([await stream.task()]) == [second]
    await stream.assert_quiet()


async def test_a_task_that_its_host_ends_by_a_call_before_it_is_sent_uses_no_credit(server):
    stream = await server.connect(credit=1)
    first = await granted_but_not_sent(server)
    await reporting.complete(server.engine, "default", "host", first, 1, None)
    second = await server.submit()
    assert ids([await stream.task()]) == [second]
    await stream.assert_quiet()


async def granted_but_not_sent(server):
    """The id of a task granted in this turn of the event loop, so that the stream has not sent it yet."""
    (task,) = server.engine.tasks.submit_each("default", [Submission("ann", "click")], show=list).value
    server.engine._namespaces.driver.flush()
    assert task.lease
    return task.id


# Assignments


async def test_an_assignment_holds_the_lease_and_the_whole_task(server):
    stream = await server.connect(credit=1, capabilities=["gpu", "browser"])
    task_id = await server.submit(
        params=params(10), priority=-2, tab_id="tab", ref="e1", requires=["gpu"], labels={"a": "b"}
    )
    assignment = await stream.task()
    assert assignment.task == await server.get(task_id)
    assert Task.State.Name(assignment.task.state) == "assigned"
    assert assignment.task.params["x"] == "x" * 10
    assert assignment.lease.task_id == task_id
    assert assignment.lease.host_id == "host"
    assert assignment.lease.fencing_token == 1
    assert assignment.lease.lease_secs == 60
    assert await server.live_leases() == [(task_id, "host", 1)]


async def test_a_host_gets_only_tasks_that_it_may_run(server):
    stream = await server.connect(capabilities=["gpu"], project="p", actions=["click"], credit=9)
    matching = await server.submit(project="p", requires=["gpu"])
    for other in ({"project": "q"}, {"project": "p", "action": "type"}, {"project": "p", "requires": ["tpu"]}):
        await server.submit(**other)
    assert ids([await stream.task()]) == [matching]
    await stream.assert_quiet()


async def test_registering_by_a_call_changes_which_tasks_the_stream_gets(server):
    stream = await server.connect(credit=9)
    task_id = await server.submit(requires=["gpu"])
    await stream.assert_quiet()
    await server.register(capabilities=["gpu"])
    assert ids([await stream.task()]) == [task_id]


# Delay and message sizes


async def test_a_waiting_host_gets_a_task_while_no_time_passes(server):
    stream = await server.connect(credit=5)
    before = server.clock.now
    for _ in range(5):
        task_id = await server.submit()
        assert ids([await stream.task()]) == [task_id]
    assert server.clock.now == before


async def test_up_to_fifty_tasks_share_a_message(server):
    task_ids = await server.submit_many(120)
    stream = await server.connect()
    await stream.credit(1000)
    sizes, received = [], []
    while len(received) < 120:
        assignments = (await stream.receive("assignments")).assignments
        sizes.append(len(assignments))
        received += ids(assignments)
    assert received == task_ids
    assert sizes == [50, 50, 20]


async def test_a_message_of_large_tasks_is_limited_in_bytes(server):
    task_ids = []
    for _ in range(12):
        task_ids.append(await server.submit(params=params(200_000)))
    stream = await server.connect()
    await stream.credit(12)
    received, largest = [], 0
    while len(received) < 12:
        message = await stream.read_message()
        largest = max(largest, message.ByteSize())
        assert len(message.assignments.assignments) > 1
        received += ids(message.assignments.assignments)
    assert received == task_ids
    assert largest <= 1_000_000


async def test_a_task_larger_than_the_limit_is_alone_in_its_message(start_server, clock):
    server = await start_server(clock, max_payload_bytes=2_000_000)
    task_ids = [await server.submit(params=params(1_500_000)) for _ in range(2)]
    stream = await server.connect()
    await stream.credit(2)
    for task_id in task_ids:
        assert ids((await stream.receive("assignments")).assignments) == [task_id]


async def test_tasks_are_sent_between_the_results_of_a_host_that_reports_without_pause(start_server):
    server = await start_server()
    stream = await server.connect(credit=1)
    done = asyncio.Event()

    async def flood():
        while not done.is_set():
            await stream.send(reports=pb.Reports(reports=[pb.Report(task_id="x", fencing_token=1)] * 20))

    flooding = asyncio.create_task(flood())
    for _ in range(20):
        await stream.read_message()
    submitting = asyncio.create_task(server.submit())
    while (await stream.read_message()).WhichOneof("message") != "assignments":
        pass
    done.set()
    await submitting
    await flooding


# Order among hosts and agents


async def test_the_host_with_the_lowest_share_of_used_slots_comes_first(server):
    streams = {name: await server.connect(name, slots=slots) for name, slots in (("small", 2), ("large", 8))}
    for stream in streams.values():
        await stream.credit(20)
        await stream.assert_quiet()
    await server.submit_many(10)
    received = Counter(host_id for _, host_id, _ in await server.live_leases())
    assert received == {"small": 2, "large": 8}


async def test_hosts_of_equal_load_take_turns(server):
    streams = [await server.connect(f"host-{number}", slots=10, credit=10) for number in range(3)]
    task_ids = [await server.submit() for _ in range(9)]
    for number, stream in enumerate(streams):
        assert ids(await stream.tasks(3)) == task_ids[number::3]


async def test_agents_take_turns_on_a_stream(server):
    for agent in ("ann", "bob"):
        await server.submit_many(3, agent_id=agent)
    stream = await server.connect()
    await stream.credit(6)
    agents = [assignment.task.agent_id for assignment in await stream.tasks(6)]
    assert agents == ["ann", "bob"] * 3


async def test_a_host_can_use_a_stream_and_calls_together(server):
    stream = await server.connect(credit=1)
    first, second = await server.submit_many(2)
    by_stream = await stream.task()
    by_call = await server.leases.ClaimTask(lease_pb2.ClaimTaskRequest(host_id="host"))
    assert (by_stream.task.task_id, by_call.task_id) == (first, second)
    lease_fields = {"host_id": "host", "task_id": first, "fencing_token": 1}
    await server.leases.RenewLease(lease_pb2.RenewLeaseRequest(**lease_fields, lease_secs=90))
    await server.leases.CompleteTask(lease_pb2.CompleteTaskRequest(**lease_fields))
    assert await stream.report_one((second, 2), completed=True) == "done"
    assert [await server.state(task_id) for task_id in (first, second)] == ["done", "done"]
    await stream.assert_quiet()
    assert not await server.live_leases()


async def test_a_waiting_claim_and_a_stream_of_one_host_both_get_tasks(server):
    stream = await server.connect(credit=1)
    waiting = asyncio.ensure_future(server.leases.ClaimTask(lease_pb2.ClaimTaskRequest(host_id="host", wait_ms=50_000)))
    await until(lambda: server.engine._namespaces.get("default", "namespace").claims)
    task_ids = await server.submit_many(2)
    received_ids = {(await stream.task()).task.task_id, (await waiting).task_id}
    assert received_ids == set(task_ids)


@pytest.mark.parametrize("limit", ["max_inflight", "max_per_agent_inflight"])
async def test_limits_apply_to_streams_and_freed_capacity_is_used_at_once(start_server, clock, limit):
    server = await start_server(clock, **{limit: 2})
    stream = await server.connect(credit=9)
    task_ids = await server.submit_many(3)
    first, second = await stream.tasks(2)
    await stream.assert_quiet()
    await stream.send(reports=pb.Reports(reports=[pb.Report(**lease_fields(second), completed=pb.TaskCompleted())]))
    kinds = {
        (await stream.read_message()).WhichOneof("message"): None,
        (await stream.read_message()).WhichOneof("message"): None,
    }
    assert set(kinds) == {"report_results", "assignments"}
    assert await server.state(task_ids[2]) == "assigned"
    assert await stream.report_one(first, completed=True) == "done"


def lease_fields(assignment):
    return {"task_id": assignment.task.task_id, "fencing_token": assignment.lease.fencing_token}


async def test_a_silent_host_gets_no_tasks_until_its_next_heartbeat(server):
    stream = await server.connect(credit=2)
    await server.advance(41)
    task_id = await server.submit()
    assert await server.state(task_id) == "queued"
    await stream.send(heartbeat=pb.Heartbeat(sequence=1))
    kinds = {(await stream.read_message()).WhichOneof("message") for _ in range(2)}
    assert kinds == {"heartbeat_ack", "assignments"}


async def test_a_task_goes_to_a_live_host_instead_of_a_silent_one(server):
    await server.connect("silent", credit=5)
    await server.advance(41)
    alive = await server.connect("alive", credit=5)
    task_id = await server.submit()
    assert ids([await alive.task()]) == [task_id]


async def test_a_long_message_of_tasks_is_answered_with_their_states_at_admission(server):
    stream = await server.connect("host", credit=300)
    await server.submit()
    await stream.task()
    call = server.tasks.SubmitTasks()
    tasks = [task_pb2.SubmitTaskRequest(agent_id="ann", action="click") for _ in range(250)]
    await call.write(task_pb2.SubmitTasksRequest(tasks=tasks))
    outcomes = (await call.read()).outcomes
    assert [Task.State.Name(outcome.accepted.state) for outcome in outcomes] == ["queued"] * 250
