"""The limits of connections to the gRPC server (server/taskyard_server/app/listening.py)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from taskyard_server.app import listening
from taskyard_server.app.listening import MAX_METADATA_BYTES, MAX_STREAMS, Servers
from taskyard_server.interceptors.calls import CallInterceptor
from tests.gateway.http2 import SETTINGS, Http2
from tests.ports import free_port
from tests.waiting import LIMIT_SECS

SECS = 20.0
LEAST_CONNECTIONS = 64


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """Where a server listens that takes few connections."""
    monkeypatch.setattr(listening, "MAX_CONNECTIONS", LEAST_CONNECTIONS)
    servers, port = Servers(CallInterceptor(None), None, is_limited=True), free_port()
    health_servicer: Any = health.aio.HealthServicer()
    await health_servicer.set("", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer, servers)  # type: ignore[arg-type]
    servers.listen(f"127.0.0.1:{port}", None)
    await servers.start()
    yield port
    await servers.stop(None)


async def check(port: int, metadata: tuple[tuple[str, str], ...] = ()) -> int:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)]) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        return int((await stub.Check(health_pb2.HealthCheckRequest(), timeout=SECS, metadata=metadata)).status)


async def test_connections_over_the_limit_are_closed_and_served_once_there_is_room(port: int) -> None:
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2 * LEAST_CONNECTIONS)]
    reads = [asyncio.create_task(reader.read()) for reader, _ in opened]
    async with asyncio.timeout(LIMIT_SECS):
        while sum(read.done() for read in reads) < LEAST_CONNECTIONS:
            await asyncio.wait([read for read in reads if not read.done()], return_when=asyncio.FIRST_COMPLETED)
        for _, writer in opened:
            writer.close()
        await asyncio.gather(*reads, return_exceptions=True)
    assert await check(port) == health_pb2.HealthCheckResponse.SERVING


async def test_a_connection_has_as_many_calls_at_once_as_documented(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    http2 = Http2(reader, writer)
    async with asyncio.timeout(LIMIT_SECS):
        while (frame := await http2.read())[0] != SETTINGS:
            pass
    writer.close()
    payload = frame[3]
    settings = {
        int.from_bytes(payload[at : at + 2]): int.from_bytes(payload[at + 2 : at + 6])
        for at in range(0, len(payload), 6)
    }
    assert settings[3] == MAX_STREAMS


async def test_metadata_is_taken_up_to_one_limit_and_never_refused_by_chance(port: int) -> None:
    for _ in range(20):
        assert await check(port, (("authorization", "x" * 12_000),)) == health_pb2.HealthCheckResponse.SERVING
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await check(port, (("authorization", "x" * MAX_METADATA_BYTES),))
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
