"""Callers that are slow, or that ask for too much, are refused or cut off, and others are served meanwhile."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from taskyard.v1 import task_pb2, task_pb2_grpc
from taskyard_server.gateway import gateway as gateway_module
from taskyard_server.gateway.gateway import Gateway
from tests.gateway.gateways import SECS, client_of, connection_to, exchange, read_response
from tests.gateway.http2 import HEADERS, SETTINGS, Http2
from tests.gateway.scripted_server import Tasks
from tests.waiting import until

pytestmark = [
    pytest.mark.gate("callers that take their time"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.long,
]

FILES = Path(__file__).parents[2] / "gateway"
HEADER_SECS = 10
MAX_STREAMS = 10_000


async def test_headers_that_arrive_slowly_are_408_and_the_connection_ends(gateway: Gateway) -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"x-more: 1\r\n")
            await asyncio.sleep(1)

    async with connection_to(gateway) as (reader, writer):
        writer.write(b"GET /tasks HTTP/1.1\r\nhost: localhost\r\n")
        dripping = asyncio.create_task(drip(writer))
        try:
            answer = await reader.readuntil(b"}")
        finally:
            dripping.cancel()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "unavailable"


async def test_header_blocks_that_never_end_are_reset(gateway: Gateway) -> None:
    async with connection_to(gateway) as (reader, writer):
        http2 = Http2(reader, writer)
        # HEADERS without END_HEADERS; the rest never comes.
        http2.send(HEADERS, 0, 1, b"\x82\x87\x84")
        with pytest.raises((asyncio.IncompleteReadError, AssertionError)):
            await http2.answer_of(1)


async def test_a_hundred_headers_are_served_and_more_are_431(rest: httpx.AsyncClient) -> None:
    few = {f"x-{number}": "1" for number in range(80)}
    assert (await rest.get("/tasks/tsk_1", headers=few)).status_code == 200
    answer = await rest.get("/tasks/tsk_1", headers={f"x-{number}": "1" for number in range(110)})
    assert (answer.status_code, answer.json()["code"]) == (431, "too_large")


@pytest.mark.parametrize("name", ["x_taskyard_rest", "authorization_", "taskyard_namespace"])
async def test_headers_with_underscores_are_dropped(
    rest: httpx.AsyncClient, native: "task_pb2_grpc.TaskServiceAsyncStub", name: str
) -> None:
    seen = dict(json.loads((await rest.get("/tasks/metadata", headers={name: "1"})).json()["error"]))
    assert name not in seen
    request = task_pb2.GetTaskRequest(task_id="metadata")
    task = await native.GetTask(request, metadata=((name, "1"),), timeout=SECS)
    assert name not in dict(json.loads(task.error))


async def test_a_connection_has_as_many_streams_as_documented(gateway: Gateway) -> None:
    async with connection_to(gateway) as (reader, writer):
        http2 = Http2(reader, writer)
        while (frame := await http2.read())[0] != SETTINGS:
            pass
        payload = frame[3]
        settings = {
            int.from_bytes(payload[at : at + 2]): int.from_bytes(payload[at + 2 : at + 6])
            for at in range(0, len(payload), 6)
        }
    assert settings[3] == MAX_STREAMS


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def narrow(server: tuple[Tasks, str]) -> AsyncIterator[Gateway]:
    """A gateway that takes 16 connections."""
    gateway = Gateway("127.0.0.1:0", server[1], max_connections=16)
    await gateway.start()
    yield gateway
    await gateway.stop()


async def answers_at_last(gateway: Gateway) -> None:
    """Wait until a new caller is served. Time-outs are short while there are many connections."""

    async def status() -> int:
        async with client_of(gateway) as http:
            return (await http.get("/tasks/tsk_1")).status_code

    assert await until(status, despite=(httpx.TransportError,)) == 200


async def test_connections_over_the_limit_are_closed_and_idle_ones_make_room(narrow: Gateway) -> None:
    host, _, port = narrow.address.rpartition(":")
    idle = [await asyncio.open_connection(host, int(port)) for _ in range(40)]
    ends = [asyncio.create_task(reader.read()) for reader, _ in idle]
    # Those over the limit end at once.
    await until(lambda: sum(end.done() for end in ends) >= 40 - 16)
    await answers_at_last(narrow)
    for _, writer in idle:
        writer.close()
    await asyncio.gather(*ends, return_exceptions=True)


async def test_a_watch_outlives_the_time_outs_of_idle_connections(narrow: Gateway, tasks: Tasks) -> None:
    del tasks
    host, _, port = narrow.address.rpartition(":")
    async with connection_to(narrow) as (reader, writer):
        writer.write(b"GET /tasks:watch HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        idle = [await asyncio.open_connection(host, int(port)) for _ in range(15)]
        await answers_at_last(narrow)
        for _, other in idle:
            other.close()
        assert not reader.at_eof()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(), 1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hasty(server: tuple[Tasks, str], tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    """A gateway whose time-outs are shorter: 2 s instead of a minute for a call, and of 5 minutes without any."""
    folder = tmp_path_factory.mktemp("gateway") / "gateway"
    shutil.copytree(FILES, folder)
    text = (folder / "envoy.yaml").read_text()
    for usual in ("max_stream_duration: 60s", "idle_timeout: 300s"):
        assert text.count(usual) == 1
        text = text.replace(usual, f"{usual.partition(':')[0]}: 2s")
    (folder / "envoy.yaml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gateway_module, "gateway_files", lambda: folder)
        gateway = Gateway("127.0.0.1:0", server[1])
        await gateway.start()
        yield gateway
        await gateway.stop()


async def test_a_body_that_arrives_slowly_is_408(hasty: Gateway) -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b" ")
            await asyncio.sleep(0.2)

    async with connection_to(hasty) as (reader, writer):
        writer.write(b"POST /tasks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{")
        dripping = asyncio.create_task(drip(writer))
        try:
            status, _, body = await read_response(reader)
        finally:
            dripping.cancel()
    assert (status, json.loads(body)["code"]) == (408, "unavailable")


async def test_a_connection_without_requests_is_closed_and_a_watch_goes_on(hasty: Gateway) -> None:
    async with connection_to(hasty) as (watching, writer), connection_to(hasty) as (idle, _):
        writer.write(b"GET /tasks:watch HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await watching.readuntil(b"\r\n\r\n")
        async with asyncio.timeout(SECS):
            assert await idle.read() == b""
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(watching.read(), 3)


async def test_a_body_over_the_limit_is_413_and_is_not_read_to_its_end(gateway: Gateway) -> None:
    head = b"POST /tasks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000000\r\n\r\n"
    status, _, body = await exchange(gateway, head + b"x" * 1_100_000)
    assert (status, json.loads(body)["code"]) == (413, "too_large")


async def test_requests_that_arrive_at_once_do_not_hold_up_others(gateway: Gateway, rest: httpx.AsyncClient) -> None:
    async with connection_to(gateway) as (reader, writer):
        writer.write(b"GET /tasks/tsk_1 HTTP/1.1\r\nhost: localhost\r\n\r\n" * 5_000)
        # Nobody has read an answer yet.
        assert (await rest.get("/tasks/tsk_1")).status_code == 200
        assert await reader.read(1)
