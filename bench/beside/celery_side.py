"""Application of Celery for `celery --app celery_side worker`. Run as a script, it is the agent: SUBMITTERS BATCH SECS.

BESIDE_REDIS is the URL of its Redis. Without results; tasks are acknowledged when they have ended, so that those of a
worker that dies run again.
"""

import asyncio
import functools
import os
import sys
from typing import Any

import uvloop
from celery import Celery
from waves import DURABLE_BACKLOG, Executed, by_threads, run_window

app = Celery("beside", broker=os.environ["BESIDE_REDIS"])
app.conf.update(task_ignore_result=True, task_acks_late=True, worker_prefetch_multiplier=100, broker_pool_limit=50)
counts = functools.cache(Executed)
"""Created by the first task, because only workers execute tasks."""


@app.task(name="click")
def click(**task: Any) -> None:
    del task
    counts().add()


if __name__ == "__main__":
    submitters, batch, secs = sys.argv[1:]
    submit_all = by_threads(lambda task: click.apply_async(kwargs=task), int(submitters))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run_window(submit_all, int(submitters), int(batch), float(secs), backlog=DURABLE_BACKLOG))
