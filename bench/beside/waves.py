"""What the agents and workers in Python of `others.py` share: the tasks, the count of executions, the measurement.

It needs nothing but the standard library, as it runs in the virtual environments of all the systems.
"""

import asyncio
import json
import mmap
import os
import struct
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

COUNTS = "BESIDE_COUNTS"
"""The variable that names the folder where the processes that execute tasks keep their counts."""
AGENTS = 1000
WARM_UP_WAVES = 3
WAVE_LIMIT_SECS = 30.0
WARM_UP_SECS = 1.0
BACKLOG = 4000
"""The most tasks that are submitted and not yet executed, where there are no waves."""
LOOK_SECS = 0.001
RECORD = struct.Struct("<dQ")
"""The time of the last execution, then the number: who sees a number sees its time, or a later one."""


def task(number: int) -> dict[str, Any]:
    """A task of about 300 bytes, no two of them alike, of `AGENTS` agents in turn."""
    return {
        "agent_id": f"agent-{number % AGENTS}",
        "action": "click",
        "params": {
            "url": f"https://shop.example.com/orders/{number}/items?page={number % 17}",
            "selector": f"#order-{number} > button.confirm",
            "text": f"confirm order {number}, then wait for the page",
            "wait_ms": number % 500,
            "visible": True,
        },
        "labels": {"run": f"run-{number // 1000}", "kind": "no-op"},
    }


class Executed:
    """How many tasks this process has executed, where the agent can see it without being told."""

    def __init__(self) -> None:
        path = Path(os.environ[COUNTS]) / str(os.getpid())
        path.write_bytes(bytes(RECORD.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), RECORD.size)
        self._count = 0

    def add(self) -> None:
        """One more, just now."""
        self._count += 1
        RECORD.pack_into(self._memory, 0, time.monotonic(), self._count)


def executed() -> tuple[int, float]:
    """How many tasks were executed by all processes together, and when the last one was, by the monotonic clock."""
    files = [path.read_bytes() for path in Path(os.environ[COUNTS]).iterdir()]
    counts = [RECORD.unpack(file) for file in files if file]
    return sum(count for _, count in counts), max((last for last, _ in counts), default=0.0)


async def until_executed(least: int) -> tuple[int, float]:
    """What `executed` answers once it is so many tasks. It looks, as no system tells its agents without a cost."""
    while (seen := executed())[0] < least:  # noqa: ASYNC110
        await asyncio.sleep(LOOK_SECS)
    return seen


async def measured(measure: Callable[[], Awaitable[tuple[int, float]]]) -> None:
    """Print `ready`, wait for a line, and print the tasks and the seconds that were measured."""
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    tasks, secs = await measure()
    print(json.dumps({"tasks": tasks, "secs": secs}), flush=True)


async def run_waves(submit_all: Callable[[list[dict[str, Any]]], Awaitable[object]], waves: int, size: int) -> None:
    """Measure waves of `size` tasks, after a few that do not count.

    A wave lasts from before its tasks are made to the last execution; then the next one begins.
    """
    submitted = 0

    async def wave() -> float:
        nonlocal submitted
        begin = time.monotonic()
        async with asyncio.timeout(WAVE_LIMIT_SECS):
            await submit_all([task(number) for number in range(submitted, submitted + size)])
            submitted += size
            count, last = await until_executed(submitted)
        if count > submitted:
            raise SystemExit(f"{submitted} tasks were submitted, {count} executed")
        return last - begin

    async def all_waves() -> tuple[int, float]:
        return waves * size, sum([await wave() for _ in range(waves)])

    for _ in range(WARM_UP_WAVES):
        await wave()
    await measured(all_waves)


async def run_window(
    submit_all: Callable[[list[dict[str, Any]]], Awaitable[object]], submitters: int, batch: int, secs: float
) -> None:
    """Measure `secs` of what some submitters do, each batch after batch, once that runs."""
    submitted = 0

    async def submitter() -> None:
        nonlocal submitted
        while True:
            first, submitted = submitted, submitted + batch
            await until_executed(submitted - BACKLOG)
            await submit_all([task(number) for number in range(first, first + batch)])

    async def window() -> tuple[int, float]:
        begin, (before, _) = time.monotonic(), executed()
        await asyncio.sleep(secs)
        return executed()[0] - before, time.monotonic() - begin

    async with asyncio.TaskGroup() as group:
        running = [group.create_task(submitter()) for _ in range(submitters)]
        await asyncio.sleep(WARM_UP_SECS)
        await measured(window)
        for each in running:
            each.cancel()
