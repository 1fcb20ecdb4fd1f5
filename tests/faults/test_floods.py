"""Floods of frames and slow callers, against the gateway and against the server: others are served, memory is bounded.

Authentication is on, and the floods bring no credential. Each lasts until `CALLS` calls were answered at either door.
"""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import psutil
import pytest

from taskyard.v1 import task_pb2, task_pb2_grpc
from tests.faults.flooder import KINDS
from tests.gateway.control_plane import ControlPlane, control_plane
from tests.waiting import LIMIT_SECS

pytestmark = [pytest.mark.gate("fleets of processes"), pytest.mark.long]

CALLS = int(os.environ.get("CALLS", "25"))
BETWEEN_SECS = 0.01
MOST_GROWTH_BYTES = 200_000_000
"""Of the server in one flood. What is seen is some megabytes."""
TOKEN = "x" * 24
BEARER = (("authorization", f"Bearer {TOKEN}"),)
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with control_plane("--store", "memory://", environment={"TASKYARD_ADMIN_TOKEN": TOKEN}) as plane:
        yield plane


@pytest.mark.parametrize("port", ["rest", "grpc"])
@pytest.mark.parametrize("kind", KINDS)
async def test_calls_of_others_do_not_fail_and_are_answered_meanwhile(
    plane: ControlPlane, kind: str, port: str
) -> None:
    server = psutil.Process(plane.process.pid)
    before = server.memory_info().rss
    flood = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.flooder", kind, "127.0.0.1", str(plane.ports[port]), str(2 * LIMIT_SECS)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert flood.stdout is not None
        assert await flood.stdout.readline() == b"connected\n"
        await asyncio.gather(*(call(plane.ports[each]) for each in ("rest", "grpc")))
        assert flood.returncode is None
        assert server.memory_info().rss - before < MOST_GROWTH_BYTES
        flood.terminate()
        print(f"{kind} at {port}: {(await flood.stdout.read()).decode().strip()}")
        assert await flood.wait() == 0
    finally:
        if flood.returncode is None:
            flood.kill()
            await flood.wait()


async def call(port: int) -> None:
    """Make calls one after the other. None may fail; how soon they are answered depends on the machine."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options) as channel:
        stub = task_pb2_grpc.TaskServiceStub(channel)
        request = task_pb2.SubmitTaskRequest(agent_id="ann", action="click")
        task_id = (await stub.SubmitTask(request, timeout=LIMIT_SECS, metadata=BEARER)).task_id
        for _ in range(CALLS):
            await stub.GetTask(task_pb2.GetTaskRequest(task_id=task_id), timeout=LIMIT_SECS, metadata=BEARER)
            await asyncio.sleep(BETWEEN_SECS)
