"""A gateway on loopback is called by a name of this machine, so that no page's own name leads to it (DNS rebinding)."""

import json
import socket
from collections.abc import AsyncIterator

import grpc
import pytest
import pytest_asyncio

from taskyard.v1 import task_pb2, task_pb2_grpc
from taskyard_server.gateway.envoy_config import EnvoyConfig, ListenAddress, SocketPath
from taskyard_server.gateway.gateway import Gateway
from tests.gateway.gateways import SECS, connection_to, exchange
from tests.gateway.http2 import Http2
from tests.gateway.scripted_server import Tasks

pytestmark = pytest.mark.asyncio(loop_scope="module")

REFUSAL = {"code": "permission_denied", "error": "host: is no name of this machine, see cors.hosts"}
OURS = (
    "localhost",
    "localhost:1",
    "LocalHost",
    "127.0.0.1",
    "127.0.0.1:80",
    "[::1]",
    "[::1]:9867",
    socket.gethostname(),
)
OTHERS = (
    "evil.example",
    "evil.example:9867",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "evil.localhost.example:80",
    "localhost@evil.example",
    "evil",
    "192.0.2.1",
    "[::2]",
    "none.invalid",
    "127.0.0.1:9867:evil",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def named(server: tuple[Tasks, str]) -> AsyncIterator[Gateway]:
    """A gateway that has names besides those of this machine."""
    gateway = Gateway("127.0.0.1:0", server[1], hosts=["yard.example", "*.yards.example"])
    await gateway.start()
    yield gateway
    await gateway.stop()


async def ask(gateway: Gateway, host: str, target: str = "/tasks/tsk_1") -> tuple[int, dict[str, object]]:
    """Status and body of a GET with this Host."""
    request = f"GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
    status, _, body = await exchange(gateway, request.encode())
    return status, json.loads(body)


@pytest.mark.parametrize("host", OURS)
async def test_names_of_this_machine_are_served_with_any_port(gateway: Gateway, host: str) -> None:
    assert (await ask(gateway, host))[0] == 200


@pytest.mark.parametrize("host", OTHERS)
async def test_other_names_are_refused(gateway: Gateway, host: str) -> None:
    assert await ask(gateway, host) == (403, REFUSAL)


async def test_the_name_in_the_request_line_counts(gateway: Gateway) -> None:
    assert await ask(gateway, "localhost", "http://evil.example/tasks/tsk_1") == (403, REFUSAL)
    assert (await ask(gateway, "evil.example", "http://localhost/tasks/tsk_1"))[0] == 200


async def test_two_names_or_none_are_a_bad_request(gateway: Gateway) -> None:
    for headers in ("host: localhost\r\nhost: evil.example\r\n", ""):
        status, _, body = await exchange(gateway, f"GET /tasks/tsk_1 HTTP/1.1\r\n{headers}\r\n".encode())
        assert (status, json.loads(body)["code"]) in ((400, "bad_request"), (403, "permission_denied"))


@pytest.mark.parametrize("verb", ["POST", "PATCH", "DELETE", "OPTIONS", "HEAD"])
@pytest.mark.parametrize("path", ["/tasks", "/openapi.json", "/nothing"])
async def test_every_verb_and_path_is_refused_under_another_name(gateway: Gateway, verb: str, path: str) -> None:
    request = f"{verb} {path} HTTP/1.1\r\nhost: evil.example\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    async with connection_to(gateway) as (reader, writer):
        writer.write(request.encode())
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 403 ")


async def test_the_name_of_an_http2_request_counts(gateway: Gateway) -> None:
    async with connection_to(gateway) as (reader, writer):
        http2 = Http2(reader, writer)
        _, body = await http2.request("GET", "/tasks/tsk_1", authority="evil.example")
        assert json.loads(body) == REFUSAL
        _, body = await http2.request("GET", "/tasks/tsk_1", authority="localhost:1")
        assert json.loads(body)["taskId"] == "tsk_1"


async def test_a_grpc_call_under_another_name_is_permission_denied(gateway: Gateway) -> None:
    options = [("grpc.default_authority", "evil.example")]
    async with grpc.aio.insecure_channel(gateway.address, options) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await task_pb2_grpc.TaskServiceStub(channel).GetTask(task_pb2.GetTaskRequest(task_id="x"), timeout=SECS)
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert refused.value.details() == REFUSAL["error"]


async def test_a_grpc_web_call_of_a_page_under_another_name_is_refused(gateway: Gateway) -> None:
    request = (
        b"POST /taskyard.v1.TaskService/GetTask HTTP/1.1\r\nhost: evil.example\r\norigin: http://evil.example\r\n"
        b"content-type: application/grpc-web+proto\r\ncontent-length: 8\r\nconnection: close\r\n\r\n\0\0\0\0\3\n\1x"
    )
    async with connection_to(gateway) as (reader, writer):
        writer.write(request)
        head = (await reader.read()).lower()
    assert b"grpc-status: 7" in head or head.startswith(b"http/1.1 403 ")


async def test_names_of_the_settings_are_served_too(named: Gateway) -> None:
    for host in ("yard.example", "YARD.example:8443", "a.yards.example", "localhost"):
        assert (await ask(named, host))[0] == 200
    for host in ("yards.example", "evil.example", "yard.example.evil"):
        assert await ask(named, host) == (403, REFUSAL)


def names(address: str, *hosts: str) -> list[str]:
    return EnvoyConfig(ListenAddress(address, 9867), SocketPath("/x"), hosts=hosts).names()


async def test_every_name_is_served_where_other_machines_can_call() -> None:
    assert names("0.0.0.0") == names("192.0.2.1") == names("::") == names("127.0.0.1", "a.example", "*") == ["*"]


async def test_the_own_address_is_a_name() -> None:
    assert "127.0.0.2" in names("127.0.0.2")
    assert "[::1]" in names("::1")
    assert names("127.0.0.1", "Localhost").count("localhost") == 1


async def test_a_gateway_that_others_can_reach_is_served_under_every_name(server: tuple[Tasks, str]) -> None:
    gateway = Gateway("0.0.0.0:0", server[1])
    await gateway.start()
    try:
        assert (await ask(gateway, "evil.example"))[0] == 200
    finally:
        await gateway.stop()
