"""Task and agent of Huey on SQLite, for `huey_consumer huey_side.huey`. Run as a script, it is the agent: SUBMITTERS
BATCH SECS. BESIDE_FILE is the database.

`fsync` sets `synchronous` to full, as Taskyard does; the journal is a write-ahead log by default.
"""

import asyncio
import functools
import os
import sys
from typing import Any

import uvloop
from huey import SqliteHuey
from waves import DURABLE_BACKLOG, Executed, run_window

huey = SqliteHuey("beside", filename=os.environ["BESIDE_FILE"], fsync=True, results=False)
counts = functools.cache(Executed)
"""Created by the first task, because only workers execute tasks."""


@huey.task()
def click(**task: Any) -> None:
    del task
    counts().add()


def submit(tasks: list[dict[str, Any]]) -> None:
    for task in tasks:
        click(**task)


async def submit_all(tasks: list[dict[str, Any]]) -> None:
    await asyncio.to_thread(submit, tasks)


if __name__ == "__main__":
    # The worker knows the task by the name of this module.
    from huey_side import submit_all as submit_of_module

    submitters, batch, secs = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run_window(submit_of_module, int(submitters), int(batch), float(secs), backlog=DURABLE_BACKLOG))
