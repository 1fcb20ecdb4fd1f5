"""A scripted server for hosts, and hosts that work for it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from taskyard.host import Host
from taskyard.v1.runtime_host_pb2 import Report
from tests.clients.python.host.scripted_server import ScriptedServer


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    """A server that sends what the test tells it to."""
    server = ScriptedServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def make_host(server: ScriptedServer) -> Callable[..., Host]:
    """Makes a host of ten slots for the server. It reports no machine figures by default."""

    def make(**options: Any) -> Host:
        given = {"machine_figures": False} | options
        return Host(f"127.0.0.1:{server.port}", "host-1", **given)

    return make


@pytest.fixture
async def work() -> AsyncIterator[Callable[..., "asyncio.Task[None]"]]:
    """Runs a host until the test is over."""
    running: list[asyncio.Task[None]] = []

    def begin(host: Host, **options: Any) -> asyncio.Task[None]:
        running.append(asyncio.create_task(host.run(**options)))
        return running[-1]

    yield begin
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


@pytest.fixture
async def final_report(
    server: ScriptedServer, make_host: Callable[..., Host], work: Callable[[Host], Any]
) -> Callable[..., Awaitable[Report]]:
    """Has a handler run one task with the given fields. Returns the report of its outcome."""

    async def run(handler: Callable[..., Any], **task: Any) -> Report:
        host = make_host()
        host.action("click")(handler)
        work(host)
        stream = await server.welcomed()
        await stream.until_credit(10)
        stream.assign("t", **task)
        report = await stream.report()
        assert report.HasField("started")
        while (report := await stream.report()).WhichOneof("event") not in ("completed", "failed", "released"):
            pass
        return report

    return run
