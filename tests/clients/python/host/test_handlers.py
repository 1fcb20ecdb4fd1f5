"""What handlers are given, and what their end means for the task."""

import asyncio
import functools
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Mapping

import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.host import Host
from taskyard.running_task import ActionFailed
from taskyard.v1.task_pb2 import Attempt, Error

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
async def end_of(server, make_host, work):
    """Has a handler run one task; answers the report on its end."""

    async def run(handler, **task):
        host = make_host()
        host.action("click")(handler)
        work(host)
        stream = await server.welcomed()
        await stream.until_credit(10)
        stream.assign("t", **task)
        report = await stream.report()
        assert report.HasField("started")
        while (report := await stream.report()).WhichOneof("event") not in ("completed", "failed", "released"):
            pass
        return report

    return run


def result(report):
    return MessageToDict(report.completed)["result"]


# What they are given


async def test_a_handler_sees_the_task_as_it_was_handed_out(end_of):
    seen = {}

    async def click(task):
        names = ("id", "action", "params", "tab_id", "ref", "labels", "traceparent", "fencing_token", "attempt")
        seen.update({name: getattr(task, name) for name in names}, deadline=task.deadline.timestamp())

    await end_of(
        click,
        params={"x": 1},
        tab_id="tab",
        ref="e1",
        labels={"a": "b"},
        traceparent=TRACE,
        deadline=Timestamp(seconds=2_000_000_000),
        token=7,
    )
    assert seen == {
        "id": "t",
        "action": "click",
        "params": {"x": 1},
        "tab_id": "tab",
        "ref": "e1",
        "labels": {"a": "b"},
        "traceparent": TRACE,
        "fencing_token": 7,
        "attempt": 1,
        "deadline": 2_000_000_000,
    }


PRINTS_ITS_ENVIRONMENT = (sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))")


def environment_of_a_child(task):
    """What a process sees that a handler spawned for its task."""
    done = subprocess.run(
        PRINTS_ITS_ENVIRONMENT, env=task.environment(), capture_output=True, check=True, timeout=60, cwd="/"
    )
    return {"environment": json.loads(done.stdout)}


async def test_a_process_that_a_handler_spawns_knows_its_task_and_its_trace(end_of, monkeypatch):
    monkeypatch.setenv("OF_THE_HOST", "yes")
    attempts = [Attempt(number=1, ended_at=Timestamp(seconds=1))]
    seen = result(await end_of(environment_of_a_child, traceparent=TRACE, token=7, attempts=attempts))["environment"]
    assert seen["PATH"] == os.environ["PATH"]
    assert seen["OF_THE_HOST"] == "yes"
    own = {
        "TRACEPARENT": TRACE,
        "TASKYARD_TRACE_ID": "0af7651916cd43dd8448eb211c80319c",
        "TASKYARD_TASK_ID": "t",
        "TASKYARD_ATTEMPT": "2",
        "TASKYARD_FENCING_TOKEN": "7",
    }
    assert {name: seen.get(name) for name in own} == own


async def test_without_a_trace_of_its_own_a_task_does_not_pass_on_that_of_the_host(end_of, monkeypatch):
    monkeypatch.setenv("TRACEPARENT", TRACE)
    monkeypatch.setenv("TRACESTATE", "a=b")
    monkeypatch.setenv("TASKYARD_TRACE_ID", "of the host")
    monkeypatch.setenv("TASKYARD_TASK_ID", "of the host")
    seen = result(await end_of(environment_of_a_child))["environment"]
    assert not {"TRACEPARENT", "TRACESTATE", "TASKYARD_TRACE_ID"} & seen.keys()
    assert seen["TASKYARD_TASK_ID"] == "t"
    assert os.environ["TRACEPARENT"] == TRACE, "only the child's environment is another"


