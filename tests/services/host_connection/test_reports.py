"""Connect, the reports (runtime_host.proto, Reports and ReportResults): answered in order, and none ends the stream."""

import math

import pytest
from google.protobuf.struct_pb2 import ListValue, Struct, Value

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1.task_pb2 import Progress, RetryPolicy, Task
from tests.services.host_streams import report

TEXT = Value(string_value="hi")


@pytest.fixture
async def stream(yard):
    """A connected host with room for many."""
    return await yard.connect(credit=100)


@pytest.fixture
async def handed(yard, stream):
    """A task that it was handed."""
    await yard.submit()
    return await stream.task()


def codes(results):
    return [result.error.code or Task.State.Name(result.state) for result in results]


# What reports do


async def test_a_task_is_started_goes_on_and_is_done(yard, stream, handed):
    assert await stream.told(handed, started=True) == "running"
    progress = Progress(message="half", fraction=0.5, details=Struct(fields={"x": TEXT}))
    assert await stream.told(handed, progress=progress) == "running"
    shown = (await yard.get(handed.task.task_id)).progress
    assert (shown.message, shown.fraction, shown.details) == ("half", 0.5, progress.details)
    assert shown.HasField("reported_at")
    assert await stream.told(handed, completed=TEXT) == "done"
    task = await yard.get(handed.task.task_id)
    assert task.result == TEXT
    assert task.host_id == "host"
    assert not await yard.leased()


async def test_a_failure_keeps_the_hosts_word(yard, stream, handed):
    assert await stream.told(handed, failed="it broke") == "failed"
    assert (await yard.get(handed.task.task_id)).error == "it broke"


async def test_a_release_puts_the_task_back_to_its_place(yard, stream, handed):
    later = await yard.submit(requires=["nobody"])
    assert await stream.told(handed, released=True) == "queued"
    again = await stream.task()
    assert again.task.task_id == handed.task.task_id
    assert again.lease.fencing_token == 2
    assert await yard.state(later) == "queued"


async def test_completed_without_started_counts_as_both(yard, stream, handed):
    assert await stream.told(handed, completed=True) == "done"
    task = await yard.get(handed.task.task_id)
    assert task.HasField("started_at")
    assert not task.HasField("result")


async def test_progress_without_started_counts_as_both(yard, stream, handed):
    assert await stream.told(handed, progress=Progress(fraction=0.1)) == "running"
    assert (await yard.get(handed.task.task_id)).HasField("started_at")


async def test_started_twice_is_started_once(yard, stream, handed):
    assert await stream.told(handed, started=True) == "running"
    started_at = (await yard.get(handed.task.task_id)).started_at
    await yard.pass_time(3)
    assert await stream.told(handed, started=True) == "running"
    assert (await yard.get(handed.task.task_id)).started_at == started_at


async def test_released_twice_is_released_once(yard, stream, handed):
    await yard.drain()
    await stream.hear("drain")
    assert await stream.told(handed, released=True) == "queued"
    assert await stream.told(handed, released=True) == "queued"


# In batches


async def test_all_reports_of_a_task_may_come_in_one_message(stream, handed):
    results = await stream.report(
        report(handed, started=True), report(handed, progress=Progress(fraction=1)), report(handed, completed=TEXT)
    )
    assert codes(results) == ["running", "running", "done"]


async def test_reports_are_answered_in_the_order_of_messages_and_of_reports(yard, stream):
    await yard.submit_many(60)
    tasks = await stream.tasks(60)
    events = ({"started": True}, {"completed": True}, {"failed": "x"}, {"failed": ""})
    states = ("running", "done", "failed", "bad_request")
    said, expected = [], []
    for begin in range(0, 60, 6):
        choice = [(task, (begin + place) % 4) for place, task in enumerate(tasks[begin : begin + 6])]
        said.append([report(task, **events[which]) for task, which in choice])
        expected.append([states[which] for _, which in choice])
    for reports in said:
        await stream.say(reports=pb.Reports(reports=reports))
    assert [codes((await stream.hear("report_results")).results) for _ in said] == expected


