"""Several servers that do the same work, and clients that know the addresses of all."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from taskyard import Client
from taskyard.connection.servers import Server
from tests.clients.python.servers.replica import Replica
from tests.ports import free_port


@pytest.fixture
async def start() -> AsyncIterator[Callable[..., Awaitable[Replica]]]:
    """Starts a server, and stops it at the end of the test."""
    async with AsyncExitStack() as ends:

        async def started(**options: Any) -> Replica:
            replica = Replica()
            await replica.start(**options)
            ends.push_async_callback(replica.stop)
            return replica

        yield started


@pytest.fixture
async def open_client() -> AsyncIterator[Callable[..., Client]]:
    """Opens clients of several addresses, and closes them at the end of the test."""
    async with AsyncExitStack() as ends:

        def opened(*addresses: str, **options: Any) -> Client:
            client = Client(",".join(addresses), **{"agent_id": "ann", **options})
            ends.push_async_callback(client.close)
            return client

        yield opened


@pytest.fixture
def dead() -> str:
    """An address at which nobody listens."""
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chance has the servers tried in the order of their addresses."""
    monkeypatch.setattr("random.sample", lambda items, count: list(items)[:count])


@pytest.fixture
def connected_to(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that were connected to, in order."""
    tried: list[str] = []
    real = Server.connect

    async def noted(server: Server) -> bool:
        tried.append(server.address)
        return await real(server)

    monkeypatch.setattr(Server, "connect", noted)
    return tried
