"""Connect, where accepted reports are counted (docs/rules.md, Reports on a stream): answers, credit and heartbeats."""

import pytest

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1.task_pb2 import Task
from taskyard_server.services import host_outbox
from tests.services.host_streams import held_lease, report, serving
from tests.store.gated_store import GatedStore
from tests.waiting import until

MAX_UINT32 = 2**32 - 1


@pytest.fixture(autouse=True)
def count_wait_secs(monkeypatch):
    """A count waits for nothing to come with, but where a test is about that."""
    monkeypatch.setattr(host_outbox, "COUNT_WAIT_SECS", 0)


@pytest.fixture
async def stream(server):
    """A stream with much credit, whose accepted reports are counted."""
    return await server.connect(credit=100, counts_accepted=True)


async def send(stream, *reports, **fields):
    await stream.send(reports=pb.Reports(reports=reports, **fields))


async def answers(stream, count):
    """The answers to `count` reports: numbers of accepted ones, and lists of codes. Other messages are passed over."""
    parts = []
    while count > 0:
        message = await stream.read_message()
        if message.accepted_reports:
            count -= message.accepted_reports
            parts.append(message.accepted_reports)
        if message.report_results.results:
            count -= len(message.report_results.results)
            parts.append([result.error.code for result in message.report_results.results])
    assert count == 0
    return parts


async def running(server, stream, count=1):
    """Tasks that the host has started."""
    await server.submit_many(count)
    tasks = await stream.tasks(count)
    await send(stream, *(report(task, started=True) for task in tasks))
    assert await answers(stream, count) == [count]
    return tasks


async def eventually_done(server, task):
    await until(lambda: server.state(task.task.task_id), lambda state: state == "done")


# Who gets counts


async def test_the_server_says_that_it_counts_where_the_host_asks(server):
    assert (await server.stream("new").hello(counts_accepted=True)).counts_accepted
    assert not (await server.stream("old").hello()).counts_accepted
    assert not (await server.stream("none").hello(counts_accepted=False)).counts_accepted


@pytest.mark.parametrize("fields", [{"credit": 1}, {"heartbeat": pb.Heartbeat(sequence=1)}])
async def test_what_comes_with_reports_is_refused_where_they_are_not_counted(server, refused, fields):
    stream = await server.connect()
    await send(stream, **fields)
    error = await refused(stream.read_to_end())
    assert error.code == "bad_request"
    assert next(iter(fields)) in error.message


# Counts


async def test_accepted_reports_are_counted(server, stream):
    tasks = await running(server, stream, 3)
    await send(stream, *(report(task, completed=True) for task in tasks))
    message = await stream.read_message()
    assert message.WhichOneof("message") is None
    assert message.accepted_reports == 3
    assert [await server.state(task.task.task_id) for task in tasks] == ["done"] * 3


async def test_only_refused_reports_have_results_in_their_place(server, stream):
    a, b, c, d = await running(server, stream, 4)
    lost = ("task-none", 1)
    await send(
        stream,
        report(a, completed=True),
        report(lost, completed=True),
        report(a, completed=True),
        report(b, completed=True),
        report(c, completed=True),
        report(lost, started=True),
        report(d, completed=True),
    )
    assert await answers(stream, 7) == [1, ["not_found", "lease_lost"], 2, ["not_found"], 1]


async def test_a_refused_report_tells_the_state_of_its_task(server, stream):
    (task,) = await running(server, stream)
    await send(stream, report(task, completed=True), report(task, failed="late"))
    message = await stream.read_message()
    assert message.accepted_reports == 1
    (result,) = message.report_results.results
    assert result.state == Task.State.Value("done")
    assert result.error.error


async def test_what_is_refused_before_it_reaches_the_engine_has_its_place(server, stream):
    a, b = await running(server, stream, 2)
    invalid = pb.Report(task_id=a.task.task_id, fencing_token=0.5)
    await send(stream, report(a, completed=True), invalid, report(b, completed=True), invalid)
    assert await answers(stream, 4) == [1, ["bad_request"], 1, ["bad_request"]]


