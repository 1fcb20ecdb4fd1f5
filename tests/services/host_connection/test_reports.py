"""Connect, reports (runtime_host.proto, Reports and ReportResults): answered in order, and none ends the stream."""

import math

import pytest
from google.protobuf.struct_pb2 import ListValue, Struct, Value

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1.task_pb2 import Payload, Progress, RetryPolicy, Task
from tests.live import live
from tests.services.host_streams import report

TEXT = Value(string_value="hi")


@pytest.fixture
async def stream(server):
    """A stream with much credit."""
    return await server.connect(credit=100)


@pytest.fixture
async def assignment(server, stream):
    """An assignment on the stream."""
    await server.submit()
    return await stream.task()


def codes(results):
    return [result.error.code or Task.State.Name(result.state) for result in results]


# Effects of reports


async def test_a_task_is_started_progresses_and_is_done(server, stream, assignment):
    assert await stream.report_one(assignment, started=True) == "running"
    progress = Progress(message="half", fraction=0.5, details=Struct(fields={"x": TEXT}))
    assert await stream.report_one(assignment, progress=progress) == "running"
    reported = (await server.get(assignment.task.task_id)).progress
    assert (reported.message, reported.fraction, reported.details) == ("half", 0.5, progress.details)
    assert reported.HasField("reported_at")
    assert await stream.report_one(assignment, completed=TEXT) == "done"
    task = await server.get(assignment.task.task_id)
    assert task.result == TEXT
    assert task.host_id == "host"
    assert not await server.live_leases()


async def test_a_failure_keeps_the_error_of_the_host(server, stream, assignment):
    assert await stream.report_one(assignment, failed="it broke") == "failed"
    assert (await server.get(assignment.task.task_id)).error == "it broke"


async def test_a_failure_may_tell_its_code_its_traceback_and_when_to_try_again(server, stream, assignment):
    failure = pb.TaskFailed(error="busy", code="busy", traceback="in crawl", retry_after_ms=5_000)
    assert await stream.report_one(assignment, failed=failure) == "pending"
    task = await server.get(assignment.task.task_id)
    assert (task.code, task.traceback) == ("busy", "in crawl")
    await stream.credit(1)
    for _ in range(4):
        await server.advance(2)
    assert (await stream.task()).task.task_id == assignment.task.task_id


async def test_an_output_is_kept_with_the_task(server, stream, assignment):
    output = Payload(data=b"\x00", encoding="fernet")
    assert await stream.report_one(assignment, completed=pb.TaskCompleted(output=output)) == "done"
    assert (await server.get(assignment.task.task_id)).output == output


async def test_an_output_that_is_wrong_is_refused_in_its_place(stream, assignment):
    refused = await stream.report_one(assignment, completed=pb.TaskCompleted(output=Payload(data=b"{")))
    assert refused == "bad_request"
    assert await stream.report_one(assignment, completed=True) == "done"


async def test_a_release_returns_the_task_to_its_place(server, stream, assignment):
    later = await server.submit(requires=["nobody"])
    assert await stream.report_one(assignment, released=True) == "queued"
    again = await stream.task()
    assert again.task.task_id == assignment.task.task_id
    assert again.lease.fencing_token == 2
    assert await server.state(later) == "queued"


async def test_a_completion_without_a_start_counts_as_both(server, stream, assignment):
    assert await stream.report_one(assignment, completed=True) == "done"
    task = await server.get(assignment.task.task_id)
    assert task.HasField("started_at")
    assert not task.HasField("result")


async def test_progress_without_a_start_counts_as_both(server, stream, assignment):
    assert await stream.report_one(assignment, progress=Progress(fraction=0.1)) == "running"
    assert (await server.get(assignment.task.task_id)).HasField("started_at")


async def test_a_repeated_start_changes_nothing(server, stream, assignment):
    assert await stream.report_one(assignment, started=True) == "running"
    started_at = (await server.get(assignment.task.task_id)).started_at
    await server.advance(3)
    assert await stream.report_one(assignment, started=True) == "running"
    assert (await server.get(assignment.task.task_id)).started_at == started_at


async def test_a_repeated_release_changes_nothing(server, stream, assignment):
    await server.drain()
    await stream.receive("drain")
    assert await stream.report_one(assignment, released=True) == "queued"
    assert await stream.report_one(assignment, released=True) == "queued"


# Several reports in one message


async def test_one_message_can_hold_all_reports_of_a_task(stream, assignment):
    results = await stream.report(
        report(assignment, started=True),
        report(assignment, progress=Progress(fraction=1)),
        report(assignment, completed=TEXT),
    )
    assert codes(results) == ["running", "running", "done"]


