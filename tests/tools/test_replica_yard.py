"""`make up-replicas`: one command starts replicas with all that they need, and the next start has what was kept."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.environment import without_settings
from tests.ports import free_port
from tests.waiting import until
from tools.front import Way, front_command

pytestmark = pytest.mark.gate("PostgreSQL")

ROOT = Path(__file__).parents[2]
REPLICAS = 2
PORTS = 10 * REPLICAS + 1
START_SECS = 60.0


def first_of_free_ports() -> int:
    """The first of so many ports in a row on which nobody listens."""
    while True:
        first = free_port()
        try:
            for port in range(first, first + PORTS):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first


@asynccontextmanager
async def yard(folder: Path, ports: dict[str, int]) -> AsyncIterator[httpx.AsyncClient]:
    """A yard of replicas that serves, and the way to it by REST; told to stop as by Ctrl-C at the end."""
    addresses = [word for name in ("grpc", "rest") for word in (f"--{name}", f"127.0.0.1:{ports[name]}")]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tools.replica_yard", str(folder), "--replicas", str(REPLICAS), *addresses),
        *("--first-port", str(ports["first"])),
        cwd=ROOT,
        env=without_settings(),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(START_SECS):
        first = (await process.stdout.readline()).decode()
    try:
        assert f"REST at http://127.0.0.1:{ports['rest']}, by {REPLICAS} replicas" in first
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{ports['rest']}", trust_env=False) as client:
            yield client
    finally:
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(START_SECS):
            await process.communicate()
    assert process.returncode == 0


@pytest.mark.long
async def test_a_yard_of_replicas_goes_on_with_its_tasks(tmp_path: Path) -> None:
    ports = {"grpc": free_port(), "rest": free_port(), "first": first_of_free_ports()}
    async with yard(tmp_path / "yard", ports) as client:
        submitted = await client.post("/tasks", json={"agentId": "ann", "action": "wait"})
        assert submitted.is_success
        replicas = (await client.get("/admin/replicas")).json()["replicas"]
        assert {each["name"] for each in replicas} == {"replica-1", "replica-2"}
    async with yard(tmp_path / "yard", ports) as client:
        task_id = submitted.json()["taskId"]
        assert (await client.get(f"/tasks/{task_id}")).json()["state"] == "queued"


async def test_the_address_in_front_answers_as_the_api_does_where_no_replica_is_well(tmp_path: Path) -> None:
    port, nobody = free_port(), free_port()
    ways = [Way("rest", ("127.0.0.1", port), [("127.0.0.1", nobody)])]
    front = await asyncio.create_subprocess_exec(*front_command(ways, tmp_path), stderr=asyncio.subprocess.DEVNULL)
    try:
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await until(lambda: client.get(f"http://127.0.0.1:{port}/tasks"), despite=(httpx.TransportError,))
    finally:
        front.terminate()
        await front.wait()
    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/json")
    assert answer.json() == {"code": "unavailable", "error": "no replica answers", "retryable": True}
