"""What the end of a handler means for its task."""

import asyncio
import functools
import logging
import threading
from collections.abc import Mapping

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.hosting.failing import ActionFailed
from taskyard.v1.task_pb2 import Error
from tests.clients.python.host.scripted_server import result_of


@pytest.fixture(autouse=True)
def _capture_info(caplog):
    caplog.set_level(logging.INFO, logger="taskyard")


@pytest.mark.parametrize("answer", [{"a": [1, None, "x"]}, "text", 4.5, False, [], {}, 0], ids=repr)
async def test_the_return_value_of_a_handler_is_the_result(final_report, answer):
    async def click(_):
        return answer

    report = await final_report(click)
    assert result_of(report) == answer


async def test_a_handler_that_returns_none_completes_without_a_result(final_report):
    async def click(_):
        pass

    assert not (await final_report(click)).completed.HasField("result")


async def test_an_exception_fails_the_task_with_its_name_and_text_and_logs_the_traceback(final_report, caplog):
    async def click(_):
        raise KeyError("no such thing")

    failure = (await final_report(click)).failed
    assert failure.error == "KeyError: 'no such thing'"
    assert not failure.HasField("retryable")
    assert not failure.HasField("code")
    assert "Traceback" in caplog.text


async def test_action_failed_fails_the_task_with_exactly_its_text(final_report, caplog):
    async def click(_):
        raise ActionFailed("no element e1", code="no_element", retryable=False)

    failure = (await final_report(click)).failed
    assert (failure.error, failure.code, failure.retryable) == ("no element e1", "no_element", False)
    # grpc logs faults of its own with one.
    assert not any(record.exc_info for record in caplog.records if record.name == "taskyard")


class Outcome(BaseException):
    """An exception like those of test frameworks."""


ODD = {
    "no text": (ValueError(), "ValueError"),
    "not utf-8": (ValueError("\ud800"), "ValueError: ?"),
    "ends the process": (SystemExit(2), "SystemExit: 2"),
    "failed without a word": (ActionFailed(""), "failed without a word"),
    "no Exception": (Outcome("odd"), "Outcome: odd"),
    "of generators": (GeneratorExit(), "GeneratorExit"),
    "a group": (BaseExceptionGroup("several", [Outcome()]), "BaseExceptionGroup: several (1 sub-exception)"),
}


@pytest.mark.parametrize(("error", "text"), ODD.values(), ids=ODD)
@pytest.mark.parametrize("plain", [False, True])
async def test_any_exception_fails_only_its_task(final_report, error, text, plain):
    def click(_):
        raise error

    async def async_click(_):
        raise error

    assert (await final_report(click if plain else async_click)).failed.error == text


async def test_stop_iteration_fails_its_task_too(final_report):
    def click(_):
        return next(iter([]))

    async def async_click(_):
        return next(iter([]))

    assert (await final_report(click)).failed.error == "RuntimeError: the handler raised StopIteration"
    assert (await final_report(async_click)).failed.error == "RuntimeError: coroutine raised StopIteration"


async def test_the_text_of_an_exception_is_truncated(final_report):
    async def click(_):
        raise ValueError("x" * 1_000_000)

    assert len((await final_report(click)).failed.error) == 10_000


def deep(levels):
    return functools.reduce(lambda inner, _: [inner], range(levels), 1)


class Unreadable(Mapping):
    """Looks like a JSON object."""

    def __init__(self, read):
        self._read = read

    def __getitem__(self, key):
        return self._read(key)

    def __iter__(self):
        return iter(["a"])

    def __len__(self):
        return 1


def endless_object():
    loop = Unreadable(lambda _: loop)
    return loop


def endless():
    loop = []
    loop.append(loop)
    return loop


NO_JSON = {
    "an object": object(),
    "bytes": b"x",
    "a key that is no string": {1: 2},
    "too large a number": 10**400,
    "too deep": deep(31),
    "endless": endless(),
    "an endless object": endless_object(),
    "an object that cannot be read": Unreadable({}.__getitem__),
    "not utf-8": "\ud800",
}


@pytest.mark.parametrize("answer", NO_JSON.values(), ids=NO_JSON)
async def test_a_return_value_that_is_not_json_fails_the_task_and_not_the_host(final_report, answer):
    async def click(_):
        return answer

    failure = (await final_report(click)).failed
    assert failure.error.startswith("result is not JSON: ")
    assert (failure.code, failure.retryable) == ("bad_result", False)


async def test_a_return_value_of_the_greatest_depth_is_accepted(final_report):
    async def click(_):
        return deep(30)

    assert result_of(await final_report(click)) == deep(30)


async def test_a_handler_that_cancels_itself_fails_its_task(final_report):
    async def click(_):
        raise asyncio.CancelledError

    assert (await final_report(click)).failed.error.startswith("CancelledError")


async def test_a_result_that_the_server_refuses_fails_the_task(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: "large")
    work(host)
    stream = await server.welcomed()
    stream.refusals["t", "completed"] = Error(code="too_large", error="result: 9 bytes are too many")
    stream.assign("t")
    assert await stream.reports(2) == ["t started", "t completed"]
    assert (await stream.report()).failed.error == "result refused: result: 9 bytes are too many"


async def test_a_task_that_cannot_be_read_fails_and_not_the_host(server, make_host, work):
    host = make_host()
    host.action("click")(lambda task: None if task.id == "t" else task.deadline)
    work(host)
    stream = await server.welcomed()
    stream.assign("far", deadline=Timestamp(seconds=2**60))
    assert (await stream.report()).HasField("started")
    assert (await stream.report()).failed.code == "unreadable"
    stream.assign("t")
    assert await stream.reports(2) == ["t started", "t completed"]


# Plain functions


async def test_a_plain_function_runs_in_a_thread_and_reports_from_there(server, make_host, work):
    host, go_on = make_host(), threading.Event()
    threads = []

    @host.action("click")
    def click(task):
        threads.append(threading.current_thread())
        task.progress(0.5, "half way")
        assert go_on.wait(10)
        return task.params["x"]

    work(host)
    stream = await server.welcomed()
    stream.assign("t", params={"x": 5})
    assert (await stream.report()).HasField("started")
    progress = (await stream.report()).progress
    assert (progress.fraction, progress.message) == (0.5, "half way")
    go_on.set()
    assert result_of(await stream.report()) == 5
    assert threads != [threading.main_thread()]


async def test_as_many_plain_functions_run_at_once_as_there_are_slots(server, make_host, work):
    host, together = make_host(slots=3), threading.Barrier(3)
    host.action("click")(lambda _: together.wait(10))
    work(host)
    stream = await server.welcomed()
    stream.assign("a", "b", "c")
    reports = await stream.reports(6)
    assert sorted(reports[3:]) == ["a completed", "b completed", "c completed"]


async def test_an_object_with_an_async_call_is_an_async_handler(final_report):
    class Click:
        async def __call__(self, task):
            return task.id

    assert result_of(await final_report(Click())) == "t"