async def test_counts_of_several_messages_add_up_in_order(server, stream):
    tasks = await running(server, stream, 6)
    for task in tasks[:5]:
        await send(stream, report(task, completed=True))
    await send(stream, report(tasks[0], completed=True))
    await send(stream, report(tasks[5], completed=True))
    parts = await answers(stream, 7)
    refusal = parts.index(["lease_lost"])
    assert (sum(parts[:refusal]), sum(parts[refusal + 1 :])) == (5, 1)


async def test_ten_thousand_reports_may_share_a_message(server, stream):
    (task,) = await running(server, stream)
    kinds = [
        report(task, started=True) if number % 2_500 else report(("none", 1), started=True) for number in range(10_000)
    ]
    await send(stream, *kinds)
    refused = ["not_found"]
    assert [part for part in await answers(stream, 10_000) if part == refused] == [refused] * 4


async def test_a_message_without_reports_has_no_answer(server, stream):
    await send(stream)
    await stream.assert_quiet()
    assert await server.host() is not None


async def test_all_is_answered_before_a_stream_ends_that_its_host_has_left(server, stream):
    tasks = await running(server, stream, 3)
    await send(stream, *(report(task, completed=True) for task in tasks))
    await stream.call.done_writing()
    assert await answers(stream, 3) == [3]
    await stream.read_to_end()
    assert not await server.live_leases()


async def test_reports_that_were_not_answered_may_be_repeated_on_the_next_stream(server, stream):
    tasks = await running(server, stream, 3)
    await send(stream, *(report(task, completed=True) for task in tasks))
    stream.call.cancel()
    again = await server.connect(counts_accepted=True, leases=list(map(held_lease, tasks)))
    lost = {lease.task_id for lease in again.welcome.lost}
    await send(again, *(report(task, completed=True) for task in tasks))
    states = [await server.state(task.task.task_id) for task in tasks]
    assert states == ["done"] * 3
    parts = await answers(again, 3)
    assert sum(len(part) for part in parts if isinstance(part, list)) == len(lost)


# Credit


async def test_credit_counts_after_the_reports_that_it_comes_with(server):
    stream = await server.connect(credit=1, counts_accepted=True)
    first, second = await server.submit_many(2)
    task = await stream.task()
    assert task.task.task_id == first
    await send(stream, report(task, completed=True), credit=1)
    message = await stream.read_message()
    assert message.accepted_reports == 1
    (assignment,) = message.assignments.assignments
    assert assignment.task.task_id == second


async def test_credit_comes_with_refused_reports_too(server):
    stream = await server.connect(counts_accepted=True)
    await server.submit()
    await send(stream, report(("none", 1), completed=True), credit=1)
    kinds = {(await stream.read_message()).WhichOneof("message") for _ in range(2)}
    assert kinds == {"report_results", "assignments"}


async def test_any_credit_may_come_any_number_of_times(server):
    stream = await server.connect(counts_accepted=True)
    for _ in range(3):
        await send(stream, credit=MAX_UINT32)
    await server.submit_many(120)
    assert len(await stream.tasks(120)) == 120


# Heartbeats


@pytest.mark.memory_store
async def test_a_heartbeat_with_reports_is_answered_with_whatever_is_sent_next(server, stream):
    (task,) = await running(server, stream)
    await server.submit()
    following = await stream.task()
    await send(stream, report(task, completed=True), heartbeat=pb.Heartbeat(sequence=0, leases=[held_lease(following)]))
    message = await stream.read_message()
    assert message.HasField("acknowledged_heartbeat")
    assert (message.acknowledged_heartbeat, message.accepted_reports) == (0, 1)


