"""A gateway to a scripted server, one a module, and clients of it."""

from collections.abc import AsyncIterator

import grpc
import httpx
import pytest
import pytest_asyncio

from taskyard.v1 import task_pb2_grpc
from taskyard_server.gateway.gateway import Gateway
from tests.gateway.gateways import client_of, gateway_to
from tests.gateway.scripted_server import Tasks, scripted_server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[tuple[Tasks, str]]:
    async with scripted_server() as server:
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
