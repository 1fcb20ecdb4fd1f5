"""Agent and worker of NATS JetStream, by nats-py: `nats_side.py agent ADDRESS SECS` or `nats_side.py worker ADDRESS`.

The agent publishes several batches of 50 at once, and awaits that they are stored. The worker pulls 50 at a time and
acknowledges each message.
"""

import asyncio
import json
import sys
from typing import Any

import nats
import uvloop
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy
from waves import Executed, run_window

STREAM, SUBJECT, CONSUMER = "TASKS", "tasks", "workers"
BATCH = 50
PUBLISHERS = 16
"""Unanswered batches."""
PULLERS = 4
PULL_SECS = 1.0
"""Maximum seconds until a pull returns. Until it is full, it holds back the messages that it has."""


async def queue(js: JetStreamContext) -> None:
    """Create a work queue in files, which is the default."""
    await js.add_stream(name=STREAM, subjects=[SUBJECT], retention=RetentionPolicy.WORK_QUEUE)
    await js.add_consumer(STREAM, ConsumerConfig(durable_name=CONSUMER, ack_policy=AckPolicy.EXPLICIT))


async def agent(address: str, secs: float) -> None:
    connection = await nats.connect(f"nats://{address}")
    js = connection.jetstream()
    await queue(js)

    async def publish(tasks: list[dict[str, Any]]) -> None:
        stored = [await js.publish_async(SUBJECT, json.dumps(task).encode()) for task in tasks]
        await asyncio.gather(*stored)

    await run_window(publish, PUBLISHERS, BATCH, secs)
    await connection.close()


async def worker(address: str) -> None:
    connection, executed = await nats.connect(f"nats://{address}"), Executed()
    js = connection.jetstream()
    await queue(js)

    async def puller() -> None:
        subscription = await js.pull_subscribe_bind(CONSUMER, STREAM)
        while True:
            try:
                messages = await subscription.fetch(BATCH, timeout=PULL_SECS)
            except TimeoutError:
                continue
            for message in messages:
                json.loads(message.data)
                executed.add()
                await message.ack()

    await asyncio.gather(*(puller() for _ in range(PULLERS)))


if __name__ == "__main__":
    kind, server, *secs = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(worker(server) if kind == "worker" else agent(server, float(*secs)))
