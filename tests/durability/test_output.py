"""kill -9 in the middle of output: what was acknowledged is there once, in order, and readers get no chunk twice.

A host without a stream says chunk after chunk, each again until it is acknowledged. Readers follow by gRPC, and by
server-sent events over the gateway, and go on from the last chunk that they got.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import grpc
import httpx
import pytest

from taskyard.v1 import (
    lease_pb2,
    lease_pb2_grpc,
    output_pb2,
    output_pb2_grpc,
    runtime_host_pb2,
    task_pb2,
    task_pb2_grpc,
)
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub

from .trials import yard_in
from .yard import Yard

pytestmark = [pytest.mark.gate("whole yards that are killed"), pytest.mark.long]

KILLS = int(os.environ.get("KILLS", "5"))
SEED = int(os.environ.get("SEED", "1"))
PASSING = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
T = TypeVar("T")


def is_passing(error: grpc.aio.AioRpcError) -> bool:
    """True if nobody serves at present, or the connection broke in the middle of an answer."""
    return error.code() in PASSING or "RST_STREAM" in (error.details() or "")


async def repeated(call: Callable[[], Awaitable[T]]) -> T:
    """What a call answers, made again while nobody serves."""
    while True:
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            if not is_passing(error):
                raise
        await asyncio.sleep(0.05)


class Host:
    """A task under a lease that is never over in the test, and what its host says."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._leases = lease_pb2_grpc.LeaseServiceStub(channel)
        self._output = output_pb2_grpc.OutputServiceStub(channel)
        self._channel = channel
        self.task_id = ""
        self.token = 0.0
        self.said: list[str] = []

    async def begin(self) -> None:
        """Submit the task, and claim it."""
        tasks, hosts = task_pb2_grpc.TaskServiceStub(self._channel), RuntimeHostServiceStub(self._channel)
        request = task_pb2.SubmitTaskRequest(agent_id="ann", action="talk", idempotency_key="talk")
        request.deadline.FromSeconds(int(time.time()) + 3_600)
        await repeated(lambda: tasks.SubmitTask(request, timeout=5))
        await repeated(lambda: hosts.RegisterHost(runtime_host_pb2.RegisterHostRequest(host_id="h"), timeout=5))
        asked = lease_pb2.ClaimTaskRequest(host_id="h", lease_secs=3_600, claim_id="talk")
        claim = await repeated(lambda: self._leases.ClaimTask(asked, timeout=5))
        self.task_id, self.token = claim.task_id, claim.fencing_token

    async def talk(self, chance: random.Random, is_over: asyncio.Event) -> None:
        """Say chunks until it is over, a few at a time, and then complete the task."""
        while not is_over.is_set():
            number = len(self.said) + 1
            texts = [f"{number + index}," for index in range(chance.choice([1, 2, 5]))]
            request = output_pb2.AppendOutputRequest(
                host_id="h",
                task_id=self.task_id,
                fencing_token=self.token,
                number=number,
                chunks=[output_pb2.NewChunk(text=text) for text in texts],
            )
            answer = await repeated(lambda request=request: self._output.AppendOutput(request, timeout=5))
            assert answer.taken == number - 1 + len(texts)
            self.said += texts
        done = lease_pb2.CompleteTaskRequest(host_id="h", task_id=self.task_id, fencing_token=self.token)
        try:
            await repeated(lambda: self._leases.CompleteTask(done, timeout=5))
        except grpc.aio.AioRpcError as error:
            # It was done already, by a call whose answer was lost.
            if error.code() != grpc.StatusCode.ABORTED:
                raise


async def follow(channel: grpc.aio.Channel, task_id: str) -> list[str]:
    """The texts that a reader by gRPC gets, over all breaks."""
    got: list[str] = []
    stub = output_pb2_grpc.OutputServiceStub(channel)
    while True:
        try:
            request = output_pb2.ReadOutputRequest(task_id=task_id, after=len(got), follow=True)
            async for message in stub.ReadOutput(request):
                for chunk in message.chunks:
                    assert chunk.sequence == len(got) + 1
                    got.append(chunk.text)
            return got
        except grpc.aio.AioRpcError as error:
            if not is_passing(error):
                raise
        await asyncio.sleep(0.05)


async def follow_events(rest: str, task_id: str) -> list[str]:
    """The texts that an EventSource would get."""
    got: list[str] = []
    async with httpx.AsyncClient(base_url=rest, timeout=30) as client:
        while True:
            headers = {"last-event-id": str(len(got))} if got else {}
            try:
                async with client.stream("GET", f"/tasks/{task_id}/output/events", headers=headers) as answer:
                    assert answer.status_code in (200, 503), await answer.aread()
                    async for line in answer.aiter_lines():
                        if line == "event: end":
                            return got
                        if line.startswith("data: ") and '"sequence"' in line:
                            chunk = json.loads(line.removeprefix("data: "))
                            assert chunk["sequence"] == len(got) + 1
                            got.append(chunk["text"])
            except httpx.HTTPError:
                pass
            await asyncio.sleep(0.05)


async def killed(yard: Yard, chance: random.Random) -> None:
    """Kill the server, its writer, or both, again and again."""
    for _ in range(KILLS):
        await asyncio.sleep(chance.uniform(0.2, 1.5))
        await yard.kill(*chance.choice([("server",), ("writer", "server"), ("server", "writer")]))
        await yard.start()


async def test_kills_lose_and_double_no_chunk(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    options = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200))
    async with yard_in(tmp_path) as yard, grpc.aio.insecure_channel(yard.grpc, options) as channel:
        host, is_over = Host(channel), asyncio.Event()
        await host.begin()
        readers = [
            asyncio.create_task(follow(channel, host.task_id)),
            asyncio.create_task(follow_events(yard.rest, host.task_id)),
        ]
        talking = asyncio.create_task(host.talk(chance, is_over))
        await killed(yard, chance)
        is_over.set()
        await talking
        for reader in readers:
            assert await reader == host.said
        assert await follow(channel, host.task_id) == host.said
        assert len(host.said) > KILLS
        await yard.check_store()
