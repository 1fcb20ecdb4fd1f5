"""What REST callers get when something is wrong, and that gRPC callers get just what the server sent.

A real Envoy with the files of gateway/, in front of a real gRPC server that does as the task id says.
"""

import asyncio
import contextlib
import json
import re
import shutil
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import pytest_asyncio
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from taskyard.v1 import (
    lease_pb2,
    lease_pb2_grpc,
    stats_pb2,
    stats_pb2_grpc,
    task_pb2,
    task_pb2_grpc,
)
from taskyard_server import gateway as gateway_module
from taskyard_server.gateway import Gateway

pytestmark = pytest.mark.asyncio(loop_scope="module")

FILES = Path(__file__).parents[2] / "gateway"
LIMIT = 1_048_576
SECS = 20.0
JSON = {"content-type": "application/json"}
UNREACHABLE = {"code": "unavailable", "error": "the server cannot be reached", "retryable": True}

Context = grpc.aio.ServicerContext[Any, Any]


async def refuse(
    context: Context, status: grpc.StatusCode, code: str, text: str, http: str | None = None, **more: object
) -> None:
    """End a call as the server's error interceptor does."""
    info = any_pb2.Any()
    info.Pack(error_details_pb2.ErrorInfo(reason=code, domain="taskyard"))
    details = status_pb2.Status(code=status.value[0], message=text, details=[info])
    metadata: list[tuple[str, str | bytes]] = [("grpc-status-details-bin", details.SerializeToString())]
    if dict(context.invocation_metadata() or ()).get("x-taskyard-rest") == "1":
        metadata.append(("x-error-json", json.dumps({"code": code, "error": text, **more})))
        if http is not None:
            metadata.append(("x-http-status", http))
    await context.abort(status, text, tuple(metadata))


