"""Broker and task of Taskiq for `taskiq worker taskiq_side:broker`. Run as a script, it is the agent: WAVES SIZE, or
SUBMITTERS BATCH SECS.

The environment selects the broker: BESIDE_BROKER is `list` or `stream`, BESIDE_REDIS its URL.
"""

import asyncio
import functools
import os
import sys
from typing import Any

import uvloop
from taskiq.serializers import ORJSONSerializer
from taskiq_redis import ListQueueBroker, RedisStreamBroker
from waves import DURABLE_BACKLOG, Executed, run_waves, run_window

KINDS = {"list": ListQueueBroker, "stream": RedisStreamBroker}

broker = KINDS[os.environ["BESIDE_BROKER"]](
    os.environ["BESIDE_REDIS"], max_connection_pool_size=int(os.environ["BESIDE_CONNECTIONS"])
).with_serializer(ORJSONSerializer())
counts = functools.cache(Executed)
"""Created by the first task, because only workers execute tasks."""


@broker.task(task_name="click")
async def click(agent_id: str, action: str, params: dict[str, Any], labels: dict[str, str]) -> None:
    del agent_id, action, params, labels
    counts().add()


async def submit_all(tasks: list[dict[str, Any]]) -> None:
    await asyncio.gather(*(click.kiq(**task) for task in tasks))


async def agent(*numbers: str) -> None:
    await broker.startup()
    if len(numbers) == 2:
        await run_waves(submit_all, *map(int, numbers))
    else:
        submitters, batch, secs = numbers
        await run_window(submit_all, int(submitters), int(batch), float(secs), backlog=DURABLE_BACKLOG)
    await broker.shutdown()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(agent(*sys.argv[1:]))
