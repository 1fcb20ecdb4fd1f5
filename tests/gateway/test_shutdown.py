"""The last answers by REST when the server goes: the gateway still passes them on."""

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from taskyard_server.app import PASS_ON_SECS
from tests.ports import free_port

SECS = 20


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[tuple[asyncio.subprocess.Process, httpx.AsyncClient]]:
    """A `taskyard up` with its gateway, and a client of it."""
    ports = {name: free_port() for name in ("grpc", "rest", "metrics")}
    addresses = [word for name, port in ports.items() for word in (f"--{name}", f"127.0.0.1:{port}")]
    command = [sys.executable, "-m", "taskyard_server.cli.main", "up", *addresses]
    server = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        async with asyncio.timeout(SECS):
            assert server.stdout is not None
            assert b"serves" in await server.stdout.readline()
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{ports['rest']}", timeout=SECS, trust_env=False
        ) as rest:
            yield server, rest
    finally:
        if server.returncode is None:
            server.kill()
        await server.wait()


@pytest.mark.parametrize("grace", [{}, {"grace_period_secs": 0}])
async def test_a_drain_call_to_an_idle_server_is_answered_before_the_gateway_ends(grace: dict[str, int]) -> None:
    async with serving() as (server, rest), asyncio.timeout(SECS):
        reader, writer = await asyncio.open_connection(rest.base_url.host, rest.base_url.port)
        began = time.monotonic()
        answer = await rest.post("/admin/drain", json=grace)
        assert (answer.status_code, answer.json()["draining"]) == (200, True)
        # An idle connection ends with the gateway.
        assert await reader.read() == b""
        assert time.monotonic() - began >= PASS_ON_SECS
        writer.close()
        assert await server.wait() == 0


async def test_a_caller_that_waits_for_a_task_is_answered() -> None:
    async with serving() as (server, rest), asyncio.timeout(SECS):
        task = (await rest.post("/tasks", json={"agentId": "ann", "action": "click"})).json()["taskId"]
        waiting = asyncio.ensure_future(rest.get(f"/tasks/{task}:wait", params={"timeoutMs": 15_000}))
        # Its request is on its way before the next one is answered.
        await rest.get(f"/tasks/{task}")
        server.send_signal(signal.SIGTERM)
        answer = await waiting
        assert answer.status_code == 200
        assert answer.json()["task"]["state"] == "cancelled"
        assert await server.wait() == 0