class Tasks(task_pb2_grpc.TaskServiceServicer):
    """Does as the task id, the agent or the filter says."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.flooded = 0

    async def SubmitTask(self, request: task_pb2.SubmitTaskRequest, context: Context) -> task_pb2.SubmitTaskResponse:  # noqa: N802
        await context.send_initial_metadata((("x-http-status", "202"),))
        if request.agent_id == "late":
            await refuse(context, grpc.StatusCode.FAILED_PRECONDITION, "conflict", "too late", "409")
        return task_pb2.SubmitTaskResponse(task_id="tsk_1", state=task_pb2.Task.queued, position=0)

    async def GetTask(self, request: task_pb2.GetTaskRequest, context: Context) -> task_pb2.Task:  # noqa: N802
        match request.task_id:
            case "lost":
                await refuse(context, grpc.StatusCode.NOT_FOUND, "not_found", "task not found")
            case "held":
                await refuse(context, grpc.StatusCode.FAILED_PRECONDITION, "conflict", 'é "\\\n\x01 \U0001f600', "409")
            case "full":
                details = {"queued": 1000}
                await refuse(
                    context,
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    "queue_full",
                    "rejected: global queue full",
                    retryable=True,
                    details=details,
                )
            case "long":
                await refuse(context, grpc.StatusCode.NOT_FOUND, "not_found", "x" * 2000)
            case "plain":
                await context.abort(grpc.StatusCode.NOT_FOUND, 'no "task" \\ \x01 é')
            case "crash":
                raise RuntimeError("secret")
            case "never":
                await asyncio.Event().wait()
            case "huge":
                return task_pb2.Task(task_id="huge", error="x" * 68_000_000)
            case "metadata":
                sent = [(key, str(value)) for key, value in context.invocation_metadata() or ()]
                return task_pb2.Task(task_id="metadata", error=json.dumps(sent))
        return task_pb2.Task(task_id=request.task_id)

    async def ListTasks(self, request: task_pb2.ListTasksRequest, context: Context) -> task_pb2.ListTasksResponse:  # noqa: N802
        if request.state == "done":
            return task_pb2.ListTasksResponse(tasks=[task_pb2.Task(task_id="tsk_1")], count=1)
        await context.send_initial_metadata((("x-rest-empty", "tasks"),))
        return task_pb2.ListTasksResponse(count=None if request.state == "failed" else 0)

    async def WatchTasks(  # noqa: N802
        self, request: task_pb2.WatchTasksRequest, context: Context
    ) -> AsyncIterator[task_pb2.WatchTasksResponse]:
        if request.cursor == "old":
            await refuse(context, grpc.StatusCode.OUT_OF_RANGE, "cursor_expired", "cursor expired", "410")
        try:
            yield task_pb2.WatchTasksResponse(cursor="1")
            while request.cursor == "flood":
                yield task_pb2.WatchTasksResponse(cursor="x" * 100_000)
                self.flooded += 1
            yield task_pb2.WatchTasksResponse(cursor="2")
            await asyncio.Event().wait()
        finally:
            self.left.set()

    async def SubmitTasks(  # noqa: N802
        self, requests: AsyncIterator[task_pb2.SubmitTasksRequest], _: Context
    ) -> AsyncIterator[task_pb2.SubmitTasksResponse]:
        async for request in requests:
            outcomes = [task_pb2.SubmitOutcome(rejected_task_id=task.agent_id) for task in request.tasks]
            yield task_pb2.SubmitTasksResponse(outcomes=outcomes)


class Stats(stats_pb2_grpc.StatsServiceServicer):
    """Nothing happened so far."""

    async def GetStats(self, *_: object) -> stats_pb2.GetStatsResponse:  # noqa: N802
        return stats_pb2.GetStatsResponse(queue=stats_pb2.QueueStats())


class Leases(lease_pb2_grpc.LeaseServiceServicer):
    """One task for anyone, and no leases."""

    async def ClaimTask(self, *_: object) -> lease_pb2.ClaimTaskResponse:  # noqa: N802
        return lease_pb2.ClaimTaskResponse(
            claimed=True, task_id="tsk_1", fencing_token=1, task=task_pb2.Task(task_id="tsk_1", agent_id="a")
        )

    async def ListLeases(self, *_: object) -> lease_pb2.ListLeasesResponse:  # noqa: N802
        return lease_pb2.ListLeasesResponse()


@contextlib.asynccontextmanager
async def grpc_server(port: int = 0) -> AsyncIterator[tuple[Tasks, str]]:
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    tasks = Tasks()
    task_pb2_grpc.add_TaskServiceServicer_to_server(tasks, server)
    stats_pb2_grpc.add_StatsServiceServicer_to_server(Stats(), server)
    lease_pb2_grpc.add_LeaseServiceServicer_to_server(Leases(), server)
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield tasks, f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@contextlib.asynccontextmanager
async def gateway_to(grpc_address: str) -> AsyncIterator[Gateway]:
    gateway = Gateway("127.0.0.1:0", grpc_address)
    await gateway.start()
    try:
        yield gateway
    finally:
        await gateway.stop()


@contextlib.asynccontextmanager
async def client_of(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"http://{gateway.address}", timeout=SECS) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[tuple[Tasks, str]]:
    async with grpc_server() as server:
        yield server


@pytest.fixture
def tasks(server: tuple[Tasks, str]) -> Tasks:
    return server[0]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(server: tuple[Tasks, str]) -> AsyncIterator[Gateway]:
    async with gateway_to(server[1]) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def rest(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(gateway) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def native(gateway: Gateway) -> "AsyncIterator[task_pb2_grpc.TaskServiceAsyncStub]":
    async with grpc.aio.insecure_channel(gateway.address) as channel:
        yield task_pb2_grpc.TaskServiceStub(channel)


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port on which nothing listens, and nothing else will."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


async def raw(gateway: Gateway, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """What comes back for bytes that no HTTP client would send."""
    host, _, port = gateway.address.rpartition(":")
    async with asyncio.timeout(SECS):
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
            body = await reader.readexactly(int(headers["content-length"]))
        finally:
            writer.close()
    return int(head.split()[1]), headers, body


def of_size(size: int) -> bytes:
    frame = b'{"agentId":"a","params":{"x":"%s"}}'
    return frame % (b"x" * (size - len(frame) + 2))


def assert_is(answer: httpx.Response, status: int, body: dict[str, object]) -> None:
    assert (answer.status_code, answer.json()) == (status, body)
    assert set(answer.headers) <= {"content-type", "content-length", "date", "server", "connection"}
    assert answer.headers["content-type"] == "application/json"
    assert int(answer.headers["content-length"]) == len(answer.content)


# Refusals that Envoy makes.


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"agentId":', "invalid JSON: Unexpected end of string. Expected a value."),
        (b'{"agentId":"a" "b"}', 'invalid JSON: Expected , or } after key:value pair. At: "b"}'),
        (b"agentId=a", "invalid JSON: Unexpected token. At: agentId=a"),
        (b"{}{}", "invalid JSON: Parsing terminated before end of input. At: {}"),
        (b'{"agentId":"\\ud800"}', 'invalid JSON: Missing low surrogate. At: \\ud800"}'),
        (
            b'{"a":"\xff\xc3","action":"x"}',
            'invalid JSON: Encountered non UTF-8 code points. At: \ufffd\ufffd","action":"x"}',
        ),
        (
            '{"agentId":"a"\x02\t\\\x7f"é\U0001f600"}'.encode(),
            'invalid JSON: Expected , or } after key:value pair. At: \x02\t\\\x7f"é\U0001f600"}',
        ),
        (b"[]", "the body must be a JSON object"),
        (b"null", "the body must be a JSON object"),
        (b'{"agentId":5}', "agent_id: invalid value 5 for type TYPE_STRING"),
        (b'{"priority":"high"}', 'priority: invalid value "high" for type TYPE_INT32'),
        (b'{"priority":99999999999}', "priority: invalid value 99999999999 for type TYPE_INT32"),
        (
            b'{"priority":"\\"\\\\\\n\\u0001\\u00e9\\ud83d\\ude00"}',
            'priority: invalid value ""\\\n\x01é\U0001f600" for type TYPE_INT32',
        ),
        (b'{"retryPolicy":{"maxAttempts":-1}}', "retry_policy.max_attempts: invalid value -1 for type TYPE_UINT32"),
        (b'{"params":[]}', "Proto field is not repeating, cannot start list."),
        (
            b'{"params":{"x":' + b"[" * 200 + b"]" * 200 + b"}}",
            "Message too deep. Max recursion depth reached in array",
        ),
    ],
)
async def test_a_malformed_body_is_400_and_says_what_is_wrong(rest: httpx.AsyncClient, body: bytes, error: str) -> None:
    assert_is(await rest.post("/tasks", content=body, headers=JSON), 400, {"code": "bad_request", "error": error})


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
        ("agentId=a&agentId=b", "given more than once: agent_id"),
        ("agentId=%ff", "the path or the query is not UTF-8"),
    ],
)
async def test_a_wrong_query_is_400(rest: httpx.AsyncClient, query: str, error: str) -> None:
    assert_is(await rest.get(f"/tasks?{query}"), 400, {"code": "bad_request", "error": error})


async def test_a_path_that_is_not_utf8_is_400(rest: httpx.AsyncClient) -> None:
    body = {"code": "bad_request", "error": "the path or the query is not UTF-8"}
    assert_is(await rest.get("/tasks/%ff"), 400, body)


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", "/"),
        ("GET", "/nothing"),
        ("GET", "/tasks/tsk_1/nothing"),
        ("PUT", "/tasks/tsk_1"),
        ("DELETE", "/tasks"),
        ("OPTIONS", "/tasks"),
        ("GET", "/api/nothing"),
        ("GET", "/scheduler"),
        ("GET", '/%22%5C%01"\\'),
        ("POST", "/taskyard.v1.TaskService/ListTasks"),
    ],
)
async def test_an_unknown_path_or_verb_is_404(rest: httpx.AsyncClient, verb: str, path: str) -> None:
    answer = await rest.request(verb, path)
    sent = answer.request.url.raw_path.decode()
    assert_is(answer, 404, {"code": "not_found", "error": f"unknown path or verb: {sent}"})


async def test_what_is_quoted_is_short(rest: httpx.AsyncClient) -> None:
    answer = await rest.get("/" + "x" * 20_000)
    assert answer.status_code == 404
    assert len(answer.content) < 600


async def test_a_service_that_is_not_served_is_404(rest: httpx.AsyncClient) -> None:
    assert_is(await rest.get("/targets"), 404, {"code": "not_found", "error": "unknown path or verb"})


async def test_head_has_the_headers_alone(rest: httpx.AsyncClient) -> None:
    answer = await rest.head("/tasks")
    assert (answer.status_code, answer.headers["content-type"], answer.content) == (404, "application/json", b"")


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_1_mib_is_413(rest: httpx.AsyncClient, chunked: bool) -> None:
    async def pieces(body: bytes) -> AsyncIterator[bytes]:
        for start in range(0, len(body), 65_536):
            yield body[start : start + 65_536]

    shape: Callable[[bytes], Any] = pieces if chunked else bytes
    longest = await rest.post("/tasks", content=shape(of_size(LIMIT)), headers=JSON)
    assert longest.status_code == 202
    too_long = await rest.post("/tasks", content=shape(of_size(LIMIT + 1)), headers=JSON)
    assert_is(too_long, 413, {"code": "too_large", "error": "the request body is over 1048576 bytes"})


async def test_too_large_headers_are_431(rest: httpx.AsyncClient) -> None:
    answer = await rest.get("/tasks", headers={"x-mine": "x" * 70_000})
    assert_is(answer, 431, {"code": "too_large", "error": "the request headers are too large"})


@pytest.mark.parametrize(
    ("request_bytes", "status", "code"),
    [
        (b"\x00\x01\r\n\r\n", 400, "bad_request"),
        (b"FETCH /tasks HTTP/1.1\r\nhost: x\r\n\r\n", 400, "bad_request"),
        (b"GET /tasks HTTP/1.1\r\n\r\n", 400, "bad_request"),
        (b"GET /tasks#part HTTP/1.1\r\nhost: x\r\n\r\n", 400, "bad_request"),
        (b"GET /t\xc3\xa9 HTTP/1.1\r\nhost: x\r\n\r\n", 400, "bad_request"),
        (b"POST /tasks HTTP/1.1\r\nhost: x\r\ncontent-length: many\r\n\r\n", 400, "bad_request"),
        (b"POST /tasks HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400, "bad_request"),
        (b"GET /tasks HTTP/1.0\r\n\r\n", 426, "bad_request"),
        (
            b"GET /tasks HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
            403,
            "permission_denied",
        ),
    ],
)
async def test_broken_http_is_refused_in_the_same_shape(
    gateway: Gateway, request_bytes: bytes, status: int, code: str
) -> None:
    seen, headers, body = await raw(gateway, request_bytes)
    assert (seen, headers["content-type"], json.loads(body)["code"]) == (status, "application/json", code)


async def test_an_answer_over_64_mib_says_what_to_do(rest: httpx.AsyncClient) -> None:
    error = "the answer is too long; ask for a smaller page"
    assert_is(await rest.get("/tasks/huge"), 500, {"code": "internal", "error": error})


async def test_without_a_server_it_is_503(free_port: int) -> None:
    async with gateway_to(f"127.0.0.1:{free_port}") as gateway, client_of(gateway) as rest:
        assert_is(await rest.get("/tasks"), 503, UNREACHABLE)
        assert_is(await rest.post("/tasks", json={}), 503, UNREACHABLE)
        assert_is(await rest.get("/tasks:watch"), 503, UNREACHABLE)


async def test_a_server_that_goes_and_comes_back_is_found_again() -> None:
    async with contextlib.AsyncExitStack() as stack:
        async with grpc_server() as (_, address):
            gateway = await stack.enter_async_context(gateway_to(address))
            rest = await stack.enter_async_context(client_of(gateway))
            assert (await rest.get("/tasks/tsk_1")).status_code == 200
        assert_is(await rest.get("/tasks/tsk_1"), 503, UNREACHABLE)
        async with grpc_server(int(address.rpartition(":")[2])):
            assert (await rest.get("/tasks/tsk_1")).status_code == 200


async def test_a_server_that_does_not_answer_is_504(
    server: tuple[Tasks, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = shutil.copytree(FILES, tmp_path / "gateway")
    text, found = re.subn("timeout: 30s", "timeout: 0.2s", (files / "envoy.yaml").read_text())
    assert found > 1
    (files / "envoy.yaml").write_text(text)
    monkeypatch.setattr(gateway_module, "_gateway_files", lambda: files)
    late = {"code": "unavailable", "error": "the server did not answer in time", "retryable": True}
    slow = {"code": "unavailable", "error": "the request did not arrive in time", "retryable": True}
    async with gateway_to(server[1]) as gateway, client_of(gateway) as rest:
        assert_is(await rest.get("/tasks/never"), 504, late)
        status, _, body = await raw(gateway, b"POST /tasks HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")
        assert (status, json.loads(body)) == (408, slow)


# Refusals that the server makes.


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
    assert_is(await rest.get(f"/tasks/{task_id}"), status, body)


async def test_a_refusal_after_the_headers_were_sent_is_the_same(rest: httpx.AsyncClient) -> None:
    answer = await rest.post("/tasks", json={"agentId": "late"})
    assert_is(answer, 409, {"code": "conflict", "error": "too late"})


async def test_a_watch_that_is_refused_is_no_stream(rest: httpx.AsyncClient) -> None:
    answer = await rest.get("/tasks:watch?cursor=old")
    assert_is(answer, 410, {"code": "cursor_expired", "error": "cursor expired"})


async def test_a_refusal_without_a_body_gets_one(rest: httpx.AsyncClient) -> None:
    assert_is(await rest.get("/tasks/plain"), 404, {"code": "not_found", "error": 'no "task" \\ \x01 é'})


async def test_an_uncaught_error_tells_nothing(rest: httpx.AsyncClient) -> None:
    assert_is(await rest.get("/tasks/crash"), 500, {"code": "internal", "error": "internal error"})
    assert_is(await rest.post("/tasks/a/cancel"), 501, {"code": "unimplemented", "error": "not implemented"})


# Answers.


async def test_a_submit_is_202(rest: httpx.AsyncClient) -> None:
    assert_is(
        await rest.post("/tasks", json={"agentId": "a"}), 202, {"taskId": "tsk_1", "state": "queued", "position": 0}
    )


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", '{"tasks":[],"count":0}'),
        ("?state=failed", '{"tasks":[]}'),
        ("?state=done", '{"tasks":[{"taskId":"tsk_1"}],"count":1}'),
    ],
)
async def test_an_empty_list_is_there(rest: httpx.AsyncClient, query: str, text: str) -> None:
    answer = await rest.get(f"/tasks{query}")
    assert_is(answer, 200, json.loads(text))
    assert answer.text == text


async def test_figures_are_there_even_if_0(rest: httpx.AsyncClient) -> None:
    body = {"queue": {"totalQueued": 0, "totalInflight": 0, "agentCounts": {}}}
    assert_is(await rest.get("/scheduler/stats"), 200, body)


async def test_host_calls_speak_snake_case(rest: httpx.AsyncClient) -> None:
    assert_is(await rest.get("/api/leases"), 200, {"leases": []})
    claim = {"claimed": True, "task_id": "tsk_1", "fencing_token": 1, "task": {"task_id": "tsk_1", "agent_id": "a"}}
    assert_is(await rest.post("/api/runtime-hosts/h/tasks/claim", json={}), 200, claim)


@pytest.mark.parametrize("path", ["/tasks/", "/tasks//", "/tasks/?state="])
async def test_a_closing_slash_changes_nothing(rest: httpx.AsyncClient, path: str) -> None:
    assert_is(await rest.get(path), 200, {"tasks": [], "count": 0})


async def test_a_watch_sends_a_line_a_message_and_ends_with_its_reader(tasks: Tasks, rest: httpx.AsyncClient) -> None:
    tasks.left.clear()
    async with rest.stream("GET", "/tasks:watch") as answer:
        lines = answer.aiter_lines()
        assert [json.loads(await anext(lines)) for _ in range(2)] == [{"cursor": "1"}, {"cursor": "2"}]
    await asyncio.wait_for(tasks.left.wait(), SECS)


# Who called.

SPOOFED = {
    "x-taskyard-rest": "spoofed",
    "x-http-status": "299",
    "x-error-json": "{}",
    "x-envoy-original-path": "/spoofed",
    "x-envoy-original-method": "SPOOFED",
    "x-envoy-upstream-rq-timeout-ms": "1",
}
KEPT = {"x-request-id": "mine", "x-forwarded-for": "192.0.2.1", "traceparent": "00-1", "taskyard-namespace": "n"}


async def test_a_rest_call_is_marked_and_nobody_else_can_say_so(rest: httpx.AsyncClient) -> None:
    seen = dict(json.loads((await rest.get("/tasks/metadata", headers=SPOOFED | KEPT)).json()["error"]))
    ours = {"x-taskyard-rest": "1", "x-envoy-original-path": "/tasks/metadata", "x-envoy-original-method": "GET"}
    assert {key: value for key, value in seen.items() if key in SPOOFED} == ours
    assert seen.items() >= KEPT.items()


async def test_a_grpc_call_is_not_marked(native: "task_pb2_grpc.TaskServiceAsyncStub") -> None:
    sent = tuple((SPOOFED | KEPT).items())
    task = await native.GetTask(task_pb2.GetTaskRequest(task_id="metadata"), metadata=sent, timeout=SECS)
    seen = dict(json.loads(task.error))
    assert not seen.keys() & SPOOFED.keys()
    assert seen.items() >= KEPT.items()


# gRPC through the same listener.


async def test_grpc_errors_arrive_whole(native: "task_pb2_grpc.TaskServiceAsyncStub") -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await native.GetTask(task_pb2.GetTaskRequest(task_id="held"), timeout=SECS)
    error = refusal.value
    assert (error.code(), error.details()) == (grpc.StatusCode.FAILED_PRECONDITION, 'é "\\\n\x01 \U0001f600')
    status = rpc_status.from_call(error)
    assert status is not None
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.reason, info.domain) == ("conflict", "taskyard")
    assert {key for key, _ in error.trailing_metadata()} == {"grpc-status-details-bin", "date", "server"}


async def test_grpc_headers_arrive_whole(native: "task_pb2_grpc.TaskServiceAsyncStub") -> None:
    call = native.SubmitTask(task_pb2.SubmitTaskRequest(agent_id="a"), timeout=SECS)
    assert ("x-http-status", "202") in [*await call.initial_metadata()]
    assert (await call).task_id == "tsk_1"


async def test_grpc_has_no_limit_of_1_mib(native: "task_pb2_grpc.TaskServiceAsyncStub") -> None:
    request = task_pb2.SubmitTaskRequest(agent_id="a", callback_url="x" * 2 * LIMIT)
    assert (await native.SubmitTask(request, timeout=SECS)).task_id == "tsk_1"


async def test_grpc_messages_are_not_held_back(native: "task_pb2_grpc.TaskServiceAsyncStub") -> None:
    async with asyncio.timeout(SECS):
        call = native.SubmitTasks()
        for number in range(5):
            task = task_pb2.SubmitTaskRequest(agent_id=f"a{number}", callback_url="x" * (LIMIT // 2))
            await call.write(task_pb2.SubmitTasksRequest(tasks=[task]))
            answer = await call.read()
            assert isinstance(answer, task_pb2.SubmitTasksResponse)
            assert [outcome.rejected_task_id for outcome in answer.outcomes] == [f"a{number}"]
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF


async def test_grpc_of_an_unknown_method_gets_a_grpc_answer(gateway: Gateway) -> None:
    async with grpc.aio.insecure_channel(gateway.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await channel.unary_unary("/taskyard.v1.TaskService/Nothing")(b"", timeout=SECS)
    assert (refusal.value.code(), refusal.value.details()) == (grpc.StatusCode.UNIMPLEMENTED, "Method not found!")


async def test_grpc_with_too_large_headers_gets_a_grpc_answer(native: "task_pb2_grpc.TaskServiceAsyncStub") -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await native.GetTask(task_pb2.GetTaskRequest(), metadata=(("x-mine", "x" * 70_000),), timeout=SECS)
    assert "{" not in (refusal.value.details() or "")


# One caller must not harm the others.


async def test_watchers_that_do_not_read_stall_nobody(tasks: Tasks, gateway: Gateway, rest: httpx.AsyncClient) -> None:
    async def stalled() -> int:
        """Wait until the server can send no more; how much it has sent."""
        before = -1
        while tasks.flooded > before:
            before = tasks.flooded
            await asyncio.sleep(0.5)
        return before

    host, _, port = gateway.address.rpartition(":")
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(12):
            _, writer = await asyncio.open_connection(host, int(port), limit=1)
            stack.callback(writer.close)
            writer.write(b"GET /tasks:watch?cursor=flood HTTP/1.1\r\nhost: x\r\n\r\n")
        async with asyncio.timeout(SECS):
            assert await stalled() > 0
        assert (await rest.get("/tasks/tsk_1")).status_code == 200


async def test_a_caller_that_drops_thousands_of_streams_takes_nobody_along(
    gateway: Gateway, native: "task_pb2_grpc.TaskServiceAsyncStub"
) -> None:
    async def ping(call: Any) -> None:
        await call.write(task_pb2.SubmitTasksRequest(tasks=[task_pb2.SubmitTaskRequest(agent_id="a")]))
        assert len((await call.read()).outcomes) == 1

    async with asyncio.timeout(3 * SECS):
        bystander = native.SubmitTasks()
        await ping(bystander)
        own_connection = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(gateway.address, own_connection) as channel:
            stub = task_pb2_grpc.TaskServiceStub(channel)
            calls = [stub.SubmitTasks() for _ in range(3_000)]
            await asyncio.gather(*map(ping, calls))
            for call in calls:
                call.cancel()
        # As many round trips as it takes for the resets to get through.
        for _ in range(200):
            await ping(bystander)
        bystander.cancel()
