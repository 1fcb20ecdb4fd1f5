"""`taskyard watch`: one line per event, or a table on a terminal, until Ctrl-C or until the tasks have ended."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import grpc
import pytest

from taskyard.v1 import task_pb2
from taskyard_server.cli import watch as command
from taskyard_server.cli.connection import connection
from tests.ports import free_port


@contextmanager
def start_watch(*words, address, namespace, **options):
    """Runs `taskyard watch` as the shell does, until the test ends at the latest."""
    environment = os.environ | {"TASKYARD_SERVER": address, "TASKYARD_NAMESPACE": namespace, "COLUMNS": "200"}
    process = subprocess.Popen(
        [sys.executable, "-m", "taskyard_server.cli.main", "watch", *words],
        env=environment,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=30)


def test_the_watch_of_a_task_shows_its_state_and_ends_with_it(taskyard, submit):
    task_id = submit()
    taskyard("cancel", task_id)
    watched = taskyard("watch", "--task", task_id, "--until-ended")
    assert watched.code == 1, "it was cancelled"
    (line,) = watched.out.splitlines()
    assert re.fullmatch(rf"\d\d:\d\d:\d\d\.\d\d\d  {task_id}  ann  click  cancelled", line)


def test_json_has_one_event_per_line(taskyard, submit):
    task_id = submit("--params", '{"x": 1}')
    taskyard("cancel", task_id)
    watched = taskyard("watch", "--task", task_id, "--until-ended", "--json")
    (event,) = [json.loads(line) for line in watched.out.splitlines()]
    assert (event["kind"], event["task"]["taskId"], event["task"]["state"]) == ("current", task_id, "cancelled")
    assert "params" not in event["task"]


def test_events_are_shown_until_ctrl_c_which_is_not_a_failure(taskyard, submit, address, namespace):
    first = submit("--action", "first")
    with start_watch("--json", "--task", first, "--agent", "ann", address=address, namespace=namespace) as process:
        assert json.loads(process.stdout.readline())["kind"] == "current"
        taskyard("cancel", first)
        event = json.loads(process.stdout.readline())
        assert (event["kind"], event["previousState"], event["task"]["state"]) == ("changed", "queued", "cancelled")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert (out, err, process.returncode) == ("", "", 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--state", "odd"], 'state: unknown state "odd"'),
        (["--until-ended"], "untilEnded: needs taskIds or batchId"),
    ],
)
def test_a_refusal_of_the_server_is_one_line(taskyard, words, message):
    watched = taskyard("watch", *words)
    assert watched.code == 1
    assert watched.err.startswith(f"taskyard: {message}")
    assert watched.err.count("\n") == 1


def test_without_a_server_it_fails_at_once(anywhere):
    address = f"127.0.0.1:{free_port()}"
    watched = anywhere("watch", "--server", address)
    assert (watched.err, watched.code) == (f"taskyard: no server answers at {address}\n", 3)


def test_texts_of_callers_cannot_control_the_terminal():
    event = task_pb2.TaskEvent(task=task_pb2.Task(agent_id="[red]\x1b[2J", error="a\nb", state=task_pb2.Task.failed))
    shown = [cell.plain for cell in command._cells(event)]
    assert "[red]\ufffd[2J" in shown
    assert "a\ufffdb" in shown


def test_progress_is_shown_as_a_share_and_its_message():
    task = task_pb2.Task(state=task_pb2.Task.running, progress=task_pb2.Progress(fraction=0.5, message="half"))
    event = task_pb2.TaskEvent(task=task, kind=task_pb2.TaskEvent.progressed)
    assert command._cells(event)[-1].plain == "50% half"


def test_a_terminal_shows_the_newest_at_the_bottom(taskyard, submit, address, namespace):
    ids = [submit() for _ in range(3)]
    for task_id in ids:
        taskyard("cancel", task_id)
    ours, theirs = pty.openpty()
    words = [word for task_id in ids for word in ("--task", task_id)]
    terminal = {"stdout": theirs, "stderr": theirs, "stdin": subprocess.DEVNULL}
    with start_watch(*words, "--until-ended", address=address, namespace=namespace, **terminal) as process:
        assert process.wait(timeout=30) == 1
        os.close(theirs)
        drawn = ""
        # Reading a terminal whose other end is closed is an error on Linux.
        try:
            while data := os.read(ours, 65536):
                drawn += data.decode()
        except OSError:
            pass
    assert "error or progress" in drawn
    last = drawn[drawn.rindex("error or progress") :]
    assert re.findall(r"tsk_[0-9a-f]{32}", last) == sorted(ids)
    assert "cancelled" in last


# Broken streams


class Broken(grpc.RpcError, grpc.Call):
    """The error with which a stream ends."""

    def __init__(self, status):
        self._status = status

    def code(self):
        return self._status

    def details(self):
        return "over"

    def trailing_metadata(self):
        return ()


Broken.__abstractmethods__ = frozenset()


class Streams:
    """Replaces the stub: each watch gets the next scripted stream, and its request is recorded."""

    def __init__(self, *scripts):
        self.asked = []
        self._scripts = list(scripts)

    def __call__(self, _channel):
        return self

    def WatchTasks(self, asked, **_):  # noqa: N802
        self.asked.append(task_pb2.WatchTasksRequest.FromString(asked.SerializeToString()))
        for step in self._scripts.pop(0):
            if isinstance(step, Exception):
                raise step
            yield step


def message(number):
    event = task_pb2.TaskEvent(task=task_pb2.Task(task_id=f"t{number}"))
    return task_pb2.WatchTasksResponse(events=[event], cursor=f"c{number}")


END = task_pb2.WatchTasksResponse(end=task_pb2.WatchEnd(reason=task_pb2.WatchEnd.tasks_ended))
GONE = Broken(grpc.StatusCode.UNAVAILABLE)
EXPIRED = Broken(grpc.StatusCode.OUT_OF_RANGE)


def watched(monkeypatch, streams, **asked):
    monkeypatch.setattr(command.task_pb2_grpc, "TaskServiceStub", streams)
    monkeypatch.setattr(command, "RECONNECT_SECS", 0)
    request = task_pb2.WatchTasksRequest(**asked)
    return [event.task.task_id for event in command._events(request, connection(server="127.0.0.1:1"))]


def test_a_broken_watch_resumes_from_the_last_cursor_and_says_so_once(monkeypatch, capsys):
    streams = Streams([message(1), GONE], [GONE], [message(2), message(3), END])
    assert watched(monkeypatch, streams, include_current=True) == ["t1", "t2", "t3"]
    assert [asked.cursor for asked in streams.asked] == ["", "c1", "c1"]
    assert [asked.include_current for asked in streams.asked] == [True, False, False]
    assert capsys.readouterr().err.count("goes on as soon as it can") == 1


@pytest.mark.parametrize("names_tasks", [True, False])
def test_a_watch_that_cannot_resume_begins_again(monkeypatch, names_tasks):
    streams = Streams([message(1), GONE], [EXPIRED], [message(9), END])
    assert watched(monkeypatch, streams, task_ids=["t1"] * names_tasks) == ["t1", "t9"]
    last = streams.asked[-1]
    assert last.cursor == ""
    assert last.include_current is names_tasks
