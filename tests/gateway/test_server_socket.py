"""The gateway reaches the server over a unix socket in a folder of its own; there its headers can be believed."""

import os
import signal
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from taskyard.v1 import task_pb2, task_pb2_grpc
from taskyard_server.gateway.envoy_config import GatewayError
from taskyard_server.gateway.gateway import Gateway
from taskyard_server.net.private_sockets import IN_USE, MAX_PATH_BYTES
from tests.gateway.gateways import SECS, client_of
from tests.waiting import until


class Tasks(task_pb2_grpc.TaskServiceServicer):
    """Answers a task whose error says from where the call came."""

    async def GetTask(self, request: task_pb2.GetTaskRequest, context: Any) -> task_pb2.Task:  # noqa: N802
        return task_pb2.Task(task_id=request.task_id, error=context.peer())


@pytest.fixture
async def server() -> AsyncIterator[grpc.aio.Server]:
    server = grpc.aio.server()
    task_pb2_grpc.add_TaskServiceServicer_to_server(Tasks(), server)
    yield server
    await server.stop(None)


@pytest.fixture
def port(server: grpc.aio.Server) -> int:
    """Where others reach the server."""
    return server.add_insecure_port("127.0.0.1:0")


@pytest.fixture
async def gateway(server: grpc.aio.Server, port: int) -> AsyncIterator[Gateway]:
    gateway = Gateway("127.0.0.1:0")
    assert port
    server.add_insecure_port(gateway.make_server_socket())
    await server.start()
    await gateway.start()
    yield gateway
    await gateway.stop()


async def peer_by_grpc(address: str) -> str:
    async with grpc.aio.insecure_channel(address) as channel:
        stub = task_pb2_grpc.TaskServiceStub(channel)
        task = await stub.GetTask(task_pb2.GetTaskRequest(task_id="tsk_1"), timeout=SECS)
        return str(task.error)


async def peer(http: httpx.AsyncClient) -> str:
    return str((await http.get("/tasks/tsk_1")).json()["error"])


async def test_calls_by_the_gateway_and_no_others_come_from_the_socket(gateway: Gateway, port: int) -> None:
    async with client_of(gateway) as http:
        assert await peer(http) == "unix:"
    assert await peer_by_grpc(gateway.address) == "unix:"
    assert (await peer_by_grpc(f"127.0.0.1:{port}")).startswith("ipv4:127.0.0.1:")


async def test_a_restarted_gateway_reaches_the_server_again(gateway: Gateway) -> None:
    pid = gateway.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    async with client_of(gateway) as http:
        assert await until(lambda: peer(http), despite=(httpx.TransportError,)) == "unix:"


async def test_the_socket_lies_in_a_new_folder_that_only_its_user_can_enter() -> None:
    gateway, other = Gateway(), Gateway()
    path, another = (Path(each.make_server_socket().removeprefix("unix:")) for each in (gateway, other))
    try:
        assert path.parent != another.parent
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert [each.name for each in path.parent.iterdir()] == [IN_USE]
    finally:
        await gateway.stop()
        await other.stop()
    assert not path.parent.exists()
    assert not another.parent.exists()


@pytest.mark.parametrize("name", ["x" * 80, "a space", "per%cent", "é"])
async def test_a_temporary_folder_that_no_socket_can_lie_in_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    gateway = Gateway()
    address = gateway.make_server_socket()
    try:
        assert not address.startswith(f"unix:{folder}")
        assert len(os.fsencode(address.removeprefix("unix:"))) <= MAX_PATH_BYTES
    finally:
        await gateway.stop()


async def test_a_folder_that_cannot_be_made_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/no-such-folder")
    with pytest.raises(GatewayError, match=r"^cannot make a folder for the gateway: no such file or directory$"):
        Gateway().make_server_socket()
