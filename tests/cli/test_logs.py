"""`taskyard logs`: what a task has said, as it is, and what it says until it has ended."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import grpc
import pytest

from taskyard.v1 import lease_pb2, lease_pb2_grpc, output_pb2, output_pb2_grpc, runtime_host_pb2, runtime_host_pb2_grpc
from taskyard.values.convert import value_from
from taskyard_server.cli import logs as command
from taskyard_server.cli.connection import connection
from taskyard_server.cli.failure import Failure
from tests.cli.test_watch import GONE, Broken


class Running:
    """A task that a host has: it says something, and ends."""

    def __init__(self, channel, namespace):
        self._leases = lease_pb2_grpc.LeaseServiceStub(channel)
        self._output = output_pb2_grpc.OutputServiceStub(channel)
        self._call = {"metadata": (("taskyard-namespace", namespace),), "timeout": 20}
        hosts = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel)
        hosts.RegisterHost(runtime_host_pb2.RegisterHostRequest(host_id="h"), **self._call)
        claim = self._leases.ClaimTask(lease_pb2.ClaimTaskRequest(host_id="h", wait_ms=10_000), **self._call)
        self._lease = {"host_id": "h", "task_id": claim.task.task_id, "fencing_token": claim.fencing_token}
        self._said = 0
        self._has_ended = False

    def say(self, channel="", **data):
        chunks = [output_pb2.NewChunk(channel=channel, **data)]
        request = output_pb2.AppendOutputRequest(**self._lease, number=self._said + 1, chunks=chunks)
        self._said = self._output.AppendOutput(request, **self._call).taken

    def end(self):
        if not self._has_ended:
            self._has_ended = True
            self._leases.CompleteTask(lease_pb2.CompleteTaskRequest(**self._lease), **self._call)


@pytest.fixture
def channel(address):
    with grpc.insecure_channel(address) as channel:
        yield channel


@pytest.fixture
def said(submit, channel, namespace):
    """A task that runs and has said something in each form: its id, and itself."""
    task_id = submit()
    task = Running(channel, namespace)
    task.say(text="a text ")
    task.say(text="of two chunks\n", channel="stderr")
    task.say(json=value_from({"ä": [1]}), channel="steps")
    task.say(binary=b"bytes\n")
    yield task_id, task
    # A server that is told to end waits for what runs.
    task.end()


@contextmanager
def followed(*words, address, namespace):
    """Runs `taskyard logs --follow` as the shell does."""
    environment = os.environ | {"TASKYARD_SERVER": address, "TASKYARD_NAMESPACE": namespace}
    process = subprocess.Popen(
        [sys.executable, "-m", "taskyard_server.cli.main", "logs", "--follow", *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=30)


def test_what_a_task_has_said_is_printed_as_it_is(taskyard, said):
    task_id, _ = said
    shown = taskyard("logs", task_id)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == 'a text of two chunks\n{"ä": [1]}\nbytes\n'


def test_a_part_of_it_is_named_by_number_and_channels(taskyard, said):
    task_id, _ = said
    assert taskyard("logs", task_id[:20], "--after", "3").out == "bytes\n"
    assert taskyard("logs", task_id, "--channel", "output").out == "a text bytes\n"
    assert taskyard("logs", task_id, "--channel", "stderr", "--channel", "x").out == "of two chunks\n"


def test_json_has_one_chunk_per_line(taskyard, said):
    task_id, _ = said
    chunks = [json.loads(line) for line in taskyard("logs", task_id, "--json").out.splitlines()]
    assert [(chunk["sequence"], chunk["channel"], chunk["attempt"]) for chunk in chunks] == [
        (1, "output", 1),
        (2, "stderr", 1),
        (3, "steps", 1),
        (4, "output", 1),
    ]
    assert (chunks[0]["text"], chunks[2]["json"], chunks[3]["binary"]) == ("a text ", {"ä": [1]}, "Ynl0ZXMK")


def test_it_follows_until_the_task_has_ended(said, address, namespace):
    task_id, task = said
    with followed(task_id, address=address, namespace=namespace) as process:
        assert process.stdout.readline() == b"a text of two chunks\n"
        task.say(binary=b"\xff\n")
        task.end()
        rest = process.stdout.read()
        assert (process.wait(timeout=30), process.stderr.read()) == (0, b"")
    assert rest == '{"ä": [1]}\nbytes\n'.encode() + b"\xff\n"


def test_ctrl_c_ends_it(said, address, namespace):
    task_id, _ = said
    with followed(task_id, address=address, namespace=namespace) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130


def test_a_refusal_of_the_server_is_one_line(taskyard, said):
    task_id, _ = said
    unknown = taskyard("logs", "tsk_1")
    assert (unknown.code, unknown.err) == (1, "taskyard: task not found\n")
    malformed = taskyard("logs", task_id, "--channel", "a b")
    assert malformed.code == 1
    assert malformed.err.startswith("taskyard: channels[0]: must have")


# Broken streams


class Streams:
    """Replaces the stub: each reading gets the next scripted stream, and its request is recorded."""

    def __init__(self, *scripts):
        self.asked = []
        self._scripts = list(scripts)

    def __call__(self, _channel):
        return self

    def ReadOutput(self, asked, **_):  # noqa: N802
        self.asked.append(output_pb2.ReadOutputRequest.FromString(asked.SerializeToString()))
        for step in self._scripts.pop(0):
            if isinstance(step, Exception):
                raise step
            yield step


def message(*numbers, state="running", first=1):
    chunks = [output_pb2.OutputChunk(sequence=number, text=f"{number}") for number in numbers]
    return output_pb2.ReadOutputResponse(chunks=chunks, next_after=numbers[-1], state=state, first_sequence=first)


def texts(monkeypatch, streams, **asked):
    monkeypatch.setattr(command.output_pb2_grpc, "OutputServiceStub", streams)
    monkeypatch.setattr(command, "RECONNECT_SECS", 0)
    request = output_pb2.ReadOutputRequest(**asked)
    return [chunk.text for chunk in command._chunks(request, connection(server="127.0.0.1:1"))]


def test_a_broken_reading_goes_on_after_the_last_chunk_and_says_so_once(monkeypatch, capsys):
    streams = Streams([message(1, 2), GONE], [GONE], [message(3)], [message(4, state="done")])
    assert texts(monkeypatch, streams, follow=True) == ["1", "2", "3", "4"]
    assert [asked.after for asked in streams.asked] == [0, 2, 2, 3]
    assert capsys.readouterr().err.count("the output broke off") == 2


def test_a_task_that_is_lost_ends_it(monkeypatch):
    streams = Streams([message(1), GONE], [Broken(grpc.StatusCode.NOT_FOUND)])
    with pytest.raises(Failure, match="over"):
        texts(monkeypatch, streams, follow=True)


def test_chunks_that_were_dropped_are_counted(monkeypatch, capsys):
    assert texts(monkeypatch, Streams([message(8, 9, first=8)])) == ["8", "9"]
    assert "7 chunks were dropped to make room" in capsys.readouterr().err
