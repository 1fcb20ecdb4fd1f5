"""Browsers at the gateway: gRPC-Web calls with frames made by hand, and which pages CORS lets call.

A real Envoy with the files of gateway/, in front of a server as hosts and agents see it.
"""

import asyncio
import base64
import json
import os
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from subprocess import DEVNULL, PIPE
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
import pytest_asyncio
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from taskyard.v1 import task_pb2 as pb
from taskyard_server.config import ConfigError, load
from taskyard_server.gateway import Gateway
from tests.ports import free_port
from tests.services.host_streams import Yard, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGE = "https://app.example"
FOREIGN = "https://evil.example"
ALLOWED = (PAGE, "https://*.wild.example", "http://localhost:*")
SECS = 10.0
OLD_CURSOR = "NTYzMjM3ZGFiYWE5Yzg1ZC4wLmRlZmF1bHQ"
"""Of another incarnation of the log."""
TRAILERS = 0x80
"""The flag of the frame that ends an answer."""
CALLED = ("access-control-request-method", "POST"), ("access-control-request-headers", "content-type,x-grpc-web")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def yard() -> AsyncIterator[Yard]:
    async with serving() as yard:
        yield yard


@asynccontextmanager
async def opened_to(address: str, *origins: str) -> AsyncIterator[httpx.AsyncClient]:
    """A gateway to the server at this address, which pages of these origins may call, and a client of it."""
    gateway = Gateway("127.0.0.1:0", address, origins)
    await gateway.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://{gateway.address}", timeout=SECS, trust_env=False) as http:
            yield http
    finally:
        await gateway.stop()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def http(yard: Yard) -> AsyncIterator[httpx.AsyncClient]:
    async with opened_to(yard.address, *ALLOWED) as http:
        yield http


# gRPC-Web, as a page speaks it


def framed(message: Message) -> bytes:
    packed = message.SerializeToString()
    return struct.pack(">BI", 0, len(packed)) + packed


class Frames:
    """Cuts what arrives into frames, however it is chunked; in text mode each part is padded base64."""

    def __init__(self, text: bool) -> None:
        self._text = text
        self._encoded = b""
        self._bytes = b""

    def take(self, chunk: bytes) -> list[tuple[int, bytes]]:
        if self._text:
            self._encoded += chunk
            whole = len(self._encoded) // 4 * 4
            groups = [self._encoded[at : at + 4] for at in range(0, whole, 4)]
            self._encoded = self._encoded[whole:]
            chunk = b"".join(base64.b64decode(group, validate=True) for group in groups)
        self._bytes += chunk
        frames = []
        while len(self._bytes) >= 5:
            flag, length = struct.unpack(">BI", self._bytes[:5])
            if len(self._bytes) < 5 + length:
                break
            frames.append((flag, self._bytes[5 : 5 + length]))
            self._bytes = self._bytes[5 + length :]
        return frames

    def nothing_is_left(self) -> bool:
        return not self._encoded and not self._bytes


class WebCall:
    """One call from a page: its messages as they come, and its status once it has ended."""

    def __init__(self, answer: httpx.Response, text: bool) -> None:
        self.answer = answer
        self.status: dict[str, str] = {}
        self._frames = Frames(text)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        assert self.answer.status_code == 200
        if "grpc-status" in self.answer.headers:  # refused before a first message: the status is among the headers
            self.status = dict(self.answer.headers)
        async for chunk in self.answer.aiter_raw():
            for flag, payload in self._frames.take(chunk):
                assert not self.status, "a frame after the end"
                if flag == TRAILERS:
                    lines = payload.decode().rstrip("\r\n").split("\r\n")
                    self.status = {
                        name.strip().lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
                    }
                else:
                    assert flag == 0
                    yield payload
        assert self._frames.nothing_is_left()


