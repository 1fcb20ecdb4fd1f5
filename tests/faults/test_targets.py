"""Serial queues under faults: two tasks of a target never run at once, whatever happens to the hosts, and all get done.

Hosts are killed and cut off. An operator resumes what failed, which is what a target with a failed task waits for.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskyard import Client, Conflict, EventKind, TaskState

from .fleet import Fleet
from .single_runs import assert_one_at_a_time

pytestmark = [pytest.mark.gate("fleets of processes"), pytest.mark.long]

SEED = int(os.environ.get("SEED", "1"))
HOSTS, SLOTS = 6, 4
TARGETS, TASKS = 12, 240


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path)
    await fleet.start_server()
    try:
        yield fleet
    finally:
        await fleet.stop()


async def inject_faults(fleet: Fleet, chance: random.Random, killed: dict[str, list[float]]) -> None:
    """Kill one host, and then kill or cut off one after the other, until cancelled. `killed` gets the times by host."""
    while True:
        await asyncio.sleep(chance.uniform(0.2, 0.7))
        worker = chance.choice(fleet.workers)
        if killed and chance.random() < 0.6:
            worker.cutter.cut()
        else:
            await worker.kill()
            killed[worker.name].append(time.time())
            await worker.start()


async def resume_failed_tasks(client: Client) -> None:
    """Resume every task that fails, as an operator would, until cancelled."""
    async for event in client.watch(states=[TaskState.FAILED], include_current=True):
        if event.kind is not EventKind.EVICTED:
            try:
                await client.resume(event.task.id)
            except Conflict:
                # The task has been resumed since.
                continue


async def test_two_tasks_of_a_target_never_run_at_once_and_all_are_done(fleet: Fleet) -> None:
    chance = random.Random(SEED)
    killed: dict[str, list[float]] = defaultdict(list)
    async with Client(fleet.address, agent_id="ann") as client:
        await fleet.start_workers(HOSTS, SLOTS)
        # Before there is work, so that it is never done before the first kill.
        injecting = asyncio.create_task(inject_faults(fleet, chance, killed))
        target_of = {}
        for number in range(TASKS):
            target = f"target-{number % TARGETS}"
            submitted = await client.submit("work", params={"secs": chance.uniform(0.05, 0.4)}, target=target)
            target_of[submitted.id] = target
        operating = asyncio.create_task(resume_failed_tasks(client))
        async with asyncio.timeout(120):
            for task_id in target_of:
                while (await client.wait(task_id)).state is not TaskState.DONE:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        for background in (injecting, operating):
            background.cancel()
        stats = await client.stats()
    assert sum(map(len, killed.values())) > 0
    assert stats.metrics.tasks_completed == TASKS
    runs = assert_one_at_a_time(fleet.diaries(), target_of, killed)
    print(f"seed {SEED}: {TASKS} tasks of {TARGETS} targets in {runs} runs, {sum(map(len, killed.values()))} kills")
