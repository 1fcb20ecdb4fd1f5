"""`taskyard list` with a range of times, the youngest first, and with what has left memory."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import grpc
import pytest

from taskyard.v1 import lease_pb2, lease_pb2_grpc, runtime_host_pb2, runtime_host_pb2_grpc, task_pb2, task_pb2_grpc
from tests.cases import every_case
from tests.environment import without_settings
from tests.ports import free_port


@pytest.fixture(scope="module")
def kept_address(tmp_path_factory):
    """The gRPC address of a server with a store, of which one ended task is in memory."""
    folder = tmp_path_factory.mktemp("yard")
    (folder / "taskyard.json").write_text('{"scheduler": {"maxRetainedTasks": 1}}')
    address, metrics = (f"127.0.0.1:{free_port()}" for _ in range(2))
    command = [sys.executable, "-m", "taskyard_server.cli.main", "up", "--no-gateway", "--log-level", "error"]
    command += ["--grpc", address, "--metrics", metrics, "--config", str(folder / "taskyard.json")]
    server = subprocess.Popen(
        [*command, "--store", f"sqlite:///{folder / 'yard.db'}"], env=without_settings(), stdout=subprocess.DEVNULL
    )
    try:
        with grpc.insecure_channel(address) as channel:
            grpc.channel_ready_future(channel).result(timeout=30)
        yield address
    finally:
        server.terminate()
        server.wait(timeout=30)


def ids(taskyard, *words):
    return [task["taskId"] for task in taskyard("list", "--json", *words).json["tasks"]]


def test_the_youngest_may_come_first(taskyard, submit):
    submitted = [submit() for _ in range(3)]
    assert ids(taskyard, "--newest") == submitted[::-1]
    assert "the last 2; there are more" in taskyard("list", "--newest", "--limit", "2").out


def test_a_time_says_since_when_and_until_when(taskyard, submit):
    submitted = submit()
    now = datetime.now(UTC)
    soon, earlier = ((now + timedelta(minutes=minutes)).isoformat() for minutes in (1, -1))
    assert ids(taskyard, "--since", earlier) == ids(taskyard, "--until", soon) == [submitted]
    assert ids(taskyard, "--since", soon) == ids(taskyard, "--until", earlier) == []
    local = (now.astimezone() - timedelta(minutes=1)).replace(tzinfo=None).isoformat()
    assert ids(taskyard, "--since", local) == [submitted]
    assert ids(taskyard, "--until", local) == []
    assert ids(taskyard, "--since", "2020-01-01", "--until", "2999-12-31T23:59:59Z") == [submitted]


@pytest.mark.parametrize("span", ["1.5m", "2h", "7d", "3600s"])
def test_a_span_says_how_long_ago(taskyard, submit, span):
    submitted = submit()
    assert ids(taskyard, "--since", span) == [submitted]
    assert ids(taskyard, "--until", span) == []


@every_case("option", ["--since", "--until"])
@every_case("text", ["yesterday", "", "2", "-2h", "2w", "2026-13-01", "9" * 400 + "d", "99999999d"])
def test_what_is_no_time_is_refused_in_one_line(taskyard, option, text):
    refused = taskyard("list", f"{option}={text}")
    assert refused.code == 2
    assert refused.err.startswith(f"{option}: must be a duration such as 30m") or f"{option}: must be" in refused.err


def test_the_history_has_what_left_memory(taskyard, submit, kept_address, monkeypatch):
    monkeypatch.setenv("TASKYARD_SERVER", kept_address)
    submitted = [submit() for _ in range(4)]
    for task_id in submitted:
        taskyard("cancel", task_id)
    assert ids(taskyard) == submitted[3:]
    assert ids(taskyard, "--history") == submitted
    assert ids(taskyard, "--history", "--newest", "--limit", "2", "--since", "1h") == submitted[:1:-1]
    assert taskyard("get", submitted[0], "--json").json["state"] == "cancelled"


def test_a_tree_has_what_left_memory(taskyard, kept_address, namespace, monkeypatch):
    monkeypatch.setenv("TASKYARD_SERVER", kept_address)
    call = {"metadata": (("taskyard-namespace", namespace),), "timeout": 20}
    with grpc.insecure_channel(kept_address) as channel:
        hosts = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel)
        hosts.RegisterHost(runtime_host_pb2.RegisterHostRequest(host_id="h"), **call)
        leases, tasks = lease_pb2_grpc.LeaseServiceStub(channel), task_pb2_grpc.TaskServiceStub(channel)

        def run(parent_id, name):
            """Submit a task, and let it begin; its id, and the fields of its end."""
            request = task_pb2.SubmitTaskRequest(agent_id="ann", action=name, parent_id=parent_id)
            task_id = tasks.SubmitTask(request, **call).task_id
            lease = leases.ClaimTask(lease_pb2.ClaimTaskRequest(host_id="h", wait_ms=10_000), **call)
            fields = {"host_id": "h", "task_id": task_id, "fencing_token": lease.fencing_token}
            leases.StartTask(lease_pb2.StartTaskRequest(**fields), **call)
            return task_id, lease_pb2.CompleteTaskRequest(**fields)

        root, end_of_root = run(None, "root")
        child, end_of_child = run(root, "child")
        grandchild, end = run(child, "grandchild")
        for each in (end, end_of_child, end_of_root):
            leases.CompleteTask(each, **call)
    assert ids(taskyard) == [root]
    told = [line.split(" done")[0] for line in taskyard("tree", grandchild, "--root").out.splitlines()]
    assert told == [f"root {root}", f"└── child {child}", f"    └── grandchild {grandchild}"]


def test_a_server_without_a_store_says_that_it_keeps_no_history(taskyard):
    refused = taskyard("list", "--history")
    if refused.code:
        assert "history: this server keeps none" in refused.err
