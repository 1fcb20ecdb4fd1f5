"""A server that keeps artifacts, tasks that have some, and hosts that put them."""

from collections.abc import Awaitable, Callable

import pytest

from taskyard import Client
from taskyard.handles import TaskHandle
from taskyard_server.core.leases import Lease
from taskyard_server.core.runs.artifacts import Right
from taskyard_server.store.objects import MEMORY, Objects
from tests import uploaders
from tests.clients.python.conftest import Server


@pytest.fixture
def objects() -> Objects:
    """The bytes of the artifacts."""
    return Objects(MEMORY)


@pytest.fixture
async def server(open_server: Callable[..., Awaitable[Server]], objects: Objects) -> Server:
    """A server that keeps artifacts."""
    return await open_server(objects=objects)


@pytest.fixture
async def running(server: Server, client: Client) -> tuple[TaskHandle, Lease]:
    """A task that runs: its handle and its lease."""
    handle = await client.submit("work")
    return handle, await server.run()


async def put(server: Server, lease: Lease, name: str, data: bytes) -> None:
    """Put an artifact as the host of a task does."""
    await uploaders.put(server.engine, Right(lease.task.id, "host", lease.token), name, data)


async def damage(objects: Objects) -> None:
    """Have the only artifact other bytes, as many as before."""
    (found,) = [each async for each in objects.listed("")]
    await objects.put(found[0].path, bytes(found[0].size))
