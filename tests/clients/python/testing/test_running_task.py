"""Unit tests of handlers: `running_task`."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from taskyard import Action, Artifact, FernetCodec, NotFound, TaskInput, TaskState
from taskyard.hosting.failing import NotRetryable, Retry
from taskyard.testing import running_task


@dataclass
class Page:
    url: str


crawl = Action[Page, list[str]]("crawl")


async def fetch(page, task):
    task.tokens_used = 7
    await task.progress(0.5, "half", {"url": page.url})
    if task.attempt == 1:
        raise Retry("busy", after=timedelta(minutes=5))
    return [page.url, *task.checkpoint.get("seen", [])]


def test_a_handler_is_called_as_a_function():
    task = running_task(Page("a"), attempt=2, checkpoint={"seen": ["b"]}, labels={"team": "x"})
    assert asyncio.run(fetch(Page("a"), task)) == ["a", "b"]
    (progress,) = task.progress_reports
    assert (progress.fraction, progress.message, progress.details) == (0.5, "half", {"url": "a"})
    assert (task.tokens_used, task.attempt, task.labels, task.params) == (7, 2, {"team": "x"}, {"url": "a"})


async def test_a_run_records_what_a_host_would_report():
    task = running_task(Page("a"))
    outcome = await task.run(fetch, crawl)
    assert outcome is task.outcome
    assert (outcome.error, outcome.retry_after, outcome.result) == ("busy", timedelta(minutes=5), None)
    assert (await running_task(Page("a"), attempt=3).run(fetch, crawl)).result == ["a"]


async def test_a_misfit_fails_for_good():
    outcome = await running_task({"uri": "a"}).run(fetch, crawl)
    assert (outcome.code, outcome.is_retryable) == ("bad_input", False)
    assert "url" in outcome.error


async def test_plain_handlers_run_in_a_thread():
    def work(task):
        task.progress(1)
        raise NotRetryable("gone", code="http_410")

    task = running_task({"n": 1})
    outcome = await task.run(work)
    assert (outcome.error, outcome.code, outcome.is_retryable) == ("gone", "http_410", False)
    assert [progress.fraction for progress in task.progress_reports] == [1]


def test_a_cancelled_task_raises_once():
    task = running_task()
    task.check()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        task.check()
    task.check()


def test_attempts_begin_with_one():
    with pytest.raises(ValueError, match="attempt"):
        running_task(attempt=0)


def test_progress_without_details_keeps_the_checkpoint():
    task = running_task(attempt=2, checkpoint={"page": 3})
    task.progress(0.1)
    task.progress(0.2, details={"page": 4})
    task.progress(0.5)
    task.progress(message="from the start", details={})
    task.progress(0.6)
    assert [report.details.get("page") for report in task.progress_reports] == [3, 4, 4, None, None]
    assert task.checkpoint == {"page": 3}


@pytest.mark.parametrize(
    ("details", "error", "text"),
    [
        ([1], TypeError, "details: is a JSON object"),
        ({"a": {1}}, TypeError, "details.a: set is not a JSON value"),
        ({"a": [float("nan")]}, ValueError, r"details.a\[0\]: nan is a number that JSON has not"),
        ({"a": 2**60}, ValueError, "details.a: .* is beyond"),
    ],
)
def test_details_that_are_no_json_are_refused_and_keep_the_checkpoint(details, error, text):
    task = running_task(checkpoint={"page": 3})
    with pytest.raises(error, match=text):
        task.progress(0.1, details=details)
    task.progress(0.2)
    assert [report.details for report in task.progress_reports] == [{"page": 3}]


async def summarise(page: Page, task, *, first: Page, second: Page | None = None, number=None):
    shot = (await task.read_artifact("shot.png", of="first")).decode()
    told = [(name, each.task_id, str(each.state), each.value) for name, each in task.inputs.items()]
    return [page.url, first.url, second and second.url, number, shot, told]


count = Action[Page, list]("count")


async def test_inputs_are_handed_to_a_handler_as_a_host_does():
    failed = TaskInput("tsk_2", TaskState.FAILED, error="broken")
    task = running_task(Page("a"), inputs={"first": Page("b"), "number": 2**60, "second": failed})
    task.artifacts["first/shot.png"] = b"shot"
    told = [
        ("first", "tsk_first", "done", {"url": "b"}),
        ("number", "tsk_number", "done", 2**60),
        ("second", "tsk_2", "failed", None),
    ]
    expected = ["a", "b", None, 2**60, "shot", told]
    assert await summarise(Page("a"), task, first=Page("b"), number=2**60) == expected
    assert task.task.inputs == {"first": "tsk_first", "number": "tsk_number", "second": "tsk_2"}
    outcome = await task.run(summarise, count, FernetCodec(FernetCodec.new_key()))
    assert (outcome.error, outcome.result) == (None, [*expected[:5], [list(each) for each in told]])


async def test_an_input_that_is_missing_or_does_not_fit_fails_for_good():
    outcome = await running_task(Page("a")).run(summarise, count)
    assert (outcome.code, outcome.is_retryable) == ("bad_input", False)
    assert outcome.error == "the input 'first' is missing: the task was submitted without it"
    outcome = await running_task(Page("a"), inputs={"first": {"uri": "b"}}).run(summarise, count)
    assert outcome.error == "the input 'first' does not fit: object missing required field `url`"


async def test_the_artifacts_of_an_input_are_those_that_the_test_gives():
    async def work(task):
        with pytest.raises(NotFound):
            await task.read_artifact("shot.png")
        return [[each.name, each.size_bytes] for each in task.inputs["page"].artifacts]

    artifact = Artifact("shot.png", "image/png", 4, "0" * 64, 1, datetime(2029, 1, 1, tzinfo=UTC))
    task = running_task(inputs={"page": TaskInput("tsk_1", artifacts=(artifact,))})
    assert (await task.run(work)).result == [["shot.png", 4]]
    assert task.inputs["page"].artifacts == (artifact,)


def test_an_input_is_json():
    with pytest.raises(ValueError, match="object is not JSON"):
        running_task(inputs={"page": object()})
