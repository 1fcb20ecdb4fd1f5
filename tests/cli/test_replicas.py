"""`taskyard replicas` against a server that shares its store with others, and one that does not."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from taskyard.v1 import admin_pb2 as pb
from taskyard.v1.admin_pb2_grpc import AdminServiceServicer, add_AdminServiceServicer_to_server
from taskyard_server.conversion.timestamps import timestamp


class Admin(AdminServiceServicer):
    """Two replicas, one of which is dead. `asked` are the names of those that were to drain or not."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []

    def _alive(self, draining: bool = False) -> pb.Replica:
        now = timestamp(time.time())
        fields = {"version": "0.2.0", "format_level": 2, "started_at": now, "renewed_at": now}
        return pb.Replica(name="one", instance="1a", address="h:1", namespaces=3, draining=draining, **fields)

    def ListReplicas(self, request, context):  # noqa: N802
        del request, context
        alive, dead = self._alive(), pb.Replica(name="two", instance="2b", died_at=timestamp(time.time() - 7200))
        alive.answering = True
        dead.format_level = 1
        return pb.ListReplicasResponse(replicas=[alive, dead], format_level=1)

    def DrainReplica(self, request, context):  # noqa: N802
        del context
        self.asked.append((request.replica, True))
        return pb.DrainReplicaResponse(replicas=[self._alive(draining=True)])

    def ResumeReplica(self, request, context):  # noqa: N802
        del context
        self.asked.append((request.replica, False))
        return pb.ResumeReplicaResponse(replicas=[self._alive()])


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    """A terminal on which every row is one line."""
    monkeypatch.setenv("COLUMNS", "300")


@pytest.fixture
def admin() -> Admin:
    return Admin()


@pytest.fixture
def shared(admin: Admin) -> Iterator[str]:
    """The address of a server that has replicas."""
    server = grpc.server(ThreadPoolExecutor(1))
    add_AdminServiceServicer_to_server(admin, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def cells(done):
    return [re.split(" {2,}", line.strip()) for line in done.out.splitlines()]


def test_replicas_are_listed_the_dead_too(anywhere, shared):
    head, one, two = cells(anywhere("replicas", "--server", shared))
    assert head[:6] == ["name", "status", "namespaces", "address", "version", "level"]
    assert one[:6] == ["one (this one)", "alive", "3", "h:1", "0.2.0", "2 (1 in force)"]
    assert one[-2:] == ["0 s ago", "1a"]
    assert two[:3] == ["two", "dead, 2 h ago", "0"]


def test_as_json_it_is_the_documented_answer(anywhere, shared):
    answer = anywhere("replicas", "--server", shared, "--json").json
    assert [each["name"] for each in answer["replicas"]] == ["one", "two"]
    assert (answer["formatLevel"], answer["replicas"][0]["draining"]) == (1, False)


def test_one_is_drained_and_resumed(anywhere, shared, admin):
    assert anywhere("replicas", "drain", "one", "--server", shared).out == "one drains, and owns 3 namespaces\n"
    assert (
        anywhere("replicas", "resume", "1a", "--server", shared).out == "one takes namespaces, and owns 3 namespaces\n"
    )
    assert admin.asked == [("one", True), ("1a", False)]


def test_options_of_the_list_are_not_lost_before_a_command(anywhere, shared, admin):
    failed = anywhere("replicas", "--server", shared, "drain", "one")
    assert (failed.code, failed.err) == (2, "taskyard: give options after drain\n")
    assert admin.asked == []


def test_a_server_that_shares_its_store_with_nobody_says_so(taskyard):
    assert taskyard("replicas").out == "this server shares its store with no others\n"
    failed = taskyard("replicas", "drain", "one")
    assert (failed.code, failed.out) == (1, "")
    assert failed.err.startswith("taskyard: this server shares its store with no others")
