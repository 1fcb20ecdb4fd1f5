"""0 is done, 1 that a task ended badly or the server refused, 2 a mistake in the words, 3 that no server answered."""

import os
import pty
import signal
import subprocess
import sys
import threading

import grpc
import pytest

from taskyard.v1.lease_pb2 import ClaimTaskRequest, CompleteTaskRequest, FailTaskRequest
from taskyard.v1.lease_pb2_grpc import LeaseServiceStub
from taskyard.v1.runtime_host_pb2 import RegisterHostRequest
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub
from tests.cases import every_case
from tests.ports import free_port


class Worker:
    """A host in the namespace of the test, which ends the next task as it is told."""

    def __init__(self, channel, namespace):
        self._leases = LeaseServiceStub(channel)
        self._metadata = (("taskyard-namespace", namespace),)
        RuntimeHostServiceStub(channel).RegisterHost(RegisterHostRequest(host_id="h"), metadata=self._metadata)

    def end(self, error=None):
        request = ClaimTaskRequest(host_id="h", wait_ms=20_000)
        claimed = self._leases.ClaimTask(request, metadata=self._metadata)
        report = {"host_id": "h", "task_id": claimed.task.task_id, "fencing_token": claimed.fencing_token}
        if error is None:
            done = CompleteTaskRequest(**report)
            done.result.string_value = "fetched"
            self._leases.CompleteTask(done, metadata=self._metadata)
        else:
            self._leases.FailTask(FailTaskRequest(**report, error=error), metadata=self._metadata)


@pytest.fixture
def worker(address, namespace):
    with grpc.insecure_channel(address) as channel:
        yield Worker(channel, namespace)


@pytest.mark.parametrize(
    ("error", "code", "told"), [(None, 0, 'is done: "fetched"'), ("no such page", 1, "is failed: no such page")]
)
def test_wait_get_and_watch_end_as_the_task_has(taskyard, submit, worker, error, code, told):
    task_id = submit()
    worker.end(error)
    waited = taskyard("wait", task_id)
    assert (waited.code, waited.out, waited.err) == (code, f"{task_id} {told}\n", "")
    assert taskyard("get", task_id).code == code
    assert taskyard("get", task_id, "--json").code == code
    assert taskyard("watch", "--task", task_id, "--until-ended").code == code


@pytest.mark.parametrize(("error", "code"), [(None, 0), ("no such page", 1)])
def test_submit_waits_for_the_end(taskyard, worker, error, code):
    ending = threading.Thread(target=worker.end, args=(error,))
    ending.start()
    done = taskyard("submit", "--agent", "ann", "--action", "click", "--wait")
    ending.join()
    first, last = done.out.splitlines()
    assert done.code == code
    assert first.endswith("is queued at position 1")
    assert last.split()[:3] == [first.split()[0], "is", "failed:" if code else "done:"]


def test_submit_that_waits_prints_the_ended_task_as_json(taskyard, worker):
    ending = threading.Thread(target=worker.end)
    ending.start()
    done = taskyard("submit", "--agent", "ann", "--action", "click", "--wait", "--json")
    ending.join()
    assert (done.code, done.json["state"], done.json["result"]) == (0, "done", "fetched")


def test_a_cancelled_task_has_ended_badly(taskyard, submit):
    task_id = submit()
    taskyard("cancel", task_id)
    for words in (("wait", task_id), ("get", task_id), ("watch", "--task", task_id, "--until-ended")):
        assert taskyard(*words).code == 1


def test_one_bad_end_among_several_is_a_bad_end(taskyard, submit, worker):
    good, bad = submit(), submit()
    worker.end()
    taskyard("cancel", bad)
    assert taskyard("wait", good).code == 0
    waited = taskyard("wait", good, bad)
    assert (waited.code, len(waited.out.splitlines())) == (1, 2)
    assert [task["state"] for task in taskyard("wait", good, bad, "--json").json["tasks"]] == ["done", "cancelled"]


def test_a_task_that_has_not_ended_is_no_failure_of_get(taskyard, submit):
    assert taskyard("get", submit()).code == 0


def test_a_wait_that_is_too_long_is_an_error(taskyard, submit):
    task_id = submit()
    waited = taskyard("wait", task_id, "--timeout", "50ms")
    assert (waited.code, waited.out, waited.err) == (1, "", f"taskyard: {task_id} is still queued\n")


def test_a_refusal_of_the_server_is_1(taskyard):
    assert taskyard("get", "tsk_1").code == 1
    assert taskyard("wait", "tsk_1").code == 1
    assert taskyard("submit", "--agent", "", "--action", "click").code == 1


@every_case(
    "words",
    [
        ("nonsense",),
        ("list", "--nonsense"),
        ("get",),
        ("list", "--limit", "0"),
        ("list", "--since", "soon"),
        ("list", "--reverse"),
        ("wait", "tsk_1", "--timeout", "soon"),
        ("submit", "--agent", "ann", "--action", "click", "--timeout", "1s"),
        ("submit", "--agent", "ann", "--action", "click", "--params", "{"),
        ("schedule", "create", "--agent", "ann", "--action", "click"),
        ("namespace", "limit", "x"),
        ("list", "--server", "http://x"),
    ],
    ids=" ".join,
)
def test_a_mistake_in_the_words_is_2(taskyard, words):
    refused = taskyard(*words)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("words", ["list", "wait tsk_1", "watch", "stats", "get tsk_01a206ede947"])
def test_no_server_is_3(anywhere, words):
    nobody = f"127.0.0.1:{free_port()}"
    failed = anywhere(*words.split(), "--server", nobody)
    assert (failed.code, failed.out, failed.err) == (3, "", f"taskyard: no server answers at {nobody}\n")


def test_lists_are_sorted_by_what_is_asked_for(taskyard, submit):
    ids = [submit("--priority", priority) for priority in ("5", "1", "9")]
    taskyard("cancel", ids[2])

    def listed(*words):
        return [ids.index(task["taskId"]) for task in taskyard("list", "--json", *words).json["tasks"]]

    assert listed() == [0, 1, 2]
    assert listed("--newest") == listed("--sort", "created", "--reverse") == [2, 1, 0]
    assert listed("--sort", "priority") == [1, 0, 2]
    assert listed("--sort", "ended")[0] == listed("--sort", "state")[0] == 2
    assert listed("--newest", "--limit", "2", "--sort", "created") == [1, 2]


def test_ctrl_c_ends_a_wait_with_130_and_leaves_the_task_alone(taskyard, submit, address, namespace):
    task_id = submit()
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "taskyard_server", "wait", task_id],
        env=os.environ | {"TASKYARD_SERVER": address, "TASKYARD_NAMESPACE": namespace},
        stdout=subprocess.PIPE,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        # On a terminal it says what it waits for.
        seen = b""
        while task_id.encode() not in seen:
            seen += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        assert process.communicate()[0] == b""
    os.close(ours)
    assert taskyard("get", task_id, "--json").json["state"] == "queued"


def test_what_is_no_text_is_a_mistake(taskyard):
    refused = taskyard("list", "--agent", os.fsdecode(b"Gr\xf6\xdfe"))
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
