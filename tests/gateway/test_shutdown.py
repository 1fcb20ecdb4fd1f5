"""What REST callers get when the server shuts down: their answers still arrive, and watches say why they end."""

import asyncio
import json
import time
from collections.abc import Iterator

import httpx
import pytest

from taskyard_server.app.app import PASS_ON_SECS
from tests.environment import is_kept
from tests.gateway.control_plane import SECS, ControlPlane, control_plane

WATCHERS = 20


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    with control_plane() as plane:
        yield plane


@pytest.mark.parametrize("grace", [{}, {"grace_period_secs": 0}])
async def test_a_drain_of_an_idle_server_is_answered_before_the_gateway_ends(
    plane: ControlPlane, grace: dict[str, int]
) -> None:
    async with plane.async_client() as rest, asyncio.timeout(SECS):
        reader, writer = await asyncio.open_connection(rest.base_url.host, rest.base_url.port)
        began = time.monotonic()
        answer = await rest.post("/admin/drain", json=grace)
        assert (answer.status_code, answer.json()["draining"]) == (200, True)
        # An idle connection ends with the gateway.
        assert await reader.read() == b""
        assert time.monotonic() - began >= PASS_ON_SECS
        writer.close()
    assert plane.process.wait(SECS) == 0


async def test_a_caller_that_waits_for_a_task_is_answered(plane: ControlPlane) -> None:
    async with plane.async_client() as rest, asyncio.timeout(SECS):
        task = (await rest.post("/tasks", json={"agentId": "ann", "action": "click"})).json()["taskId"]
        waiting = asyncio.ensure_future(rest.get(f"/tasks/{task}:wait", params={"timeoutMs": 15_000}))
        # Its request is on its way before the next one is answered.
        await rest.get(f"/tasks/{task}")
        plane.terminate()
        answer = await waiting
        assert answer.status_code == 200
        # With a store the end of the server is not that of its tasks.
        assert answer.json()["task"]["state"] == ("queued" if is_kept() else "cancelled")
    assert plane.process.wait(SECS) == 0


async def test_every_watch_ends_with_a_line_that_says_why_and_where_to_resume(plane: ControlPlane) -> None:
    """HTTP has sent its 200 long before, so the last line is the only sign."""
    begun = asyncio.Semaphore(0)

    async def last_line(rest: httpx.AsyncClient) -> dict[str, object]:
        line = "{}"
        async with rest.stream("GET", "/tasks:watch") as answer:
            async for line in answer.aiter_lines():
                if json.loads(line).get("bookmark"):
                    begun.release()
        last: dict[str, object] = json.loads(line)
        return last

    async with plane.async_client() as rest, asyncio.timeout(SECS):
        watches = [asyncio.create_task(last_line(rest)) for _ in range(WATCHERS)]
        for _ in watches:
            await begun.acquire()
        plane.terminate()
        for last in await asyncio.gather(*watches):
            assert last["end"] == {"reason": "shutdown", "message": "the server shuts down"}
            assert last["cursor"]
    assert plane.process.wait(SECS) == 0