async def test_results_are_in_the_order_of_messages_and_reports(server, stream):
    await server.submit_many(60)
    tasks = await stream.tasks(60)
    events = ({"started": True}, {"completed": True}, {"failed": "x"}, {"failed": ""})
    states = ("running", "done", "failed", "bad_request")
    messages, expected = [], []
    for begin in range(0, 60, 6):
        choice = [(task, (begin + place) % 4) for place, task in enumerate(tasks[begin : begin + 6])]
        messages.append([report(task, **events[index]) for task, index in choice])
        expected.append([states[index] for _, index in choice])
    for reports in messages:
        await stream.send(reports=pb.Reports(reports=reports))
    assert [codes((await stream.receive("report_results")).results) for _ in messages] == expected


async def test_a_message_without_reports_is_answered_without_results(stream):
    assert await stream.report() == []


async def test_each_of_thousands_of_reports_in_a_message_has_a_result(stream, assignment):
    reports = [report((f"tsk_{number}", 1), started=True) for number in range(5_000)]
    results = await stream.report(*reports, report(assignment, completed=True))
    assert codes(results) == ["not_found"] * 5_000 + ["done"]


async def test_results_too_large_for_a_message_omit_the_error_texts(stream, assignment):
    await stream.report_one(assignment, completed=True)
    reports = [report(assignment, started=True)] * 50_000
    results = await stream.report(*reports)
    assert codes(results) == ["lease_lost"] * 50_000
    assert not results[0].error.error


# Refused reports


def nested_value(levels):
    value = Value(number_value=1)
    for _ in range(levels):
        value = Value(list_value=ListValue(values=[value]))
    return value


