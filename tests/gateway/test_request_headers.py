"""Which headers of a request reach the server. A caller cannot make up whether it came by REST."""

import json

import httpx
import pytest

from taskyard.v1 import task_pb2, task_pb2_grpc
from tests.gateway.gateways import SECS, assert_json

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPOOFED = {
    "x-taskyard-rest": "spoofed",
    "x-http-status": "299",
    "x-error-json": "{}",
    "x-envoy-original-path": "/spoofed",
    "x-envoy-original-method": "SPOOFED",
    "x-envoy-upstream-rq-timeout-ms": "1",
    "x-forwarded-client-cert": "URI=spiffe://taskyard/spoofed",
    "x-forwarded-for": "192.0.2.1",
}
ADDRESS = {"x-forwarded-for": "127.0.0.1"}
KEPT = {"x-request-id": "mine", "traceparent": "00-1", "taskyard-namespace": "n"}


async def test_a_rest_call_is_marked_and_nobody_else_can_say_so(rest: httpx.AsyncClient) -> None:
    seen = dict(json.loads((await rest.get("/tasks/metadata", headers=SPOOFED | KEPT)).json()["error"]))
    ours = {"x-taskyard-rest": "1", "x-envoy-original-path": "/tasks/metadata", "x-envoy-original-method": "GET"}
    ours |= ADDRESS
    assert {key: value for key, value in seen.items() if key in SPOOFED} == ours
    assert seen.items() >= KEPT.items()


async def test_a_grpc_call_is_not_marked(native: "task_pb2_grpc.TaskServiceAsyncStub") -> None:
    sent = tuple((SPOOFED | KEPT).items())
    task = await native.GetTask(task_pb2.GetTaskRequest(task_id="metadata"), metadata=sent, timeout=SECS)
    seen = dict(json.loads(task.error))
    assert {key: value for key, value in seen.items() if key in SPOOFED} == ADDRESS
    assert seen.items() >= KEPT.items()


@pytest.mark.parametrize("verb", ["GET", "POST"])
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "gzip, identity", "unknown"])
async def test_a_call_that_says_it_is_compressed_for_grpc_is_400(
    rest: httpx.AsyncClient, verb: str, encoding: str
) -> None:
    body = {"code": "bad_request", "error": "grpc-encoding: a REST body is not compressed"}
    path = {"GET": "/tasks/tsk_1", "POST": "/tasks"}[verb]
    answer = await rest.request(verb, path, headers={"grpc-encoding": encoding}, json={"agentId": "a"})
    assert_json(answer, 400, body)


async def test_a_call_that_says_it_is_plain_for_grpc_is_taken(rest: httpx.AsyncClient) -> None:
    assert (await rest.get("/tasks/tsk_1", headers={"grpc-encoding": "identity"})).status_code == 200