@pytest.mark.memory_store
async def test_a_heartbeat_counts_before_the_reports_that_it_comes_with(server, stream):
    (task,) = await running(server, stream)
    await server.advance(50)
    await send(stream, report(task, started=True), heartbeat=pb.Heartbeat(sequence=1, leases=[held_lease(task)]))
    assert await answers(stream, 1) == [1]
    await server.advance(50)
    await send(stream, report(task, completed=True), heartbeat=pb.Heartbeat(sequence=2, leases=[held_lease(task)]))
    message = await stream.read_message()
    assert (message.acknowledged_heartbeat, message.accepted_reports) == (2, 1)


async def test_leases_that_have_ended_are_told_by_an_answer_of_its_own(server, stream):
    kept, stolen = await running(server, stream, 2)
    await server.cancel(stolen.task.task_id)
    await stream.cancellation()
    leases = [held_lease(kept), held_lease(stolen), pb.HeldLease(task_id="none", fencing_token=1)]
    await send(stream, report(kept, completed=True), heartbeat=pb.Heartbeat(sequence=9, leases=leases))
    message = await stream.read_message()
    assert not message.HasField("acknowledged_heartbeat")
    assert message.heartbeat_ack.sequence == 9
    assert [lease.task_id for lease in message.heartbeat_ack.lost] == [stolen.task.task_id, "none"]


async def test_several_heartbeats_with_reports_are_each_answered(stream):
    for sequence in range(1, 6):
        await send(stream, heartbeat=pb.Heartbeat(sequence=sequence))
    answered = set()
    while len(answered) < 5:
        message = await stream.read_message()
        # Of two the first comes by itself, perhaps together with the second.
        answered |= {message.heartbeat_ack.sequence, message.acknowledged_heartbeat} - {0}
    assert answered == {1, 2, 3, 4, 5}


# With a store


async def test_reports_are_counted_once_they_are_kept_and_heartbeats_wait_for_nothing(clock):
    store = GatedStore()
    async with serving(clock, store=store) as server:
        stream = await server.connect(credit=1, counts_accepted=True)
        await server.submit()
        task = await stream.task()
        store.gate.clear()
        for sequence in range(1, 51):
            heartbeat = pb.Heartbeat(sequence=sequence, leases=[held_lease(task)])
            await send(stream, report(task, started=True), heartbeat=heartbeat)
        answered = 0
        while answered < 50:
            message = await stream.read_message()
            assert not message.accepted_reports
            answered = max(answered, message.heartbeat_ack.sequence, message.acknowledged_heartbeat)
        await send(stream, report(("none", 1), started=True))
        store.gate.set()
        parts = await answers(stream, 51)
        assert (sum(parts[:-1]), parts[-1]) == (50, ["not_found"])
        await stream.leave()


# What waits for a moment


async def test_a_count_waits_for_a_moment_for_something_to_come_with(server, stream, monkeypatch):
    (task,) = await running(server, stream)
    monkeypatch.setattr(host_outbox, "COUNT_WAIT_SECS", 3_600)
    await send(stream, report(task, completed=True))
    await eventually_done(server, task)
    await server.submit()
    message = await stream.read_message()
    assert (message.accepted_reports, len(message.assignments.assignments)) == (1, 1)


async def test_a_start_is_counted_at_once_since_its_task_may_wait_for_that(server, stream, monkeypatch):
    monkeypatch.setattr(host_outbox, "COUNT_WAIT_SECS", 3_600)
    await server.submit(target="t")
    task = await stream.task()
    await send(stream, report(task, started=True))
    assert (await stream.read_message()).accepted_reports == 1


async def test_a_count_comes_alone_after_that_moment(server, stream, monkeypatch):
    (task,) = await running(server, stream)
    monkeypatch.setattr(host_outbox, "COUNT_WAIT_SECS", 0.01)
    await send(stream, report(task, completed=True))
    await eventually_done(server, task)
    message = await stream.read_message()
    assert (message.accepted_reports, message.WhichOneof("message")) == (1, None)
