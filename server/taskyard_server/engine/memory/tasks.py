"""Tasks, batches and targets of the embedded engine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import copy
from itertools import islice
from typing import TYPE_CHECKING, Final

from taskyard_server.core.batches import Batch, BatchSubmission
from taskyard_server.core.errors import Refusal
from taskyard_server.core.targets import Target
from taskyard_server.core.task import TERMINAL, Submission, Task
from taskyard_server.engine.port.tasks import TaskFilter, TaskPage

if TYPE_CHECKING:
    from .namespaces import Namespaces

MAX_SCANNED_PER_TURN: Final = 2_000
"""Maximum tasks that a listing scans per turn of the event loop."""


class MemoryTasks:
    """Implements `port.TaskPort`."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._now = namespaces.now

    async def submit(self, namespace: str, submission: Submission) -> Task:
        return self._namespaces.get_or_create(namespace).scheduler.submit(self._now(), submission)

    async def submit_each(self, namespace: str, submissions: Sequence[Submission]) -> list[Task | Refusal]:
        return self._namespaces.get_or_create(namespace).scheduler.submit_each(self._now(), submissions)

    async def submit_batch(self, namespace: str, submissions: Sequence[Submission]) -> BatchSubmission:
        return self._namespaces.get_or_create(namespace).scheduler.submit_batch(self._now(), submissions)

    async def get(self, namespace: str, task_id: str) -> Task:
        return self._namespaces.get(namespace, "task").scheduler.get(task_id)

    async def wait(self, namespace: str, task_id: str, secs: float) -> Task:
        state = self._namespaces.get(namespace, "task")
        task = state.scheduler.get(task_id)
        if task.state not in TERMINAL and secs > 0 and not self._namespaces.closed:
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waits = state.end_waits.setdefault(task_id, set())
            waits.add(ended)
            try:
                await asyncio.wait((ended,), timeout=secs)
            finally:
                waits.discard(ended)
                if not waits and state.end_waits.get(task_id) is waits:
                    del state.end_waits[task_id]
        return task

    async def list_tasks(self, namespace: str, task_filter: TaskFilter, after: int, limit: int) -> TaskPage:
        state = self._namespaces.find(namespace)
        matches: list[Task] = []
        while state is not None:
            scanned = list(islice(state.scheduler.tasks_after(after), MAX_SCANNED_PER_TURN))
            for task in scanned:
                if task_filter.matches(task):
                    if len(matches) == limit:
                        return TaskPage(matches, matches[-1].seq)
                    matches.append(copy(task))
            if len(scanned) < MAX_SCANNED_PER_TURN:
                break
            after = scanned[-1].seq
            await asyncio.sleep(0)
        return TaskPage(matches, None)

    async def cancel(self, namespace: str, task_id: str) -> Task:
        return self._namespaces.get_for_command(namespace, "task").scheduler.cancel(self._now(), task_id)

    async def pause(self, namespace: str, task_id: str) -> Task:
        return self._namespaces.get_for_command(namespace, "task").scheduler.pause(self._now(), task_id)

    async def resume(
        self, namespace: str, task_id: str, target: str | None = None, token_limit: int | None = None
    ) -> Task:
        scheduler = self._namespaces.get_for_command(namespace, "task").scheduler
        return scheduler.resume(self._now(), task_id, target, token_limit)

    async def resolve(self, namespace: str, task_id: str, result: bytes | None) -> Task:
        return self._namespaces.get_for_command(namespace, "task").scheduler.resolve(self._now(), task_id, result)

    async def get_batch(self, namespace: str, batch_id: str) -> Batch:
        return self._namespaces.get(namespace, "batch").scheduler.batch(batch_id)

    async def cancel_batch(self, namespace: str, batch_id: str) -> int:
        return self._namespaces.get_for_command(namespace, "batch").scheduler.cancel_batch(self._now(), batch_id)

    async def list_targets(self, namespace: str, after: str) -> list[Target]:
        state = self._namespaces.find(namespace)
        return state.scheduler.targets.after(after) if state else []
