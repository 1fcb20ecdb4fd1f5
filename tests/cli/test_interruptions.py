"""`taskyard pause | resume | resolve | targets` against a running control plane."""

import json
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from taskyard.v1 import lease_pb2, lease_pb2_grpc, runtime_host_pb2, runtime_host_pb2_grpc, task_pb2, task_pb2_grpc


@pytest.fixture
def server(address, namespace):
    """Submits tasks with fields that the commands do not offer, and runs one, in the namespace of the test."""
    with grpc.insecure_channel(address) as channel:
        yield Server(channel, (("taskyard-namespace", namespace),))


class Server:
    def __init__(self, channel, metadata):
        self.tasks = task_pb2_grpc.TaskServiceStub(channel)
        self.hosts = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel)
        self.leases = lease_pb2_grpc.LeaseServiceStub(channel)
        self.call = {"metadata": metadata, "timeout": 10}

    def submit(self, **fields):
        request = task_pb2.SubmitTaskRequest(agent_id="ann", action="crawl", **fields)
        return self.tasks.SubmitTask(request, **self.call).task_id

    def run(self):
        """Claim a task and start it."""
        self.hosts.RegisterHost(runtime_host_pb2.RegisterHostRequest(host_id="host"), **self.call)
        claim = self.leases.ClaimTask(lease_pb2.ClaimTaskRequest(host_id="host"), **self.call)
        about = {"host_id": "host", "task_id": claim.task_id, "fencing_token": claim.fencing_token}
        self.leases.StartTask(lease_pb2.StartTaskRequest(**about), **self.call)


def test_a_task_is_paused_and_resumed(taskyard, server):
    task_id = server.submit()
    server.run()
    done = taskyard("pause", task_id)
    assert (done.code, done.out, done.err) == (0, f"{task_id} is paused\n", "")
    assert taskyard("resume", task_id).out == f"{task_id} is queued\n"
    assert taskyard("get", task_id, "--json").json["run"] == 2


def test_the_reasons_of_a_pause_and_of_a_resolve_are_shown(taskyard, server):
    task_id = server.submit()
    server.run()
    taskyard("pause", task_id, "--reason", "lunch")
    assert "Job was interrupted by user: lunch" in taskyard("list").out
    taskyard("resolve", task_id, "--reason", "by hand")
    assert taskyard("get", task_id, "--json").json["reason"] == "by hand"


def test_a_pause_waits_for_the_host_and_says_whether_it_may_still_run(taskyard, server):
    task_id = server.submit()
    server.run()
    text = f"{task_id} is paused, it may still run, its host has not stopped yet\n"
    assert taskyard("pause", task_id, "--wait", "1ms").out == text


def test_a_cancel_of_what_no_host_had_says_so(taskyard, server):
    task_id = server.submit()
    assert taskyard("cancel", task_id, "--wait", "30s").out == f"{task_id} is cancelled, no host had it\n"
    other = server.submit()
    assert taskyard("cancel", other, "--wait", "1s", "--json").json["stopping"] == "not_running"


def test_a_wait_is_a_span(taskyard, server):
    refused = taskyard("cancel", server.submit(), "--wait", "soon")
    assert refused.code
    assert "--wait: must be a span" in refused.err


class ResumedTasks(task_pb2_grpc.TaskServiceServicer):
    """A server that records the requests for resuming a task."""

    def __init__(self):
        self.requests = []

    def ResumeTask(self, request, context):  # noqa: N802
        del context
        self.requests.append(request)
        return task_pb2.ResumeTaskResponse(task_id=request.task_id, status=task_pb2.Task.queued)


@pytest.fixture
def resumed():
    """The address of such a server, and its requests."""
    service = ResumedTasks()
    server = grpc.server(ThreadPoolExecutor(1))
    task_pb2_grpc.add_TaskServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}", service.requests
    server.stop(None).wait()


