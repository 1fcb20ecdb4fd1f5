"""`taskyard why` and `taskyard demand` against a running control plane."""

import json
import subprocess
import sys

import grpc
import pytest

from taskyard.v1.lease_pb2 import ClaimTaskRequest
from taskyard.v1.lease_pb2_grpc import LeaseServiceStub
from taskyard.v1.runtime_host_pb2 import RegisterHostRequest
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub
from tests.environment import without_settings
from tests.ports import free_port


def test_why_names_each_reason_and_how_many_come_first(taskyard, submit):
    submit()
    held = submit("--hold")
    done = taskyard("why", held)
    assert (done.code, done.err) == (0, "")
    first, _, *reasons = done.out.splitlines()
    assert first == f"{held} is pending"
    assert [reason.split()[0] for reason in reasons] == ["held", "no_host"]
    taskyard("resume", held)
    assert taskyard("why", held).out.splitlines()[-1] == "1 tasks come first in claim order"


def test_why_as_json_is_the_documented_answer(taskyard, submit):
    task_id = submit()
    shown = taskyard("why", task_id, "--json").json
    assert (shown["taskId"], shown["state"], shown["runnable"], shown["ahead"]) == (task_id, "queued", False, 0)
    assert [reason["kind"] for reason in shown["reasons"]] == ["no_host"]


def test_what_has_ended_waits_for_nothing(taskyard, submit):
    task_id = submit()
    taskyard("cancel", task_id)
    assert taskyard("why", task_id).out == f"{task_id} is cancelled, and waits for nothing\n"
    assert taskyard("why", task_id, "--json").json["reasons"] == []


def test_an_unknown_task_is_one_line(taskyard):
    done = taskyard("why", "tsk_nope")
    assert (done.code, done.err) == (1, "taskyard: task not found\n")


def test_without_pools_there_is_no_demand(taskyard):
    done = taskyard("demand")
    assert (done.code, done.out) == (0, "no pool is configured, see scheduler.pools\n")
    assert taskyard("demand", "--pool", "gpu").out == "no such pool is configured, see scheduler.pools\n"
    assert taskyard("demand", "--json").json == {"pools": []}


@pytest.fixture
def with_pools(tmp_path, monkeypatch):
    """The gRPC address of a control plane with pools."""
    grpc_at, metrics_at = (f"127.0.0.1:{free_port()}" for _ in range(2))
    config = tmp_path / "taskyard.json"
    pools = {"crawlers": {"actions": ["crawl"]}, "all": {}}
    config.write_text(json.dumps({"shutdownGracePeriodSeconds": 0, "scheduler": {"pools": pools}}))
    command = [sys.executable, "-m", "taskyard_server.cli.main", "up", "--no-gateway", "--log-level", "error"]
    command += ["--config", str(config), "--grpc", grpc_at, "--metrics", metrics_at]
    server = subprocess.Popen(command, env=without_settings(), stdout=subprocess.DEVNULL)
    try:
        with grpc.insecure_channel(grpc_at) as channel:
            grpc.channel_ready_future(channel).result(timeout=30)
        monkeypatch.setenv("TASKYARD_SERVER", grpc_at)
        yield grpc_at
    finally:
        server.terminate()
        server.wait(timeout=30)


def test_demand_shows_each_pool_or_one(taskyard, with_pools, namespace):
    taskyard("submit", "--agent", "ann", "--action", "crawl")
    taskyard("submit", "--agent", "ann", "--action", "index")
    with grpc.insecure_channel(with_pools) as channel:
        metadata = [("taskyard-namespace", namespace)]
        hosts, leases = RuntimeHostServiceStub(channel), LeaseServiceStub(channel)
        hosts.RegisterHost(RegisterHostRequest(host_id="host", actions=["index"]), metadata=metadata)
        leases.ClaimTask(ClaimTaskRequest(host_id="host"), metadata=metadata)
    every, crawlers = taskyard("demand", "--json").json["pools"]
    assert (every["pool"], every["runnable"], every["inflight"], every["hosts"]) == ("all", 1, 1, 1)
    assert (crawlers["pool"], crawlers["runnable"], crawlers["inflight"], crawlers["hosts"]) == ("crawlers", 1, 0, 0)
    (_, row) = taskyard("demand", "--pool", "crawlers").out.splitlines()
    assert row.split()[:3] == ["crawlers", "1", "0"]