@asynccontextmanager
async def calling(http: httpx.AsyncClient, method: str, request: Message, text: bool = False) -> AsyncIterator[WebCall]:
    kind = "application/grpc-web-text" if text else "application/grpc-web+proto"
    headers = {"content-type": kind, "accept": kind, "x-grpc-web": "1", "origin": PAGE}
    body = base64.b64encode(framed(request)) if text else framed(request)
    path = f"/taskyard.v1.TaskService/{method}"
    async with asyncio.timeout(SECS), http.stream("POST", path, content=body, headers=headers) as answer:
        assert answer.headers["content-type"].startswith(kind.removesuffix("+proto"))
        yield WebCall(answer, text)


async def unary(http: httpx.AsyncClient, method: str, request: Message, answer: Any, text: bool = False) -> Any:
    """The only message of a call that must succeed."""
    async with calling(http, method, request, text) as call:
        (packed,) = [packed async for packed in call]
        assert call.status["grpc-status"] == "0"
    return answer.FromString(packed)


async def submitted(http: httpx.AsyncClient, text: bool = False, **fields: Any) -> str:
    request = pb.SubmitTaskRequest(**{"agent_id": "ann", "action": "click", **fields})
    answer = await unary(http, "SubmitTask", request, pb.SubmitTaskResponse, text)
    assert answer.state == pb.Task.queued
    return str(answer.task_id)


both_kinds = pytest.mark.parametrize("text", [False, True], ids=["binary", "text"])


@both_kinds
async def test_a_page_submits_a_task_and_reads_it(http: httpx.AsyncClient, text: bool) -> None:
    task_id = await submitted(http, text, labels={"é": "ü"})
    task = await unary(http, "GetTask", pb.GetTaskRequest(task_id=task_id), pb.Task, text)
    assert (task.task_id, dict(task.labels)) == (task_id, {"é": "ü"})


@both_kinds
async def test_a_refusal_comes_with_its_details(http: httpx.AsyncClient, text: bool) -> None:
    async with calling(http, "GetTask", pb.GetTaskRequest(task_id="tsk_none"), text) as call:
        assert [packed async for packed in call] == []
    assert (call.status["grpc-status"], unquote(call.status["grpc-message"])) == ("5", "task not found")
    encoded = call.status["grpc-status-details-bin"]
    rich = status_pb2.Status.FromString(base64.b64decode(encoded + "=" * (-len(encoded) % 4)))
    info = error_details_pb2.ErrorInfo()
    assert rich.details[0].Unpack(info)
    assert (info.reason, info.domain) == ("NOT_FOUND", "taskyard")


@both_kinds
async def test_a_page_may_read_the_status_of_a_refusal(http: httpx.AsyncClient, text: bool) -> None:
    async with calling(http, "GetTask", pb.GetTaskRequest(task_id="tsk_none"), text) as call:
        assert [packed async for packed in call] == []
    assert call.answer.headers["access-control-allow-origin"] == PAGE
    exposed = {name.strip() for name in call.answer.headers["access-control-expose-headers"].split(",")}
    assert exposed >= {"grpc-status", "grpc-message", "grpc-status-details-bin"}


@both_kinds
async def test_a_page_watches_and_sees_events_as_they_come(yard: Yard, http: httpx.AsyncClient, text: bool) -> None:
    agent = f"watched-{text}"
    async with calling(http, "WatchTasks", pb.WatchTasksRequest(agent_id=agent), text) as call:
        messages = (pb.WatchTasksResponse.FromString(packed) async for packed in call)
        assert (await anext(messages)).bookmark
        # Each is made only after the one before was seen, so nothing on the way can be holding messages back.
        task_id = await submitted(http, text, agent_id=agent)
        (event,) = (await anext(messages)).events
        assert (event.kind, event.task.task_id) == (pb.TaskEvent.submitted, task_id)
        await yard.cancel(task_id)
        (event,) = (await anext(messages)).events
        assert (event.kind, event.task.state) == (pb.TaskEvent.changed, pb.Task.cancelled)


