"""A supervisor that gives a socket is told when the process serves, reloads and ends, as systemd wants it."""

import asyncio
import signal
import socket
import sys
import time
from contextlib import contextmanager

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from taskyard_server.app.service_notices import READY, notify
from tests.cases import every_case
from tests.environment import without_settings
from tests.ports import free_port
from tests.waiting import LIMIT_SECS


@pytest.fixture
def supervisor(tmp_path_factory):
    """The socket that `NOTIFY_SOCKET` names, and that name, which is short, as the path of a socket is."""
    name = str(tmp_path_factory.mktemp("it") / "notices")
    with receiving(name) as receiver:
        yield receiver, name


@contextmanager
def receiving(name):
    """The socket of a supervisor, at this address."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(name)
        receiver.setblocking(False)
        yield receiver


async def heard(receiver):
    """The next notice, by its keys."""
    async with asyncio.timeout(LIMIT_SECS):
        text = await asyncio.get_running_loop().sock_recv(receiver, 4096)
    return dict(line.split("=", 1) for line in text.decode().splitlines())


async def test_it_is_told_that_calls_are_served_once_they_are(supervisor):
    receiver, name = supervisor
    port = free_port()
    command = [sys.executable, "-m", "taskyard_server.cli.main", "up", "--no-gateway", "--grpc", f"127.0.0.1:{port}"]
    process = await asyncio.create_subprocess_exec(
        *command,
        *("--metrics", f"127.0.0.1:{free_port()}"),
        env=without_settings() | {"NOTIFY_SOCKET": name},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert await heard(receiver) == {"READY": "1"}
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert health.status == health_pb2.HealthCheckResponse.SERVING
    finally:
        process.kill()
        await process.wait()


async def test_it_is_told_that_the_end_has_begun_while_a_task_still_runs(up, supervisor):
    receiver, name = supervisor
    server = await up(NOTIFY_SOCKET=name)
    assert await heard(receiver) == {"READY": "1"}
    await server.start_task(600)
    server.signal(signal.SIGTERM)
    assert await heard(receiver) == {"STOPPING": "1"}
    assert server.process.returncode is None
    assert await server.exited() == 0
    with pytest.raises(BlockingIOError):
        receiver.recv(4096)


@pytest.mark.parametrize(
    ("text", "event"), [('{"scheduler": {"maxQueueSize": 8}}', "reloaded"), ("{", "reload_failed")]
)
async def test_it_is_told_of_a_reload_and_that_it_serves_again(up, supervisor, tmp_path, text, event):
    receiver, name = supervisor
    before = time.monotonic_ns() // 1000
    server = await up({}, NOTIFY_SOCKET=name)
    assert await heard(receiver) == {"READY": "1"}
    (tmp_path / "taskyard.json").write_text(text)
    server.signal(signal.SIGHUP)
    reload = await heard(receiver)
    assert reload.keys() == {"RELOADING", "MONOTONIC_USEC"}
    assert before < int(reload["MONOTONIC_USEC"]) < time.monotonic_ns() // 1000
    assert await heard(receiver) == {"READY": "1"}
    await server.logged(f"config_{event}")


async def test_a_start_that_fails_tells_nothing(refused, supervisor):
    receiver, name = supervisor
    assert (await asyncio.to_thread(refused, "{", NOTIFY_SOCKET=name)).exit_code == 1
    with pytest.raises(BlockingIOError):
        receiver.recv(4096)


def test_the_name_of_the_socket_may_be_abstract(monkeypatch):
    name = f"taskyard-{free_port()}"
    monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
    with receiving(f"\0{name}") as receiver:
        notify(READY)
        assert receiver.recv(4096) == b"READY=1"


@every_case("name", ["", "nothing", "/no/such/socket", "@nobody-listens-there", "vsock:2:1", "/" + 200 * "long"])
def test_a_supervisor_that_does_not_listen_is_no_obstacle(monkeypatch, name):
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    notify(READY)
