"""A scripted server for hosts, and hosts that work for it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from taskyard.host import Host
from tests.clients.python.host.scripted_server import ScriptedServer


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    """A server that says what the test tells it to."""
    server = ScriptedServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def make_host(server: ScriptedServer) -> Callable[..., Host]:
    """Makes a host of ten slots for the server, which leaves the test's signals alone."""

    def make(**options: Any) -> Host:
        given = {"machine_figures": False, "install_signal_handlers": False} | options
        return Host(f"127.0.0.1:{server.port}", "host-1", **given)

    return make


@pytest.fixture
async def work() -> AsyncIterator[Callable[[Host], "asyncio.Task[None]"]]:
    """Has a host work until the test is over."""
    running: list[asyncio.Task[None]] = []

    def begin(host: Host) -> asyncio.Task[None]:
        running.append(asyncio.create_task(host.run()))
        return running[-1]

    yield begin
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
