"""The common part of the Python agents and workers of `others.py`: tasks, counts of executions, and the measurement.

It needs only the standard library, because it runs in the virtual environments of all systems.
"""

import asyncio
import json
import mmap
import os
import struct
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

COUNTS = "BESIDE_COUNTS"
"""The variable that names the folder in which processes count the tasks that they execute."""
AGENTS = 1000
WARM_UP_WAVES = 3
WAVE_LIMIT_SECS = 30.0
WARM_UP_SECS = 1.0
BACKLOG = 4000
"""Maximum tasks that are submitted and not yet executed, where there are no waves."""
DURABLE_BACKLOG = 1000
"""The same where tasks are kept: tables that are long make some of the others slower."""
POLL_SECS = 0.001
RECORD = struct.Struct("<dQ")
"""The time of the last execution, then the number. A reader of a number gets its time, or a later one."""


def task(number: int) -> dict[str, Any]:
    """A task of about 300 bytes. No two are equal, and `AGENTS` agents take turns."""
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
    """Counts the tasks that this process has executed, in a file that the agent reads."""

    def __init__(self) -> None:
        path = Path(os.environ[COUNTS]) / str(os.getpid())
        path.write_bytes(bytes(RECORD.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), RECORD.size)
        self._count = 0

    def add(self) -> None:
        """Count one task, executed now."""
        self._count += 1
        RECORD.pack_into(self._memory, 0, time.monotonic(), self._count)


def executed() -> tuple[int, float]:
    """How many tasks all processes have executed, and the time of the last one by the monotonic clock."""
    files = [path.read_bytes() for path in Path(os.environ[COUNTS]).iterdir()]
    counts = [RECORD.unpack(file) for file in files if file]
    return sum(count for _, count in counts), max((last for last, _ in counts), default=0.0)


async def until_executed(least: int) -> tuple[int, float]:
    """Wait for at least this number of executed tasks. It polls, because notifications would cost each system time."""
    while (seen := executed())[0] < least:  # noqa: ASYNC110
        await asyncio.sleep(POLL_SECS)
    return seen


async def measured(measure: Callable[[], Awaitable[tuple[int, float]]]) -> None:
    """Print `ready`, wait for a line, measure, and print the tasks and the seconds."""
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    tasks, secs = await measure()
    print(json.dumps({"tasks": tasks, "secs": secs}), flush=True)


async def run_waves(submit_all: Callable[[list[dict[str, Any]]], Awaitable[object]], waves: int, size: int) -> None:
    """Measure waves of `size` tasks, after a few for warm-up.

    A wave lasts from before its tasks are created to the last execution; then the next one begins.
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
    submit_all: Callable[[list[dict[str, Any]]], Awaitable[object]],
    submitters: int,
    batch: int,
    secs: float,
    ended: Callable[[], Awaitable[int]] | None = None,
    backlog: int = BACKLOG,
) -> None:
    """Measure for `secs` how fast the tasks of several submitters are executed. Each submits batch after batch.

    `ended` tells how many tasks have ended durably, where an execution is not yet that.
    """
    submitted = seen = 0
    turn = asyncio.Lock()

    async def submitter() -> None:
        nonlocal submitted, seen
        while True:
            async with turn:
                first, submitted = submitted, submitted + batch
                if seen < submitted - backlog:
                    seen, _ = await until_executed(submitted - backlog)
            await submit_all([task(number) for number in range(first, first + batch)])

    async def count() -> int:
        return executed()[0] if ended is None else await ended()

    async def window() -> tuple[int, float]:
        before, begin = await count(), time.monotonic()
        await asyncio.sleep(secs)
        # The count takes a moment where it asks a server, at both ends alike.
        return await count() - before, time.monotonic() - begin

    async with asyncio.TaskGroup() as group:
        running = [group.create_task(submitter()) for _ in range(submitters)]
        # Some workers take seconds to start.
        await until_executed(1)
        await asyncio.sleep(WARM_UP_SECS)
        await measured(window)
        for each in running:
            each.cancel()


def by_threads(submit: Callable[[dict[str, Any]], object], threads: int) -> Callable[[list[dict[str, Any]]], Any]:
    """What submits several tasks one after the other in a thread, for clients that block."""
    pool = ThreadPoolExecutor(threads)

    def submit_each(tasks: list[dict[str, Any]]) -> None:
        for each in tasks:
            submit(each)

    async def submit_all(tasks: list[dict[str, Any]]) -> None:
        await asyncio.get_running_loop().run_in_executor(pool, submit_each, tasks)

    return submit_all
