"""Long answers of `GET /tasks`: a page by REST has 1,000 tasks, since documented callers know no page tokens."""

from collections.abc import AsyncIterator

import httpx
import pytest
from google.protobuf.struct_pb2 import Struct

from taskyard.v1 import task_pb2 as pb
from taskyard_server.conversion.responses import MAX_PAGE_BYTES, MAX_REST_PAGE_BYTES
from tests.gateway.gateways import open_to
from tests.services.host_streams import ServerUnderTest, serving


@pytest.fixture
async def server() -> AsyncIterator[ServerUnderTest]:
    async with serving(max_payload_bytes=MAX_REST_PAGE_BYTES) as server:
        yield server


@pytest.fixture
async def http(server: ServerUnderTest) -> AsyncIterator[httpx.AsyncClient]:
    async with open_to(server.address) as http:
        yield http


async def submit(server: ServerUnderTest, tasks: int, size: int) -> None:
    """Submit tasks of this size."""
    params = Struct()
    params["x"] = "x" * size
    for _ in range(tasks):
        await server.tasks.SubmitTask(pb.SubmitTaskRequest(agent_id="ann", action="click", params=params))


async def test_a_page_that_grpc_cuts_is_whole_by_rest(server: ServerUnderTest, http: httpx.AsyncClient) -> None:
    await submit(server, 50, MAX_PAGE_BYTES // 40)
    native = await server.tasks.ListTasks(pb.ListTasksRequest())
    assert native.count < 50
    answer = (await http.get("/tasks")).json()
    assert (answer["count"], len(answer["tasks"])) == (50, 50)
    assert "nextPageToken" not in answer


async def test_a_page_by_rest_has_1000_tasks(server: ServerUnderTest, http: httpx.AsyncClient) -> None:
    await submit(server, 1_001, 10)
    first = (await http.get("/tasks")).json()
    assert first["count"] == 1_000
    rest = (await http.get("/tasks", params={"pageToken": first["nextPageToken"]})).json()
    assert rest["count"] == 1


async def test_a_page_that_would_stall_the_gateway_is_cut(server: ServerUnderTest, http: httpx.AsyncClient) -> None:
    await submit(server, 12, MAX_REST_PAGE_BYTES // 10)
    first = (await http.get("/tasks")).json()
    assert 0 < first["count"] < 12
    rest = (await http.get("/tasks", params={"pageToken": first["nextPageToken"]})).json()
    assert first["count"] + rest["count"] == 12
    assert "nextPageToken" not in rest