def test_a_task_is_resumed_with_a_new_token_limit(anywhere, resumed):
    address, requests = resumed
    done = anywhere("resume", "tsk_1", "--token-limit", "500", "--server", address)
    assert (done.code, done.out) == (0, "tsk_1 is queued\n")
    assert requests == [task_pb2.ResumeTaskRequest(task_id="tsk_1", token_limit=500)]


def test_a_task_keeps_its_token_limit_unless_a_new_one_is_given(anywhere, resumed):
    address, requests = resumed
    anywhere("resume", "tsk_1", "--server", address)
    anywhere("resume", "tsk_1", "--token-limit", "0", "--server", address)
    assert [request.HasField("token_limit") for request in requests] == [False, True]


@pytest.mark.parametrize("limit", ["-1", "4294967296", "many"])
def test_a_malformed_token_limit_is_refused(anywhere, resumed, limit):
    address, requests = resumed
    done = anywhere("resume", "tsk_1", "--token-limit", limit, "--server", address)
    assert done.code == 2
    assert "--token-limit" in done.err
    assert requests == []


def test_a_held_task_is_released(taskyard, server):
    task_id = server.submit(hold=True)
    assert taskyard("resume", task_id, "--json").json == {"status": "queued", "taskId": task_id}


@pytest.mark.parametrize("result", [{"by": "hand"}, "done", 7, None, [1, {}]])
def test_a_task_is_resolved_with_any_json(taskyard, server, result):
    task_id = server.submit()
    server.run()
    assert taskyard("pause", task_id, "--json").json["status"] == "paused"
    assert taskyard("resolve", task_id, "--result", json.dumps(result)).out == f"{task_id} is done\n"
    assert taskyard("get", task_id, "--json").json["result"] == result


def test_a_task_is_resolved_without_a_result(taskyard, server):
    task_id = server.submit()
    server.run()
    taskyard("pause", task_id)
    assert taskyard("resolve", task_id).code == 0
    assert "result" not in taskyard("get", task_id, "--json").json


def test_a_malformed_result_is_one_line(taskyard, server):
    done = taskyard("resolve", server.submit(), "--result", "{oops")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("taskyard: --result: ")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("command", ["pause", "resume", "resolve"])
def test_a_wrong_state_and_an_unknown_task_are_one_line(taskyard, server, command):
    done = taskyard(command, server.submit())
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("taskyard: task is queued, only a")
    assert taskyard(command, "tsk_0").err == "taskyard: task not found\n"


def test_targets_are_listed_with_what_they_wait_for(taskyard, server):
    blocker = server.submit(target="b")
    server.submit(target="b")
    server.run()
    server.submit(target="a\u202e[31m?")
    taskyard("pause", blocker)
    assert taskyard("targets").out.split() == [
        *("target", "status", "queued", "waits", "for"),
        *("a\ufffd[31m?", "ready", "1"),
        *("b", "blocked", "1", blocker, "to", "be", "resumed,", "resolved", "or", "cancelled"),
    ]


def test_filtered_targets_as_json_are_the_documented_answer(taskyard, server):
    assert taskyard("targets", "--json").json == {"targets": []}
    task_id = server.submit(target="t")
    (target,) = taskyard("targets", "--status", "ready", "--json").json["targets"]
    assert target.pop("since").endswith("Z")
    assert target == {"target": "t", "status": "ready", "queued": 1, "taskId": task_id}
    assert taskyard("targets", "--status", "blocked", "--json").json == {"targets": []}


def test_a_longer_list_of_targets_says_so(taskyard, server):
    for name in "abc":
        server.submit(target=name)
    assert "the first 2; there are more" in taskyard("targets", "--limit", "2").out


def test_stats_count_paused_tasks_and_those_that_wait_for_their_target(taskyard, server):
    def caption():
        return " ".join(taskyard("stats").out.split())

    blocker = server.submit(target="b")
    server.run()
    assert "paused" not in caption()
    assert "target" not in caption()
    taskyard("pause", blocker)
    for _ in range(2):
        server.submit(target="b")
    assert "ms to hand-out, 1 paused, 2 wait for their target (see: taskyard targets)" in caption()
    taskyard("cancel", blocker)
    assert "paused" not in caption()
