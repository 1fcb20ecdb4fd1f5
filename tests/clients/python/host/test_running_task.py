"""What a handler sees of its task, and what it reports while it runs."""

import asyncio
import json
import os
import subprocess
import sys

import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1.task_pb2 import Attempt
from tests.clients.python.host.scripted_server import result_of

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


# The task


async def test_a_handler_sees_the_task_as_it_was_assigned(final_report):
    seen = {}

    async def click(task):
        names = ("id", "action", "params", "tab_id", "ref", "labels", "traceparent", "fencing_token", "attempt")
        seen.update({name: getattr(task, name) for name in names}, deadline=task.deadline.timestamp())

    await final_report(
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
    assert isinstance(seen["fencing_token"], int)


PRINTS_ITS_ENVIRONMENT = (sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))")


def environment_of_a_child(task):
    """The environment of a process that a handler spawns for its task."""
    done = subprocess.run(
        PRINTS_ITS_ENVIRONMENT, env=task.environment(), capture_output=True, check=True, timeout=60, cwd="/"
    )
    return {"environment": json.loads(done.stdout)}


async def test_a_process_that_a_handler_spawns_gets_its_task_and_trace(final_report, monkeypatch):
    monkeypatch.setenv("OF_THE_HOST", "yes")
    attempts = [Attempt(number=1, ended_at=Timestamp(seconds=1))]
    report = await final_report(environment_of_a_child, traceparent=TRACE, token=7, attempts=attempts)
    seen = result_of(report)["environment"]
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


async def test_the_trace_of_the_host_is_not_passed_on(final_report, monkeypatch):
    monkeypatch.setenv("TRACEPARENT", TRACE)
    monkeypatch.setenv("TRACESTATE", "a=b")
    monkeypatch.setenv("TASKYARD_TRACE_ID", "of the host")
    monkeypatch.setenv("TASKYARD_TASK_ID", "of the host")
    seen = result_of(await final_report(environment_of_a_child))["environment"]
    assert not {"TRACEPARENT", "TRACESTATE", "TASKYARD_TRACE_ID"} & seen.keys()
    assert seen["TASKYARD_TASK_ID"] == "t"
    assert os.environ["TRACEPARENT"] == TRACE, "the environment of this process changed"


@pytest.mark.parametrize(
    ("attempts", "number"),
    [
        ([Attempt(number=1, ended_at=Timestamp(seconds=1))], 2),
        ([Attempt(number=1, ended_at=Timestamp(seconds=1)), Attempt(number=2)], 2),
    ],
    ids=["the attempts before", "the present one too"],
)
async def test_a_handler_knows_which_attempt_it_is(final_report, attempts, number):
    async def click(task):
        return task.attempt

    assert result_of(await final_report(click, attempts=attempts)) == number


# Progress


async def test_progress_is_sent_while_the_handler_runs(server, make_host, work):
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


@pytest.mark.parametrize(("given", "reported"), [(-1, 0), (7, 1), (float("nan"), 0)])
async def test_a_fraction_outside_0_to_1_counts_as_the_nearer_bound(server, make_host, work, given, reported):
    host = make_host()

    @host.action("click")
    async def click(task):
        await task.progress(given)

    work(host)
    stream = await server.welcomed()
    stream.assign("t")
    await stream.report()
    assert (await stream.report()).progress.fraction == reported