@both_kinds
async def test_a_watch_that_ends_says_so_in_its_trailers(http: httpx.AsyncClient, text: bool) -> None:
    task_id = await submitted(http, text)
    watch = pb.WatchTasksRequest(task_ids=[task_id], include_current=True, until_ended=True)
    async with calling(http, "WatchTasks", watch, text) as call:
        kinds = []
        async for packed in call:
            message = pb.WatchTasksResponse.FromString(packed)
            kinds += [event.kind for event in message.events]
            if message.bookmark:
                await unary(http, "CancelTask", pb.CancelTaskRequest(task_id=task_id), pb.CancelTaskResponse, text)
        assert message.end.reason == pb.WatchEnd.tasks_ended
    assert call.status["grpc-status"] == "0"
    assert kinds == [pb.TaskEvent.current, pb.TaskEvent.changed]


@both_kinds
async def test_a_watch_that_is_refused_says_why(http: httpx.AsyncClient, text: bool) -> None:
    async with calling(http, "WatchTasks", pb.WatchTasksRequest(cursor=OLD_CURSOR), text) as call:
        assert [packed async for packed in call] == []
    assert call.status["grpc-status"] == "11"
    assert "grpc-status-details-bin" in call.status


async def test_a_message_above_the_limit_for_rest_bodies_passes(http: httpx.AsyncClient) -> None:
    wanted = pb.WatchTasksRequest(task_ids=[f"tsk_{number:0120}" for number in range(9_000)], until_ended=True)
    assert wanted.ByteSize() > 1_048_576
    async with calling(http, "WatchTasks", wanted) as call:
        last = [pb.WatchTasksResponse.FromString(packed) async for packed in call][-1]
    assert last.end.reason == pb.WatchEnd.tasks_ended


async def test_a_page_is_told_that_the_server_cannot_be_reached() -> None:
    request = pb.GetTaskRequest(task_id="tsk_1")
    async with opened_to("127.0.0.1:1", PAGE) as http, calling(http, "GetTask", request) as call:
        assert (call.answer.status_code, call.answer.headers["grpc-status"]) == (503, "14")
        assert call.answer.headers["access-control-allow-origin"] == PAGE


# CORS


async def preflight(http: httpx.AsyncClient, origin: str, path: str = "/tasks") -> httpx.Response:
    return await http.options(path, headers=[("origin", origin), *CALLED])


def cors_headers(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}


@pytest.mark.parametrize(
    "path", ["/tasks", "/tasks/tsk_1", "/api/runtime-hosts", "/taskyard.v1.TaskService/SubmitTask", "/openapi.json"]
)
async def test_a_preflight_from_an_allowed_page_is_granted(http: httpx.AsyncClient, path: str) -> None:
    answer = await preflight(http, PAGE, path)
    assert answer.status_code == 200
    granted = {
        name: {word.strip().lower() for word in value.split(",")} for name, value in cors_headers(answer).items()
    }
    assert granted["access-control-allow-origin"] == {PAGE}
    assert granted["access-control-allow-methods"] == {"get", "post", "patch", "delete"}
    assert granted["access-control-allow-headers"] >= {
        *("authorization", "content-type", "taskyard-namespace", "traceparent"),
        *("grpc-timeout", "x-grpc-web", "x-user-agent"),
    }
    assert granted["access-control-max-age"] == {"7200"}


@pytest.mark.parametrize(
    "origin", [FOREIGN, "null", "http://app.example", "https://app.example:8443", "https://app.example.evil.example"]
)
async def test_a_preflight_from_a_foreign_page_is_granted_nothing(http: httpx.AsyncClient, origin: str) -> None:
    answer = await preflight(http, origin)
    assert answer.status_code == 404
    assert cors_headers(answer) == {}


@pytest.mark.parametrize(
    ("origin", "granted"),
    [
        ("https://a.wild.example", True),
        ("https://a.b.wild.example", True),
        ("https://wild.example", False),
        ("https://awild.example", False),
        ("https://evil.example/.wild.example", False),
        ("http://a.wild.example", False),
        ("https://a.wild.example:8443", False),
        ("http://localhost", True),
        ("http://localhost:5173", True),
        ("http://localhost:5173.evil.example", False),
    ],
)
async def test_a_star_stands_for_what_it_says(http: httpx.AsyncClient, origin: str, granted: bool) -> None:
    answer = await preflight(http, origin)
    assert cors_headers(answer).get("access-control-allow-origin") == (origin if granted else None)


