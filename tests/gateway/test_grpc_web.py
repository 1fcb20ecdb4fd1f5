"""gRPC-Web at the gateway, with frames made by hand.

A real Envoy with the files of gateway/, in front of a server as hosts and agents see it.
"""

import asyncio
import base64
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
import pytest_asyncio
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from taskyard.v1 import task_pb2 as pb
from tests.gateway.gateways import open_to
from tests.services.host_streams import ServerUnderTest, serving
from tests.waiting import LIMIT_SECS

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGE = "https://app.example"
OLD_CURSOR = "NTYzMjM3ZGFiYWE5Yzg1ZC4wLmRlZmF1bHQ"
"""Of another incarnation of the log."""
TRAILERS = 0x80
"""The flag of the frame that ends an answer."""


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def server() -> AsyncIterator[ServerUnderTest]:
    async with serving() as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def http(server: ServerUnderTest) -> AsyncIterator[httpx.AsyncClient]:
    async with open_to(server.address, PAGE) as http:
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
    async with asyncio.timeout(LIMIT_SECS), http.stream("POST", path, content=body, headers=headers) as answer:
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
async def test_a_page_watches_and_sees_events_as_they_come(
    server: ServerUnderTest, http: httpx.AsyncClient, text: bool
) -> None:
    agent = f"watched-{text}"
    async with calling(http, "WatchTasks", pb.WatchTasksRequest(agent_id=agent), text) as call:
        messages = (pb.WatchTasksResponse.FromString(packed) async for packed in call)
        assert (await anext(messages)).bookmark
        # Each is made only after the one before was seen, so nothing on the way can be holding messages back.
        task_id = await submitted(http, text, agent_id=agent)
        (event,) = (await anext(messages)).events
        assert (event.kind, event.task.task_id) == (pb.TaskEvent.submitted, task_id)
        await server.cancel(task_id)
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
    async with open_to("127.0.0.1:1", PAGE) as http, calling(http, "GetTask", request) as call:
        assert (call.answer.status_code, call.answer.headers["grpc-status"]) == (503, "14")
        assert call.answer.headers["access-control-allow-origin"] == PAGE
