"""kill -9 while results are handed on: each task is handed what the one before it had ended with, however long ago.

A host without a stream makes values, and uses them later under other leases, when the tasks that made them would have
left memory. What it asks for is asked again while nobody serves, under claim ids and idempotency keys.
"""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import grpc
import pytest

from taskyard.v1 import lease_pb2, lease_pb2_grpc, runtime_host_pb2, task_pb2, task_pb2_grpc
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub

from .test_output import SEED, killed, repeated
from .trials import SETTINGS, yard_in

pytestmark = [pytest.mark.gate("whole yards that are killed"), pytest.mark.long]

WAITS_SECS = 3.0
"""A value is used so much later than it is made at least; its task would leave memory after a second."""
MADE, USED = "make", "use"


class Line:
    """Tasks in pairs: one makes a value, which the other is handed."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._tasks = task_pb2_grpc.TaskServiceStub(channel)
        self._leases = lease_pb2_grpc.LeaseServiceStub(channel)
        self._hosts = RuntimeHostServiceStub(channel)
        self.submitted: list[str] = []
        self.used = 0

    async def submit(self, is_over: asyncio.Event) -> None:
        """Submit pairs until it is over."""
        while not is_over.is_set():
            number = len(self.submitted)
            made = task_pb2.SubmitTaskRequest(agent_id="ann", action=MADE, idempotency_key=f"make {number}")
            made.params.update({"number": number})
            first = await self._submit(made)
            used = task_pb2.SubmitTaskRequest(agent_id="ann", action=USED, idempotency_key=f"use {number}")
            used.params.update({"number": number})
            used.inputs["it"] = first
            used.not_before.FromNanoseconds(int((time.time() + WAITS_SECS) * 1e9))
            self.submitted.append(await self._submit(used))
            await asyncio.sleep(0.02)

    async def work(self, is_over: asyncio.Event) -> None:
        """Run tasks until it is over and all are done."""
        host = runtime_host_pb2.RegisterHostRequest(host_id="h")
        await repeated(lambda: self._hosts.RegisterHost(host, timeout=5))
        turn = 0
        while not is_over.is_set() or self.used < len(self.submitted):
            turn += 1
            claim = lease_pb2.ClaimTaskRequest(host_id="h", lease_secs=3_600, claim_id=str(turn), wait_ms=200)
            leased = await repeated(lambda claim=claim: self._leases.ClaimTask(claim, timeout=5))
            if leased.claimed:
                await self._run(leased)

    async def state(self, task_id: str) -> task_pb2.Task:
        return await repeated(lambda: self._tasks.GetTask(task_pb2.GetTaskRequest(task_id=task_id), timeout=5))

    async def _run(self, leased: lease_pb2.ClaimTaskResponse) -> None:
        value = f"value {leased.task.params['number']:.0f}"
        if leased.task.action == USED:
            assert leased.inputs["it"].state == task_pb2.Task.State.done
            assert leased.inputs["it"].result.string_value == value
            self.used += 1
        done = lease_pb2.CompleteTaskRequest(host_id="h", task_id=leased.task_id, fencing_token=leased.fencing_token)
        done.result.string_value = value
        try:
            await repeated(lambda: self._leases.CompleteTask(done, timeout=5))
        except grpc.aio.AioRpcError as error:
            # It was done already, by a call whose answer was lost, and may have left memory since.
            if error.code() not in (grpc.StatusCode.ABORTED, grpc.StatusCode.NOT_FOUND):
                raise

    async def _submit(self, request: task_pb2.SubmitTaskRequest) -> str:
        return (await repeated(lambda: self._tasks.SubmitTask(request, timeout=5))).task_id


async def test_kills_lose_nothing_that_is_handed_on(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    options = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200))
    settings = {**SETTINGS, "scheduler": {**SETTINGS.get("scheduler", {}), "resultTTLSec": 1}}
    async with yard_in(tmp_path, settings=settings) as yard, grpc.aio.insecure_channel(yard.grpc, options) as channel:
        line, is_over = Line(channel), asyncio.Event()
        submitting, working = asyncio.create_task(line.submit(is_over)), asyncio.create_task(line.work(is_over))
        await killed(yard, chance)
        is_over.set()
        await submitting
        await working
        for task_id in line.submitted:
            assert (await line.state(task_id)).state == task_pb2.Task.State.done
        assert line.used == len(line.submitted) > 20
        await yard.check_store()
