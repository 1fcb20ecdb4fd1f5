"""`taskyard hosts | drain` against a running control plane."""

import re

import grpc
import pytest

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub


@pytest.fixture
def register(address, namespace):
    """Registers a host in the namespace of the test."""

    def run(host_id, **fields):
        with grpc.insecure_channel(address) as channel:
            request = pb.RegisterHostRequest(host_id=host_id, **fields)
            RuntimeHostServiceStub(channel).RegisterHost(request, metadata=(("taskyard-namespace", namespace),))

    return run


def test_no_hosts_are_an_empty_list(taskyard):
    assert taskyard("hosts", "--json").json == {"hosts": []}
    assert taskyard("hosts").code == 0


def test_hosts_are_listed_with_their_profile_and_status(taskyard, register):
    machine = pb.Machine(cpu_percent=12.4, memory_mb=2048)
    register("gpu-1", slots=4, capabilities=["gpu"], actions=["train"], machine=machine)
    register("plain")
    lines = [line.split() for line in taskyard("hosts").out.splitlines()]
    assert lines[0] == ["host", "status", "leases", "slots", "seen", "cpu", "memory", "actions", "capabilities"]
    assert lines[1] == ["gpu-1", "idle", "0", "4", "0", "s", "ago", "12", "%", "2048", "MiB", "train", "gpu"]
    assert lines[2] == ["plain", "idle", "0", "0", "s", "ago"]


def test_hosts_as_json_equal_the_answer_of_rest(taskyard, register):
    register("host-1", slots=2)
    (host,) = taskyard("hosts", "--json").json["hosts"]
    assert {"id": "host-1", "display_name": "host-1", "capabilities": [], "online": True}.items() <= host.items()
    assert (host["status"], host["slots"], host["leases"], host["labels"]) == ("idle", 2, 0, {})


def test_a_drained_host_is_shown_as_one_that_drains(taskyard, register):
    register("host-1")
    assert taskyard("drain", "host-1").out == "host-1 drains, 0 leases are left\n"
    assert "drains" in taskyard("hosts").out
    assert taskyard("drain", "host-1", "--json").json["host"]["draining"] is True


def test_draining_an_unknown_host_is_one_line_and_exit_code_1(taskyard):
    outcome = taskyard("drain", "nobody")
    assert (outcome.err, outcome.code) == ("taskyard: runtime host not found\n", 1)


def test_the_name_of_a_host_cannot_control_the_terminal(taskyard, register):
    register("host-1", capabilities=["[red]x[/red]"])
    assert "[red]x[/red]" in taskyard("hosts").out


def test_the_stats_count_the_hosts_that_are_online(taskyard, register):
    assert "hosts" not in taskyard("stats").out
    register("host-1")
    assert "1 of 1 hosts online" in taskyard("stats").out


def test_a_host_whose_stream_broke_is_shown_as_lost(taskyard, address, namespace):
    with grpc.insecure_channel(address) as channel:
        hello = pb.ConnectRequest(hello=pb.Hello(host_id="host-1", instance="process"))
        metadata = (("taskyard-namespace", namespace),)
        stream = RuntimeHostServiceStub(channel).Connect(iter([hello]), metadata=metadata)
        assert next(stream).HasField("welcome")
        for _ in stream:
            pass
    assert re.search(r"idle, lost \d+ s ago", taskyard("hosts").out)
    assert "0 of 1 hosts online, 1 lost" in taskyard("stats").out


def test_hosts_of_another_namespace_are_not_shown(taskyard, register):
    register("host-1")
    assert taskyard("hosts", "--namespace", "elsewhere", "--json").json == {"hosts": []}