async def test_a_message_without_reports_is_answered_without_results(stream):
    assert await stream.report() == []


async def test_thousands_of_reports_in_a_message_are_answered_each(stream, handed):
    many = [report((f"tsk_{number}", 1), started=True) for number in range(5_000)]
    results = await stream.report(*many, report(handed, completed=True))
    assert codes(results) == ["not_found"] * 5_000 + ["done"]


async def test_an_answer_that_would_be_too_large_for_the_host_leaves_out_the_texts(stream, handed):
    await stream.told(handed, completed=True)
    many = [report(handed, started=True)] * 50_000
    results = await stream.report(*many)
    assert codes(results) == ["lease_lost"] * 50_000
    assert not results[0].error.error


# What is refused, and changes nothing


def deep(levels):
    value = Value(number_value=1)
    for _ in range(levels):
        value = Value(list_value=ListValue(values=[value]))
    return value


REFUSED = {
    "a stale token": ({"fencing_token": 7, "completed": True}, "lease_lost"),
    "no token": ({"fencing_token": 0, "completed": True}, "bad_request"),
    "no event": ({}, "bad_request"),
    "an unknown task": ({"task_id": "tsk_unknown", "completed": True}, "not_found"),
    "no task": ({"task_id": "", "completed": True}, "not_found"),
    "a result too large": ({"completed": Value(string_value="x" * 262_144)}, "too_large"),
    "a result too deep": ({"completed": deep(31)}, "bad_request"),
    "a result that is no JSON": ({"completed": Value(number_value=math.nan)}, "bad_request"),
    "a failure without a word": ({"failed": ""}, "bad_request"),
    "progress below 0": ({"progress": Progress(fraction=-0.1)}, "bad_request"),
    "progress over 1": ({"progress": Progress(fraction=1.5)}, "bad_request"),
    "progress that is no number": ({"progress": Progress(fraction=math.nan)}, "bad_request"),
    "details too large": (
        {"progress": Progress(details=Struct(fields={"x": Value(string_value="x" * 262_144)}))},
        "too_large",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_a_refused_report_changes_nothing_and_touches_neither_its_neighbours_nor_the_stream(
    yard, stream, handed, what
):
    fields, code = REFUSED[what]
    other_id = await yard.submit()
    other = await stream.task()
    before = await yard.get(handed.task.task_id)
    bad = report(handed, **fields)
    results = await stream.report(report(other, started=True), bad, report(other, completed=True))
    assert codes(results) == ["running", code, "done"]
    assert results[1].error.error
    assert results[1].HasField("state") == (code != "not_found")
    assert await yard.get(handed.task.task_id) == before
    assert await yard.state(other_id) == "done"
    assert await stream.told(handed, completed=True) == "done"


@pytest.mark.parametrize("event", ["started", "completed", "failed", "released", "progress"])
async def test_nobody_reports_on_the_lease_of_another_host(yard, handed, event):
    thief = await yard.connect("thief")
    before = await yard.get(handed.task.task_id)
    value = {"failed": "x", "progress": Progress(fraction=0.5)}.get(event, True)
    (result,) = await thief.report(report(handed, **{event: value}))
    assert result.error.code == "lease_lost"
    assert Task.State.Name(result.state) == "assigned"
    assert await yard.get(handed.task.task_id) == before
    assert await yard.leased() == [(handed.task.task_id, "host", 1)]


async def test_a_second_outcome_is_refused_and_tells_the_first(stream, handed):
    assert await stream.told(handed, completed=True) == "done"
    (result,) = await stream.report(report(handed, failed="late"))
    assert result.error.code == "lease_lost"
    assert Task.State.Name(result.state) == "done"


async def test_a_long_word_of_failure_is_cut(yard, stream, handed):
    assert await stream.told(handed, failed="x" * 50_000) == "failed"
    assert (await yard.get(handed.task.task_id)).error == "x" * 10_000


async def test_the_text_of_a_refusal_is_bounded(stream):
    (result,) = await stream.report(report(("t" * 5_000, 1), started=True))
    assert result.error.code == "not_found"
    assert len(result.error.error) < 1_000


# Tokens that were used


async def test_tokens_come_with_progress_and_outcomes_over_a_stream_and_count_up_over_attempts(yard, stream):
    task_id = await yard.submit(retry_policy=RetryPolicy(max_attempts=2, first_delay_ms=1))
    first = await stream.task()
    assert await stream.told(first, progress=Progress(fraction=0.5), tokens_used=3) == "running"
    assert (await yard.get(task_id)).tokens_used == 3
    assert await stream.told(first, failed="it broke", tokens_used=4) == "pending"
    await yard.pass_time(2)
    assert await stream.told(await stream.task(), completed=True, tokens_used=5) == "done"
    assert (await yard.get(task_id)).tokens_used == 4 + 5


async def test_over_its_budget_a_running_task_fails_at_once_and_the_host_is_told_why(yard, stream):
    task_id = await yard.submit(token_limit=10)
    handed = await stream.task()
    assert await stream.told(handed, progress=Progress(fraction=0.1), tokens_used=10) == "running"
    await stream.say(reports=pb.Reports(reports=[report(handed, progress=Progress(fraction=0.2), tokens_used=11)]))
    heard = {}
    for _ in range(2):
        answer = await stream.next()
        heard[answer.WhichOneof("message")] = answer
    (result,) = heard["report_results"].report_results.results
    assert (result.HasField("error"), Task.State.Name(result.state)) == (False, "failed")
    (stop,) = heard["cancellations"].cancellations.cancellations
    assert (stop.task_id, stop.fencing_token) == (task_id, handed.lease.fencing_token)
    assert stop.reason == pb.Cancellation.token_limit_exceeded
    task = await yard.get(task_id)
    assert (Task.State.Name(task.state), task.error, task.tokens_used) == ("failed", "token limit exceeded", 11)
    assert not await yard.leased()


@pytest.mark.parametrize("outcome", [{"completed": TEXT}, {"failed": "it broke"}])
async def test_an_outcome_over_the_budget_is_a_failure_and_there_is_nothing_to_stop(yard, stream, outcome):
    task_id = await yard.submit(token_limit=10, retry_policy=RetryPolicy(max_attempts=2))
    assert await stream.told(await stream.task(), tokens_used=11, **outcome) == "failed"
    await stream.is_quiet()
    task = await yard.get(task_id)
    assert (task.error, task.HasField("result")) == ("token limit exceeded", False)


# A lease that has ended: `released` says that nothing runs for it any more


async def test_released_is_taken_after_the_task_went_to_another_host(yard):
    first = await yard.connect("first", credit=1)
    await yard.submit()
    assignment = await first.task()
    second = await yard.connect("second", credit=1)
    await yard.pass_time(11)
    assert (await first.cancellation()).task_id == assignment.task.task_id
    assert (await second.task()).lease.fencing_token == 2
    assert await first.told(assignment, released=True) == "assigned"
    assert await yard.leased() == [(assignment.task.task_id, "second", 2)]


async def test_released_is_taken_after_the_same_host_got_a_later_lease(yard, stream, handed):
    await yard.pass_time(11)
    await stream.cancellation()
    assert (await stream.task()).lease.fencing_token == 2
    assert await stream.told(handed, released=True) == "assigned"
    assert await yard.leased() == [(handed.task.task_id, "host", 2)]


async def test_released_answers_a_cancellation_after_a_resume_gave_the_task_to_the_same_host(yard, stream, handed):
    task_id = handed.task.task_id
    assert await stream.told(handed, started=True) == "running"
    await yard.engine.tasks.pause("default", task_id)
    assert (await stream.cancellation()).fencing_token == 1
    await yard.engine.tasks.resume("default", task_id)
    again = await stream.task()
    assert again.lease.fencing_token == 2
    assert await stream.told(handed, released=True) == "assigned"
    assert await yard.leased() == [(task_id, "host", 2)]
    assert await stream.told(again, completed=True) == "done"
