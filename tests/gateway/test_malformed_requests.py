"""Requests that the gateway refuses by itself: bodies, queries, paths and HTTP that are not as they should be."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from taskyard_server.gateway.gateway import Gateway
from tests.gateway.gateways import assert_json, assert_refused, exchange

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMIT = 1_048_576
JSON = {"content-type": "application/json"}


def of_size(size: int) -> bytes:
    frame = b'{"agentId":"a","params":{"x":"%s"}}'
    return frame % (b"x" * (size - len(frame) + 2))


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"agentId":5}', "agent_id: invalid value 5 for type TYPE_STRING"),
        (b'{"priority":"high"}', 'priority: invalid value "high" for type TYPE_INT32'),
        (b'{"priority":99999999999}', "priority: invalid value 99999999999 for type TYPE_INT32"),
        (
            b'{"priority":"\\"\\\\\\n\\u0001\\u00e9\\ud83d\\ude00"}',
            'priority: invalid value ""\\\n\x01é\U0001f600" for type TYPE_INT32',
        ),
        (b'{"retryPolicy":{"maxAttempts":-1}}', "retry_policy.max_attempts: invalid value -1 for type TYPE_UINT32"),
        (b'{"params":[]}', "params: must be an object"),
    ],
)
async def test_a_value_of_the_wrong_type_is_400(rest: httpx.AsyncClient, body: bytes, error: str) -> None:
    assert_refused(await rest.post("/tasks", content=body, headers=JSON), error)


@pytest.mark.parametrize("deadline", ['"tomorrow"', '"2026-03-08T12:05:00"', "5"])
async def test_a_malformed_time_is_400(rest: httpx.AsyncClient, deadline: str) -> None:
    answer = await rest.post("/tasks", content=f'{{"deadline":{deadline}}}', headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    assert answer.json()["error"].startswith("deadline: invalid value ")


async def test_unknown_fields_of_a_body_are_ignored(rest: httpx.AsyncClient) -> None:
    assert (await rest.post("/tasks", json={"agentId": "a", "colour": "red"})).status_code == 202


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("colour=red", "unknown query parameter: colour"),
        ("a.b=1", "unknown query parameter: a"),
        ("%22%0a=1", "unknown query parameter: %22%0a"),
        ("pageSize=many", 'page_size: invalid value "many" for type TYPE_UINT32'),
        ("agentId=a&agentId=b", "agent_id: is given more than once"),
        ("agentId=%ff", "the path or the query is not UTF-8"),
    ],
)
async def test_a_wrong_query_is_400(rest: httpx.AsyncClient, query: str, error: str) -> None:
    assert_refused(await rest.get(f"/tasks?{query}"), error)


async def test_a_path_that_is_not_utf8_is_400(rest: httpx.AsyncClient) -> None:
    assert_refused(await rest.get("/tasks/%ff"), "the path or the query is not UTF-8")


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("POST", "/"),
        ("GET", "/nothing"),
        ("GET", "/tasks/tsk_1/nothing"),
        ("PUT", "/tasks/tsk_1"),
        ("DELETE", "/tasks"),
        ("GET", "/api/nothing"),
        ("GET", "/scheduler"),
        ("GET", '/%22%5C%01"\\'),
        ("POST", "/taskyard.v1.TaskService/ListTasks"),
    ],
)
async def test_an_unknown_path_or_verb_is_404(rest: httpx.AsyncClient, verb: str, path: str) -> None:
    answer = await rest.request(verb, path)
    sent = answer.request.url.raw_path.decode()
    assert_json(answer, 404, {"code": "not_found", "error": f"unknown path or verb: {sent}"})


async def test_what_is_quoted_is_short(rest: httpx.AsyncClient) -> None:
    answer = await rest.get("/" + "x" * 20_000)
    assert answer.status_code == 404
    assert len(answer.content) < 600


async def test_a_service_that_is_not_served_is_404(rest: httpx.AsyncClient) -> None:
    assert_json(await rest.get("/targets"), 404, {"code": "not_found", "error": "unknown path or verb"})


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_1_mib_is_413(rest: httpx.AsyncClient, chunked: bool) -> None:
    async def pieces(body: bytes) -> AsyncIterator[bytes]:
        for start in range(0, len(body), 65_536):
            yield body[start : start + 65_536]

    shape: Callable[[bytes], Any] = pieces if chunked else bytes
    longest = await rest.post("/tasks", content=shape(of_size(LIMIT)), headers=JSON)
    assert longest.status_code == 202
    too_long = await rest.post("/tasks", content=shape(of_size(LIMIT + 1)), headers=JSON)
    assert_json(too_long, 413, {"code": "too_large", "error": "the request body is over 1048576 bytes"})


async def test_too_large_headers_are_431(rest: httpx.AsyncClient) -> None:
    answer = await rest.get("/tasks", headers={"x-mine": "x" * 70_000})
    assert_json(answer, 431, {"code": "too_large", "error": "the request headers are too large"})


async def test_headers_that_only_the_server_finds_too_large_are_431(rest: httpx.AsyncClient) -> None:
    answer = await rest.get("/tasks", headers={"x-mine": "x" * 20_000})
    assert_json(answer, 431, {"code": "too_large", "error": "the request headers are too large"})


@pytest.mark.parametrize(
    ("request_bytes", "status", "code"),
    [
        (b"\x00\x01\r\n\r\n", 400, "bad_request"),
        (b"FETCH /tasks HTTP/1.1\r\nhost: localhost\r\n\r\n", 400, "bad_request"),
        (b"GET /tasks HTTP/1.1\r\n\r\n", 400, "bad_request"),
        (b"GET /tasks#part HTTP/1.1\r\nhost: localhost\r\n\r\n", 400, "bad_request"),
        (b"GET /t\xc3\xa9 HTTP/1.1\r\nhost: localhost\r\n\r\n", 400, "bad_request"),
        (b"POST /tasks HTTP/1.1\r\nhost: localhost\r\ncontent-length: many\r\n\r\n", 400, "bad_request"),
        (b"POST /tasks HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400, "bad_request"),
        (b"GET /tasks HTTP/1.0\r\n\r\n", 426, "bad_request"),
        (
            b"GET /tasks HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
            403,
            "permission_denied",
        ),
    ],
)
async def test_broken_http_is_refused_in_the_same_shape(
    gateway: Gateway, request_bytes: bytes, status: int, code: str
) -> None:
    seen, headers, body = await exchange(gateway, request_bytes)
    assert (seen, headers["content-type"], json.loads(body)["code"]) == (status, "application/json", code)