@pytest.mark.parametrize(
    ("attempts", "number"),
    [
        ([Attempt(number=1, ended_at=Timestamp(seconds=1))], 2),
        ([Attempt(number=1, ended_at=Timestamp(seconds=1)), Attempt(number=2)], 2),
    ],
    ids=["the attempts before", "the present one too"],
)
async def test_a_handler_knows_which_attempt_it_is(end_of, attempts, number):
    async def click(task):
        return task.attempt

    assert result(await end_of(click, attempts=attempts)) == number


# How they end


@pytest.mark.parametrize("answer", [{"a": [1, None, "x"]}, "text", 4.5, False, [], {}, 0], ids=repr)
async def test_what_a_handler_answers_is_the_result(end_of, answer):
    async def click(_):
        return answer

    report = await end_of(click)
    assert result(report) == answer


async def test_a_handler_that_answers_nothing_completes_without_a_result(end_of):
    async def click(_):
        pass

    assert not (await end_of(click)).completed.HasField("result")


async def test_an_exception_fails_the_task_by_its_name_and_text_and_logs_the_traceback(end_of, caplog):
    async def click(_):
        raise KeyError("no such thing")

    failure = (await end_of(click)).failed
    assert failure.error == "KeyError: 'no such thing'"
    assert not failure.HasField("retryable")
    assert not failure.HasField("code")
    assert "Traceback" in caplog.text


async def test_action_failed_fails_the_task_in_just_its_words(end_of, caplog):
    async def click(_):
        raise ActionFailed("no element e1", code="no_element", retryable=False)

    failure = (await end_of(click)).failed
    assert (failure.error, failure.code, failure.retryable) == ("no element e1", "no_element", False)
    assert "Traceback" not in caplog.text


class Outcome(BaseException):
    """As test frameworks have them."""


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
async def test_any_exception_fails_just_its_task(end_of, error, text, plain):
    def click(_):
        raise error

    async def async_click(_):
        raise error

    assert (await end_of(click if plain else async_click)).failed.error == text


async def test_stop_iteration_fails_its_task_too(end_of):
    def click(_):
        return next(iter([]))

    async def async_click(_):
        return next(iter([]))

    assert (await end_of(click)).failed.error == "RuntimeError: the handler raised StopIteration"
    assert (await end_of(async_click)).failed.error == "RuntimeError: coroutine raised StopIteration"


async def test_an_exceptions_text_is_cut(end_of):
    async def click(_):
        raise ValueError("x" * 1_000_000)

    assert len((await end_of(click)).failed.error) == 10_000


def deep(levels):
    return functools.reduce(lambda inner, _: [inner], range(levels), 1)


class Unreadable(Mapping):
    """Looks like an object."""

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
async def test_an_answer_that_is_not_json_fails_the_task_and_not_the_host(end_of, answer):
    async def click(_):
        return answer

    failure = (await end_of(click)).failed
    assert failure.error.startswith("result is not JSON: ")
    assert (failure.code, failure.retryable) == ("bad_result", False)


async def test_an_answer_as_deep_as_allowed_is_a_result(end_of):
    async def click(_):
        return deep(30)

    assert result(await end_of(click)) == deep(30)


async def test_a_handler_that_cancels_itself_fails_its_task(end_of):
    async def click(_):
        raise asyncio.CancelledError

    assert (await end_of(click)).failed.error.startswith("CancelledError")


async def test_a_result_that_the_server_refuses_fails_the_task(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: "large")
    work(host)
    stream = await server.welcomed()
    stream.refusals["t", "completed"] = Error(code="too_large", error="result: 9 bytes are too many")
    stream.assign("t")
    assert await stream.reports(2) == ["t started", "t completed"]
    assert (await stream.report()).failed.error == "result refused: result: 9 bytes are too many"


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
    assert result(await stream.report()) == 5
    assert threads != [threading.main_thread()]


async def test_as_many_plain_functions_run_at_once_as_there_are_slots(server, make_host, work):
    host, together = make_host(slots=3), threading.Barrier(3)
    host.action("click")(lambda _: together.wait(10))
    work(host)
    stream = await server.welcomed()
    stream.assign("a", "b", "c")
    reports = await stream.reports(6)
    assert sorted(reports[3:]) == ["a completed", "b completed", "c completed"]


