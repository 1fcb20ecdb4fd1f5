"""Agent and worker of Temporal, by its SDK: `temporal_side.py worker ADDRESS` or `agent ADDRESS SUBMITTERS BATCH SECS`.

A task is a workflow without activities, the least that Temporal can do: it is started, has one workflow task, and is
complete. It runs outside of the sandbox, which would cost the worker time.
"""

import asyncio
import sys
from itertools import count
from typing import Any

from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from waves import Executed, run_window

QUEUE = "click"
BACKLOG = 64
"""With a thousand open workflows the development server does a tenth as many, or none."""
executed: list[Executed] = []


@workflow.defn(name="Click", sandboxed=False)
class Click:
    """Does nothing with its task."""

    @workflow.run
    async def run(self, task: dict[str, Any]) -> None:
        del task
        executed[0].add()


async def agent(address: str, submitters: int, batch: int, secs: float) -> None:
    client, numbers = await Client.connect(address), count()

    async def submit_all(tasks: list[dict[str, Any]]) -> None:
        starts = (client.start_workflow("Click", task, id=f"task-{next(numbers)}", task_queue=QUEUE) for task in tasks)
        await asyncio.gather(*starts)

    await run_window(submit_all, submitters, batch, secs, backlog=BACKLOG)


async def worker(address: str) -> None:
    client = await Client.connect(address)
    executed.append(Executed())
    await Worker(
        client,
        task_queue=QUEUE,
        workflows=[Click],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_concurrent_workflow_tasks=200,
        max_cached_workflows=0,
    ).run()


if __name__ == "__main__":
    kind, server, *given = sys.argv[1:]
    if kind == "worker":
        asyncio.run(worker(server))
    else:
        asyncio.run(agent(server, int(given[0]), int(given[1]), float(given[2])))
