"""Many agents at once over the wire: what the server counts is what its clients saw, to the last task."""

import asyncio
import json
import os
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from taskyard.v1 import batch_pb2, batch_pb2_grpc, stats_pb2, stats_pb2_grpc, task_pb2, task_pb2_grpc
from tests.environment import new_store_url
from tests.ports import free_port
from tests.waiting import LIMIT_SECS

pytestmark = [pytest.mark.gate("fleets of processes"), pytest.mark.long]

AGENTS = 200
TASKS_PER_AGENT = int(os.environ.get("TASKS", "2000")) // AGENTS
SEED = int(os.environ.get("SEED", "1"))
LIMITS = {
    "maxQueueSize": 6 * AGENTS,
    "maxPerAgent": 8,
    "maxInflight": 64,
    "maxPerAgentInflight": 8,
    "workerCount": 64,
    "resultTTLSec": 3_600,
    "defaultDeadlineSec": 600,
}
HERE = Path(__file__).parent


class Agent:
    """One agent and its own count of what became of its tasks."""

    def __init__(self, name: str, channel: grpc.aio.Channel, seed: int) -> None:
        self.name = name
        self.tasks = task_pb2_grpc.TaskServiceStub(channel)
        self.batches = batch_pb2_grpc.BatchServiceStub(channel)
        self.draw = random.Random(seed)
        self.accepted: list[str] = []
        self.rejected = 0
        self.cancelled = 0

    async def work(self) -> None:
        """Submit one by one and in batches, and cancel some."""
        left = TASKS_PER_AGENT
        while left > 0:
            count = min(left, self.draw.choice((1, 1, 1, 10, 50)))
            await (self.submit_one() if count == 1 else self.submit_batch(count))
            left -= count
            if self.accepted and self.draw.random() < 0.5:
                await self.cancel(self.draw.choice(self.accepted[-20:]))
        await asyncio.gather(*(self.cancel(task) for task in self.accepted if self.draw.random() < 0.02))

    async def submit_one(self) -> None:
        try:
            answer = await self.tasks.SubmitTask(
                task_pb2.SubmitTaskRequest(
                    agent_id=self.name, action="click", tab_id="t", priority=self.draw.randrange(3)
                )
            )
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise
            self.rejected += 1
        else:
            self.accepted.append(answer.task_id)

    async def submit_batch(self, count: int) -> None:
        tasks = [batch_pb2.BatchTask(action="click", tab_id="t") for _ in range(count)]
        answer = await self.batches.SubmitBatch(batch_pb2.SubmitBatchRequest(agent_id=self.name, tasks=tasks))
        queued = [outcome.task_id for outcome in answer.tasks if not outcome.HasField("error")]
        self.accepted += queued
        self.rejected += count - len(queued)
        assert answer.submitted == len(queued)

    async def cancel(self, task_id: str) -> None:
        try:
            await self.tasks.CancelTask(task_pb2.CancelTaskRequest(task_id=task_id))
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
        else:
            self.cancelled += 1

    async def final_states(self) -> Counter[str]:
        """How each accepted task ended."""
        states: Counter[str] = Counter()
        for task_id in self.accepted:
            answer = await self.tasks.WaitTask(task_pb2.WaitTaskRequest(task_id=task_id, timeout_ms=120_000))
            assert answer.ended
            states[task_pb2.Task.State.Name(answer.task.state)] += 1
        return states


@pytest.mark.timeout(300)
async def test_stats_equal_the_tally_of_200_agents_and_thousands_of_tasks(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"scheduler": LIMITS}))
    executor, grpc_port, metrics = free_port(), free_port(), free_port()
    up = ("-m", "taskyard_server.cli.main", "up", "--no-gateway", "--log-level", "warning", "--config", str(config))
    store = ("--store", new_store_url())
    addresses = ("--grpc", f"127.0.0.1:{grpc_port}", "--metrics", f"127.0.0.1:{metrics}")
    target = ("--executor", f"http://127.0.0.1:{executor}")
    async with (
        running(str(HERE / "executor.py"), str(executor), str(SEED), until="ready"),
        running(*up, *addresses, *target, *store, until="serves"),
        grpc.aio.insecure_channel(f"127.0.0.1:{grpc_port}") as channel,
    ):
        agents = [Agent(f"agent-{number}", channel, SEED * 1000 + number) for number in range(AGENTS)]
        await asyncio.gather(*(agent.work() for agent in agents))
        finals = await asyncio.gather(*(agent.final_states() for agent in agents))
        stats = await stats_pb2_grpc.StatsServiceStub(channel).GetStats(stats_pb2.GetStatsRequest())

    seen = {
        agent.name: (len(agent.accepted), final["done"], final["failed"], agent.cancelled, agent.rejected)
        for agent, final in zip(agents, finals, strict=True)
    }
    counted = {
        name: (entry.submitted, entry.completed, entry.failed, entry.cancelled, entry.rejected)
        for name, entry in stats.metrics.agents.items()
    }
    assert counted == seen, f"seed {SEED}"
    metrics_total = stats.metrics
    assert (
        metrics_total.tasks_submitted,
        metrics_total.tasks_completed,
        metrics_total.tasks_failed,
        metrics_total.tasks_cancelled,
        metrics_total.tasks_rejected,
    ) == tuple(map(sum, zip(*seen.values(), strict=True)))
    assert all(final["cancelled"] == agent.cancelled for agent, final in zip(agents, finals, strict=True))
    assert (stats.queue.total_queued, stats.queue.total_inflight) == (0, 0)
    assert sum(len(agent.accepted) + agent.rejected for agent in agents) == AGENTS * TASKS_PER_AGENT
    assert all(sum(column) for column in zip(*seen.values(), strict=True)), "every outcome occurs"


@asynccontextmanager
async def running(*args: str, until: str) -> AsyncIterator[None]:
    """A Python process, from the line that holds `until` to the end of the block; it must end well."""
    process = await asyncio.create_subprocess_exec(sys.executable, *args, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(LIMIT_SECS):
            while until.encode() not in (line := await process.stdout.readline()):
                assert line, "ended before it was ready"
        yield
    finally:
        process.terminate()
        await process.wait()
