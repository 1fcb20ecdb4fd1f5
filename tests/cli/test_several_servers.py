"""Commands with several servers to choose from, of which some are dead, and some are the wrong ones."""

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from taskyard.v1 import task_pb2 as pb
from taskyard.v1.task_pb2_grpc import TaskServiceServicer, add_TaskServiceServicer_to_server
from taskyard_server.cli import several_servers, watch
from taskyard_server.core.errors import NotOwner
from taskyard_server.interceptors.errors import trailing_metadata
from tests.ports import free_port


class Replica(TaskServiceServicer):
    """Counts its calls, and refuses the first `strays` of them, since another server owns the namespace."""

    def __init__(self) -> None:
        self.calls = self.strays = 0
        self.address = ""

    def _admit(self, context: Any) -> None:
        self.calls += 1
        if self.strays:
            self.strays -= 1
            refusal = NotOwner("other")
            context.set_trailing_metadata(trailing_metadata(refusal, by_rest=False))
            context.abort(grpc.StatusCode.UNAVAILABLE, refusal.message)

    def ListTasks(self, request: pb.ListTasksRequest, context: Any) -> pb.ListTasksResponse:  # noqa: N802
        del request
        self._admit(context)
        return pb.ListTasksResponse()

    def WatchTasks(self, request: pb.WatchTasksRequest, context: Any) -> Iterator[pb.WatchTasksResponse]:  # noqa: N802
        del request
        self._admit(context)
        yield pb.WatchTasksResponse(end=pb.WatchEnd(reason=pb.WatchEnd.tasks_ended))


@pytest.fixture
def serve() -> Iterator[Callable[[], Replica]]:
    """Starts a server."""
    servers = []

    def started() -> Replica:
        replica, server = Replica(), grpc.server(ThreadPoolExecutor(4))
        add_TaskServiceServicer_to_server(replica, server)
        replica.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        servers.append(server)
        return replica

    yield started
    for server in servers:
        server.stop(None)


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("given", ["option", "TASKYARD_SERVER", "TASKYARD_ADDRESS"])
def test_a_command_calls_a_server_that_answers(anywhere, serve, silent, monkeypatch, given):
    alive = serve()
    addresses = f"127.0.0.1:{free_port()},{silent},{alive.address}"
    if given != "option":
        monkeypatch.setenv(given, addresses)
    for words in (("list",), ("watch", "--task", "t", "--until-ended")):
        assert anywhere(*words, *(("--server", addresses) if given == "option" else ())).err == ""
    assert alive.calls == 2


def test_where_none_answers_the_error_names_all(anywhere):
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    failed = anywhere("list", "--server", ",".join(addresses))
    assert (failed.code, failed.err) == (3, f"taskyard: no server answers at any of {', '.join(addresses)}\n")


@pytest.mark.parametrize("words", [("list",), ("watch", "--task", "t", "--until-ended")], ids=" ".join)
def test_a_call_that_came_to_the_wrong_server_is_repeated(anywhere, serve, words):
    replica = serve()
    replica.strays = 5
    done = anywhere(*words, "--server", replica.address)
    assert (done.code, done.err) == (0, "")
    assert replica.calls == 6


@pytest.mark.parametrize("words", [("list",), ("watch", "--task", "t", "--until-ended")], ids=" ".join)
def test_but_not_for_ever(anywhere, serve, monkeypatch, words):
    for module in (several_servers, watch):
        monkeypatch.setattr(module, "PATIENCE_SECS", 0.2)
    replica = serve()
    replica.strays = 1_000_000
    failed = anywhere(*words, "--server", replica.address)
    assert (failed.code, failed.err) == (3, "taskyard: this namespace is served by the replica other\n")


def test_a_malformed_list_is_refused_by_the_name_of_the_option(anywhere):
    failed = anywhere("list", "--server", "127.0.0.1:1,yard")
    assert failed.err == "taskyard: --server: must be HOST:PORT or https://HOST:PORT, is 'yard'\n"
