"""Handlers at work without a server: a test assigns tasks to them, and reads what they report."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from taskyard.hosting.actions import Actions
from taskyard.hosting.handlers import Handlers
from taskyard.hosting.outbox import LeaseKey
from taskyard.v1.input_pb2 import Input
from taskyard.v1.lease_pb2 import Assignment, Lease
from taskyard.v1.runtime_host_pb2 import Report
from taskyard.v1.task_pb2 import Task
from taskyard.values.convert import struct_from
from tests.waiting import LIMIT_SECS


class Handling:
    """Handlers that run. `progress` and `outcomes` are what they have reported and the test has not read yet."""

    def __init__(self, actions: Actions, slots: int = 10) -> None:
        self.progress: asyncio.Queue[Report] = asyncio.Queue()
        self.outcomes: asyncio.Queue[tuple[LeaseKey, Report | None]] = asyncio.Queue()
        self.handlers = Handlers(
            actions,
            slots,
            on_progress=self.progress.put_nowait,
            on_outcome=lambda key, report: self.outcomes.put_nowait((key, report)),
        )

    def start(
        self,
        action: str,
        task_id: str = "t",
        *,
        params: Any = None,
        inputs: Mapping[str, Input] | None = None,
        **fields: Any,
    ) -> LeaseKey:
        """Assign a task with these fields, and hand it these inputs."""
        task = Task(task_id=task_id, agent_id="ann", action=action, state=Task.STATE_ASSIGNED, **fields)
        if params is not None:
            task.params.CopyFrom(struct_from(params))
        lease = Lease(task_id=task_id, fencing_token=1, lease_secs=60)
        self.handlers.start([Assignment(lease=lease, task=task, inputs=inputs)])
        return task_id, 1

    async def reported(self) -> Report:
        """The next report of progress."""
        return await asyncio.wait_for(self.progress.get(), LIMIT_SECS)

    async def ended(self) -> tuple[str, Report | None]:
        """The next task that ends, and its outcome."""
        key, report = await asyncio.wait_for(self.outcomes.get(), LIMIT_SECS)
        return key[0], report

    async def run(self, action: str, task_id: str = "t", **fields: Any) -> Report:
        """The outcome of a task that is assigned alone."""
        self.start(action, task_id, **fields)
        _, report = await self.ended()
        assert report is not None
        return report


@asynccontextmanager
async def handling(actions: Actions, slots: int = 10) -> AsyncIterator[Handling]:
    """Run these actions until the test is over."""
    work = Handling(actions, slots)
    await work.handlers.open()
    try:
        yield work
    finally:
        await work.handlers.close()
