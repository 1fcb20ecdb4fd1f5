"""Fixtures of the tests of the commands: a control plane that `taskyard up` runs, and the commands."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from itertools import count
from typing import Any

import grpc
import pytest

from examples.tab_executor import TabActions
from taskyard_server.cli import console
from taskyard_server.cli.main import main
from tests.environment import without_settings
from tests.ports import free_port

# It reads the width of the terminal when it is imported: not in the middle of a test that sets one.
assert console


@dataclass(frozen=True)
class Outcome:
    """The output and the exit code of a command."""

    out: str
    err: str
    code: int

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture(scope="session")
def instance() -> Iterator[str]:
    """The URL of an instance that executes every tab action at once."""

    class Silent(TabActions):
        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="session")
def address(instance: str) -> Iterator[str]:
    """The gRPC address of a control plane that forwards the tab actions of the namespace `default`."""
    grpc_at, metrics_at = (f"127.0.0.1:{free_port()}" for _ in range(2))
    command = [sys.executable, "-m", "taskyard_server.cli.main", "up", "--no-gateway", "--log-level", "error"]
    server = subprocess.Popen(
        [*command, "--grpc", grpc_at, "--metrics", metrics_at, "--executor", instance],
        env=without_settings(),
        stdout=subprocess.DEVNULL,
    )
    try:
        with grpc.insecure_channel(grpc_at) as channel:
            grpc.channel_ready_future(channel).result(timeout=30)
        yield grpc_at
    finally:
        server.terminate()
        server.wait(timeout=30)


namespaces = count()


@pytest.fixture
def namespace() -> str:
    """A namespace for one test, in which no tasks are executed."""
    return f"test-{next(namespaces)}"


Command = Callable[..., Outcome]


@pytest.fixture
def anywhere(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command as the shell does, without a default server and namespace."""

    def run(*words: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["taskyard", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return Outcome(printed.out, printed.err, ended.value.code or 0)

    return run


@pytest.fixture
def taskyard(anywhere: Command, address: str, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command against the control plane, by default in the namespace of the test."""
    monkeypatch.setenv("TASKYARD_SERVER", address)
    monkeypatch.setenv("TASKYARD_NAMESPACE", namespace)
    return anywhere


@pytest.fixture
def submit(taskyard: Command) -> Callable[..., str]:
    """Submits a task and returns its id."""

    def run(*words: str) -> str:
        task_id: str = taskyard("submit", "--agent", "ann", "--action", "click", "--json", *words).json["taskId"]
        return task_id

    return run
