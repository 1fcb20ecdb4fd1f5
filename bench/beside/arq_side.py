"""Worker of Arq for `arq arq_side.Worker`. Run as a script, it is the agent: SUBMITTERS BATCH SECS.

BESIDE_REDIS is the URL of its Redis. Results are not kept, and the worker asks for tasks every 10 ms (default 0.5 s).
"""

import asyncio
import functools
import os
import sys
from typing import Any

import uvloop
from arq import create_pool
from arq.connections import RedisSettings
from waves import DURABLE_BACKLOG, Executed, run_window

REDIS = RedisSettings.from_dsn(os.environ["BESIDE_REDIS"])
counts = functools.cache(Executed)
"""Created by the first task, because only workers execute tasks."""


async def click(_: dict[str, Any], **task: Any) -> None:
    del task
    counts().add()


class Worker:
    """The settings of the worker."""

    functions = (click,)
    redis_settings = REDIS
    max_jobs = 200
    keep_result = 0
    poll_delay = 0.01


async def agent(submitters: int, batch: int, secs: float) -> None:
    redis = await create_pool(REDIS)

    async def submit_all(tasks: list[dict[str, Any]]) -> None:
        await asyncio.gather(*(redis.enqueue_job("click", **task) for task in tasks))

    await run_window(submit_all, submitters, batch, secs, backlog=DURABLE_BACKLOG)
    await redis.aclose()


if __name__ == "__main__":
    numbers = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(agent(int(numbers[0]), int(numbers[1]), float(numbers[2])))