async def test_a_lone_star_lets_every_page_in(yard: Yard) -> None:
    async with opened_to(yard.address, "*") as http:
        for origin in (PAGE, FOREIGN, "null"):
            assert cors_headers(await preflight(http, origin))["access-control-allow-origin"] == origin


async def test_without_origins_no_page_is_let_in(yard: Yard) -> None:
    async with opened_to(yard.address) as http:
        assert cors_headers(await preflight(http, PAGE)) == {}
        answer = await http.get("/tasks", headers={"origin": PAGE})
        assert (answer.status_code, cors_headers(answer)) == (200, {})


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/tasks", None, 200),
        ("POST", "/tasks", '{"agentId": "ann", "action": "click"}', 202),
        ("POST", "/tasks", "{", 400),
        ("POST", "/tasks", "x" * 1_048_577, 413),
        ("GET", "/tasks?wrong=1", None, 400),
        ("GET", "/tasks/tsk_none", None, 404),
        ("GET", "/nowhere", None, 404),
        ("PUT", "/tasks", "{}", 404),
        ("GET", f"/tasks:watch?cursor={OLD_CURSOR}", None, 410),
        ("GET", "/openapi.json", None, 200),
    ],
)
async def test_rest_answers_are_for_allowed_pages_errors_included(
    http: httpx.AsyncClient, method: str, path: str, body: str | None, status: int
) -> None:
    for origin, seen in ((PAGE, PAGE), (FOREIGN, None)):
        headers = {"origin": origin, "content-type": "application/json"}
        answer = await http.request(method, path, content=body, headers=headers)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
        assert cors_headers(answer).get("access-control-allow-origin") == seen
        assert bool(cors_headers(answer)) == (seen is not None)
        if status >= 400:
            assert json.loads(answer.content)["code"]


# The setting


@pytest.mark.parametrize(
    "origin",
    ["*", PAGE, "http://localhost:*", "https://*.a-b.example:8443", "http://[::1]:3000", "moz-extension://1a-2b"],
)
async def test_an_origin_is_taken(origin: str) -> None:
    assert load(None, {"cors": {"origins": [origin]}}).settings.cors.origins == [origin]


@pytest.mark.parametrize(
    "origin",
    [
        *("", "null", "app.example", "https://app.example/", "https://APP.example", "https://app.example:443"),
        *(
            "http://app.example:80",
            "https://app.*.example",
            "https://*",
            "https://app.example:80*",
            "https://a.example\n",
        ),
    ],
)
async def test_what_no_browser_would_send_is_refused(origin: str) -> None:
    with pytest.raises(ConfigError, match=r"cors\.origins\.0: .*must be an origin as browsers send it"):
        load(None, {"cors": {"origins": [origin]}})


async def test_the_control_plane_passes_the_setting_on() -> None:
    ports = {name: free_port() for name in ("grpc", "rest", "metrics")}
    addresses = [word for name, port in ports.items() for word in (f"--{name}", f"127.0.0.1:{port}")]
    command = [sys.executable, "-m", "taskyard_server.cli.main", "up", *addresses]
    environment = {**os.environ, "TASKYARD_CORS__ORIGINS": json.dumps([PAGE])}
    server = await asyncio.create_subprocess_exec(*command, env=environment, stdout=PIPE, stderr=DEVNULL)
    try:
        assert server.stdout is not None
        assert b"serves" in await asyncio.wait_for(server.stdout.readline(), SECS)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{ports['rest']}", trust_env=False) as http:
            for origin, status in ((PAGE, 200), (FOREIGN, 404)):
                assert (await preflight(http, origin)).status_code == status
    finally:
        server.kill()
        await server.wait()
