"""What a REST caller gets when the server refuses a call, fails, or cannot be reached."""

import asyncio
import json
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from taskyard_server.gateway import gateway as gateway_module
from tests.gateway.gateways import assert_json, client_of, exchange, gateway_to
from tests.gateway.scripted_server import Tasks, scripted_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

FILES = Path(__file__).parents[2] / "gateway"
UNREACHABLE = {"code": "unavailable", "error": "the server cannot be reached", "retryable": True}


def assert_unreachable(answer: httpx.Response) -> None:
    """The answer says that there is no server, and when to come again."""
    assert answer.headers.pop("retry-after") == "1"
    assert_json(answer, 503, UNREACHABLE)


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port on which nothing listens, and nothing else will."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


@pytest.mark.parametrize(
    ("task_id", "status", "body"),
    [
        ("lost", 404, {"code": "not_found", "error": "task not found"}),
        ("held", 409, {"code": "conflict", "error": 'é "\\\n\x01 \U0001f600'}),
        (
            "full",
            429,
            {
                "code": "queue_full",
                "error": "rejected: global queue full",
                "retryable": True,
                "details": {"queued": 1000},
            },
        ),
        ("long", 404, {"code": "not_found", "error": "x" * 2000}),
    ],
)
async def test_the_body_that_the_server_sends_is_the_body(
    rest: httpx.AsyncClient, task_id: str, status: int, body: dict[str, object]
) -> None:
    assert_json(await rest.get(f"/tasks/{task_id}"), status, body)


async def test_too_many_requests_say_when_to_come_again_in_whole_seconds(rest: httpx.AsyncClient) -> None:
    answer = await rest.get("/tasks/limited")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
    assert answer.json()["details"] == {"retryAfterMs": 1_001}
    assert "retry-after" not in (await rest.get("/tasks/full")).headers


async def test_a_refusal_after_the_headers_were_sent_is_the_same(rest: httpx.AsyncClient) -> None:
    answer = await rest.post("/tasks", json={"agentId": "late"})
    assert_json(answer, 409, {"code": "conflict", "error": "too late"})


async def test_a_watch_that_is_refused_is_no_stream(rest: httpx.AsyncClient) -> None:
    answer = await rest.get("/tasks:watch?cursor=old")
    assert_json(answer, 410, {"code": "cursor_expired", "error": "cursor expired"})


async def test_a_refusal_without_a_body_gets_one(rest: httpx.AsyncClient) -> None:
    assert_json(await rest.get("/tasks/plain"), 404, {"code": "not_found", "error": 'no "task" \\ \x01 é'})


async def test_an_uncaught_error_tells_nothing(rest: httpx.AsyncClient) -> None:
    assert_json(await rest.get("/tasks/crash"), 500, {"code": "internal", "error": "internal error"})
    assert_json(await rest.post("/tasks/a/cancel"), 501, {"code": "unimplemented", "error": "not implemented"})


async def test_an_answer_over_64_mib_says_what_to_do(rest: httpx.AsyncClient) -> None:
    error = "the answer is too long; ask for a smaller page"
    assert_json(await rest.get("/tasks/huge"), 500, {"code": "internal", "error": error})


async def test_without_a_server_it_is_503(unused_port: int) -> None:
    async with gateway_to(f"127.0.0.1:{unused_port}") as gateway, client_of(gateway) as rest:
        assert_unreachable(await rest.get("/tasks"))
        assert_unreachable(await rest.post("/tasks", json={}))
        assert_unreachable(await rest.get("/tasks:watch"))


async def test_where_something_else_than_the_server_listens_it_is_502() -> None:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        await writer.drain()
        writer.close()

    async with AsyncExitStack() as stack:
        other = await stack.enter_async_context(await asyncio.start_server(talk, "127.0.0.1", 0))
        host, port = other.sockets[0].getsockname()
        rest = await stack.enter_async_context(client_of(await stack.enter_async_context(gateway_to(f"{host}:{port}"))))
        assert_json(await rest.get("/tasks"), 502, UNREACHABLE)


async def test_a_server_that_goes_and_comes_back_is_found_again() -> None:
    async with AsyncExitStack() as stack:
        async with scripted_server() as (_, address):
            gateway = await stack.enter_async_context(gateway_to(address))
            rest = await stack.enter_async_context(client_of(gateway))
            assert (await rest.get("/tasks/tsk_1")).status_code == 200
        assert_unreachable(await rest.get("/tasks/tsk_1"))
        async with scripted_server(int(address.rpartition(":")[2])):
            assert (await rest.get("/tasks/tsk_1")).status_code == 200


async def test_a_server_that_does_not_answer_is_504(
    server: tuple[Tasks, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = shutil.copytree(FILES, tmp_path / "gateway")
    text, found = re.subn("timeout: 30s", "timeout: 0.2s", (files / "envoy.yaml").read_text())
    assert found > 1
    (files / "envoy.yaml").write_text(text)
    monkeypatch.setattr(gateway_module, "gateway_files", lambda: files)
    late = {"code": "unavailable", "error": "the server did not answer in time", "retryable": True}
    slow = {"code": "unavailable", "error": "the request did not arrive in time", "retryable": True}
    async with gateway_to(server[1]) as gateway, client_of(gateway) as rest:
        assert_json(await rest.get("/tasks/never"), 504, late)
        status, _, body = await exchange(
            gateway, b"POST /tasks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{"
        )
        assert (status, json.loads(body)) == (408, slow)
