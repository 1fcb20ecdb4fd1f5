"""A real Envoy with the files of gateway/, and ways to call it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from taskyard_server.gateway.gateway import Gateway
from tests.waiting import LIMIT_SECS

SECS = 20.0


@asynccontextmanager
async def gateway_to(grpc_address: str, *origins: str) -> AsyncIterator[Gateway]:
    """A gateway to the server at this address, which pages of these origins may call."""
    gateway = Gateway("127.0.0.1:0", grpc_address, origins)
    await gateway.start()
    try:
        yield gateway
    finally:
        await gateway.stop()


@asynccontextmanager
async def client_of(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    """A REST client of a gateway."""
    # No TLS here, so nothing to verify: to load the authorities takes longer than most calls.
    base = f"http://{gateway.address}"
    async with httpx.AsyncClient(base_url=base, timeout=SECS, trust_env=False, verify=False) as client:
        yield client


@asynccontextmanager
async def open_to(grpc_address: str, *origins: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway to the server at this address, which pages of these origins may call."""
    async with gateway_to(grpc_address, *origins) as gateway, client_of(gateway) as client:
        yield client


@asynccontextmanager
async def connection_to(gateway: Gateway) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A bare connection, for bytes that no HTTP client sends."""
    host, _, port = gateway.address.rpartition(":")
    async with asyncio.timeout(LIMIT_SECS):
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            yield reader, writer
        finally:
            writer.close()


async def read_response(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """The next response on a connection, by its content-length."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
    body = await reader.readexactly(int(headers["content-length"]))
    return int(head.split()[1]), headers, body


async def exchange(gateway: Gateway, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """What comes back for these bytes."""
    async with connection_to(gateway) as (reader, writer):
        writer.write(request)
        return await read_response(reader)


def assert_json(answer: httpx.Response, status: int, body: dict[str, object]) -> None:
    """The answer is this JSON, with no headers that give away the inside."""
    assert (answer.status_code, answer.json()) == (status, body)
    assert set(answer.headers) <= {"content-type", "content-length", "date", "server", "connection"}
    assert answer.headers["content-type"] == "application/json"
    assert int(answer.headers["content-length"]) == len(answer.content)


def assert_refused(answer: httpx.Response, error: str) -> None:
    """The answer is the documented 400 with this text."""
    assert_json(answer, 400, {"code": "bad_request", "error": error})