async def test_an_object_with_an_async_call_is_an_async_handler(end_of):
    class Click:
        async def __call__(self, task):
            return task.id

    assert result(await end_of(Click())) == "t"


# Progress


async def test_progress_goes_out_while_the_handler_works(server, make_host, work):
    host, go_on = make_host(), asyncio.Event()

    @host.action("click")
    async def click(task):
        task.tokens_used = 12
        await task.progress(0.25, "on it", {"step": 1})
        await go_on.wait()

    work(host)
    stream = await server.welcomed()
    stream.assign("t")
    await stream.report()
    report = await stream.report()
    assert MessageToDict(report.progress) == {"fraction": 0.25, "message": "on it", "details": {"step": 1}}
    assert report.tokens_used == 12
    go_on.set()
    assert (await stream.report()).tokens_used == 12


@pytest.mark.parametrize(("given", "told"), [(-1, 0), (7, 1), (float("nan"), 0)])
async def test_a_fraction_outside_0_to_1_counts_as_the_nearer(server, make_host, work, given, told):
    host = make_host()

    @host.action("click")
    async def click(task):
        await task.progress(given)

    work(host)
    stream = await server.welcomed()
    stream.assign("t")
    await stream.report()
    assert (await stream.report()).progress.fraction == told


# Which handler


async def test_an_action_takes_its_functions_name_and_is_announced(server, make_host, work):
    host = make_host()

    @host.action()
    async def press(_):
        return "pressed"

    @host.action("click")
    async def other(_):
        return "clicked"

    work(host)
    stream = await server.welcomed()
    assert list(stream.hello.actions) == ["press", "click"]
    stream.assign("t", action="press")
    await stream.report()
    assert result(await stream.report()) == "pressed"


async def test_a_host_with_a_handler_for_any_action_announces_none(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: "clicked")
    host.any_action(lambda task: f"any: {task.action}")
    work(host)
    stream = await server.welcomed()
    assert list(stream.hello.actions) == []
    stream.assign("a", action="other")
    await stream.report()
    assert result(await stream.report()) == "any: other"
    stream.assign("b", action="click")
    await stream.report()
    assert result(await stream.report()) == "clicked"


async def test_a_task_whose_action_has_no_handler_fails(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.welcomed()
    stream.assign("t", action="other")
    assert (await stream.report()).HasField("started")
    failure = (await stream.report()).failed
    assert (failure.error, failure.code) == ("this host has no action 'other'", "unknown_action")
    assert not failure.HasField("retryable")


def test_mistakes_are_told_at_once():
    host = Host("127.0.0.1:1", "h")
    host.action("click")(lambda _: None)
    with pytest.raises(ValueError, match="has a handler already"):
        host.action("click")(lambda _: None)
    with pytest.raises(TypeError, match=r"@host.action\(\)"):
        host.action(lambda _: None)
    with pytest.raises(ValueError, match="slots"):
        Host("127.0.0.1:1", "h", slots=0)
    with pytest.raises(TypeError, match="capabilities"):
        Host("127.0.0.1:1", "h", capabilities="browser")


async def test_a_host_without_handlers_does_not_run():
    with pytest.raises(ValueError, match="no handlers"):
        await Host("127.0.0.1:1", "h").run()


@pytest.fixture(autouse=True)
def _hear_all(caplog):
    caplog.set_level(logging.INFO, logger="taskyard")


async def test_a_task_that_cannot_be_read_fails_and_not_the_host(server, make_host, work):
    host = make_host()
    host.action("click")(lambda task: task.id)
    work(host)
    stream = await server.welcomed()
    stream.assign("far", deadline=Timestamp(seconds=2**60))
    assert (await stream.report()).HasField("started")
    assert (await stream.report()).failed.code == "unreadable"
    stream.assign("t")
    assert await stream.reports(2) == ["t started", "t completed"]