REFUSED = {
    "a stale token": ({"fencing_token": 7, "completed": True}, "lease_lost"),
    "no token": ({"fencing_token": 0, "completed": True}, "bad_request"),
    "a token that is a fraction": ({"fencing_token": 0.5, "completed": True}, "bad_request"),
    "a token that is NaN": ({"fencing_token": math.nan, "completed": True}, "bad_request"),
    "a token that is infinite": ({"fencing_token": math.inf, "completed": True}, "bad_request"),
    "a token below 0": ({"fencing_token": -1, "released": True}, "bad_request"),
    "a token over 2^53": ({"fencing_token": 2.0**53 + 2, "released": True}, "bad_request"),
    "no event": ({}, "bad_request"),
    "an unknown task": ({"task_id": "tsk_unknown", "completed": True}, "not_found"),
    "no task": ({"task_id": "", "completed": True}, "not_found"),
    "a result too large": ({"completed": Value(string_value="x" * 262_144)}, "too_large"),
    "a result too deep": ({"completed": nested_value(31)}, "bad_request"),
    "a result that is not JSON": ({"completed": Value(number_value=math.nan)}, "bad_request"),
    "a failure without an error": ({"failed": ""}, "bad_request"),
    "progress below 0": ({"progress": Progress(fraction=-0.1)}, "bad_request"),
    "progress over 1": ({"progress": Progress(fraction=1.5)}, "bad_request"),
    "progress that is NaN": ({"progress": Progress(fraction=math.nan)}, "bad_request"),
    "details too large": (
        {"progress": Progress(details=Struct(fields={"x": Value(string_value="x" * 262_144)}))},
        "too_large",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_refused_report_changes_nothing_and_affects_neither_other_reports_nor_the_stream(
    server, stream, assignment, case
):
    fields, code = REFUSED[case]
    other_id = await server.submit()
    other = await stream.task()
    before = await server.get(assignment.task.task_id)
    bad = report(assignment, **fields)
    results = await stream.report(report(other, started=True), bad, report(other, completed=True))
    assert codes(results) == ["running", code, "done"]
    assert results[1].error.error
    assert results[1].HasField("state") == (code != "not_found")
    assert await server.get(assignment.task.task_id) == before
    assert await server.state(other_id) == "done"
    assert await stream.report_one(assignment, completed=True) == "done"


@pytest.mark.parametrize("event", ["started", "completed", "failed", "released", "progress"])
async def test_a_host_cannot_report_on_the_lease_of_another_host(server, assignment, event):
    thief = await server.connect("thief")
    before = await server.get(assignment.task.task_id)
    value = {"failed": "x", "progress": Progress(fraction=0.5)}.get(event, True)
    (result,) = await thief.report(report(assignment, **{event: value}))
    assert result.error.code == "lease_lost"
    assert Task.State.Name(result.state) == "assigned"
    assert await server.get(assignment.task.task_id) == before
    assert await server.live_leases() == [(assignment.task.task_id, "host", 1)]


async def test_a_second_outcome_is_refused_with_the_state_of_the_first(stream, assignment):
    assert await stream.report_one(assignment, completed=True) == "done"
    (result,) = await stream.report(report(assignment, failed="late"))
    assert result.error.code == "lease_lost"
    assert Task.State.Name(result.state) == "done"


async def test_a_long_error_is_truncated(server, stream, assignment):
    assert await stream.report_one(assignment, failed="x" * 50_000) == "failed"
    assert (await server.get(assignment.task.task_id)).error == "x" * 10_000


async def test_the_text_of_a_refusal_is_limited(stream):
    (result,) = await stream.report(report(("t" * 5_000, 1), started=True))
    assert result.error.code == "not_found"
    assert len(result.error.error) < 1_000


# Token usage


async def test_tokens_of_progress_and_outcomes_add_up_over_attempts(server, stream):
    task_id = await server.submit(retry_policy=RetryPolicy(max_attempts=2, first_delay_ms=1))
    first = await stream.task()
    assert await stream.report_one(first, progress=Progress(fraction=0.5), tokens_used=3) == "running"
    assert (await server.get(task_id)).tokens_used == 3
    assert await stream.report_one(first, failed="it broke", tokens_used=4) == "pending"
    await server.advance(2)
    assert await stream.report_one(await stream.task(), completed=True, tokens_used=5) == "done"
    assert (await server.get(task_id)).tokens_used == 4 + 5


async def test_a_running_task_over_its_budget_fails_at_once_and_is_cancelled_with_the_reason(server, stream):
    task_id = await server.submit(token_limit=10)
    assignment = await stream.task()
    assert await stream.report_one(assignment, progress=Progress(fraction=0.1), tokens_used=10) == "running"
    await stream.send(reports=pb.Reports(reports=[report(assignment, progress=Progress(fraction=0.2), tokens_used=11)]))
    received = {}
    for _ in range(2):
        message = await stream.read_message()
        received[message.WhichOneof("message")] = message
    (result,) = received["report_results"].report_results.results
    assert (result.HasField("error"), Task.State.Name(result.state)) == (False, "failed")
    (stop,) = received["cancellations"].cancellations.cancellations
    assert (stop.task_id, stop.fencing_token) == (task_id, assignment.lease.fencing_token)
    assert stop.reason == pb.Cancellation.token_limit_exceeded
    task = await server.get(task_id)
    assert (Task.State.Name(task.state), task.error, task.tokens_used) == ("failed", "token limit exceeded", 11)
    assert not await server.live_leases()


@pytest.mark.parametrize("outcome", [{"completed": TEXT}, {"failed": "it broke"}])
async def test_an_outcome_over_the_budget_is_a_failure_without_a_cancellation(server, stream, outcome):
    task_id = await server.submit(token_limit=10, retry_policy=RetryPolicy(max_attempts=2))
    assert await stream.report_one(await stream.task(), tokens_used=11, **outcome) == "failed"
    await stream.assert_quiet()
    task = await server.get(task_id)
    assert (task.error, task.HasField("result")) == ("token limit exceeded", False)


# Releases of ended leases, which report that the work has stopped


async def test_a_release_is_accepted_after_the_task_went_to_another_host(server):
    first = await server.connect("first", credit=1)
    await server.submit()
    assignment = await first.task()
    second = await server.connect("second", credit=1)
    await server.advance(11)
    assert (await first.cancellation()).task_id == assignment.task.task_id
    assert (await second.task()).lease.fencing_token == 2
    assert await first.report_one(assignment, released=True) == "assigned"
    assert await server.live_leases() == [(assignment.task.task_id, "second", 2)]


async def test_a_release_is_accepted_after_the_same_host_got_a_later_lease(server, stream, assignment):
    await server.advance(11)
    await stream.cancellation()
    # The host rests before it is handed the task again.
    await server.advance(2.3)
    assert (await stream.task()).lease.fencing_token == 2
    assert await stream.report_one(assignment, released=True) == "assigned"
    assert await server.live_leases() == [(assignment.task.task_id, "host", 2)]


async def test_a_release_is_accepted_after_a_resume_assigned_the_task_to_the_same_host(server, stream, assignment):
    task_id = assignment.task.task_id
    assert await stream.report_one(assignment, started=True) == "running"
    await server.engine.tasks.pause("default", task_id, show=live)
    assert (await stream.cancellation()).fencing_token == 1
    await server.engine.tasks.resume("default", task_id, show=live)
    again = await stream.task()
    assert again.lease.fencing_token == 2
    assert await stream.report_one(assignment, released=True) == "assigned"
    assert await server.live_leases() == [(task_id, "host", 2)]
    assert await stream.report_one(again, completed=True) == "done"
