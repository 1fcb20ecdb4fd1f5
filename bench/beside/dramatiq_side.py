"""Broker and actor of Dramatiq for `dramatiq dramatiq_side`. Run as a script, it is the agent: SUBMITTERS BATCH SECS.

BESIDE_REDIS is the URL of its Redis. A worker takes a message off its queue when the actor has ended.
"""

import asyncio
import functools
import os
import sys
from typing import Any

import dramatiq
import uvloop
from dramatiq.brokers.redis import RedisBroker
from waves import DURABLE_BACKLOG, Executed, by_threads, run_window

dramatiq.set_broker(RedisBroker(url=os.environ["BESIDE_REDIS"]))
counts = functools.cache(Executed)
"""Created by the first task, because only workers execute tasks."""


@dramatiq.actor(queue_name="click", actor_name="click")
def click(**task: Any) -> None:
    del task
    counts().add()


if __name__ == "__main__":
    submitters, batch, secs = sys.argv[1:]
    submit_all = by_threads(lambda task: click.send(**task), int(submitters))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run_window(submit_all, int(submitters), int(batch), float(secs), backlog=DURABLE_BACKLOG))
