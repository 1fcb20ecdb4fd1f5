"""Tasks, batches and targets of the embedded engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from copy import copy
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from taskyard_server.core.batches import Batch, BatchSubmission
from taskyard_server.core.errors import Refusal, Unavailable
from taskyard_server.core.targets import Target
from taskyard_server.core.task import TERMINAL, Submission, Task, TaskState
from taskyard_server.engine.port.answers import Answer
from taskyard_server.engine.port.tasks import TaskFilter, TaskPage

if TYPE_CHECKING:
    from .namespace import NamespaceState
    from .namespaces import Namespaces

T = TypeVar("T")

MAX_SCANNED_PER_TURN: Final = 2_000
"""Maximum tasks that a listing scans per turn of the event loop."""


class MemoryTasks:
    """Implements `port.TaskPort`."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._now = namespaces.now
        self._answers = namespaces.answers

    async def submit(self, namespace: str, submission: Submission, *, show: Callable[[Task], T]) -> T:
        self._namespaces.require_room()
        state = self._namespaces.get_or_create(namespace)

        def command() -> T:
            return show(state.scheduler.submit(self._now(), submission))

        return command() if self._answers.keeper is None else await self._answers.give(state, command)

    def submit_each(
        self, namespace: str, submissions: Sequence[Submission], *, show: Callable[[list[Task | Refusal]], T]
    ) -> Answer[T]:
        try:
            self._namespaces.require_room()
        except Unavailable as refusal:
            return Answer(show([Unavailable(refusal.message) for _ in submissions]))
        state = self._namespaces.get_or_create(namespace)
        return self._answers.of(state, show(state.scheduler.submit_each(self._now(), submissions)))

    async def submit_batch(
        self, namespace: str, submissions: Sequence[Submission], *, show: Callable[[BatchSubmission], T]
    ) -> T:
        self._namespaces.require_room()
        state = self._namespaces.get_or_create(namespace)
        return await self._answers.give(state, lambda: show(state.scheduler.submit_batch(self._now(), submissions)))

    async def get(self, namespace: str, task_id: str, *, show: Callable[[Task], T]) -> T:
        state = self._namespaces.get(namespace, "task")
        return await self._read(state, task_id, lambda: show(state.scheduler.get(task_id)))

    def state_of(self, namespace: str, task_id: str) -> TaskState | None:
        state = self._namespaces.find(namespace)
        task = None if state is None else state.scheduler.life.tasks.get(task_id)
        return None if task is None else task.state

    async def wait(self, namespace: str, task_id: str, secs: float, *, show: Callable[[Task], T]) -> T:
        state = self._namespaces.get(namespace, "task")
        task = await self._read(state, task_id, lambda: state.scheduler.get(task_id))
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
        return await self._read(state, task_id, lambda: show(task))

    async def list_tasks(self, namespace: str, task_filter: TaskFilter, after: int, limit: int) -> TaskPage:
        state = self._namespaces.find(namespace)
        if state is None:
            return TaskPage([], None)
        return await self._answers.of(state, await self._list_tasks(state, task_filter, after, limit))

    async def cancel(self, namespace: str, task_id: str, *, show: Callable[[Task], T]) -> T:
        state = self._namespaces.get_for_command(namespace, "task")
        return await self._answers.give(state, lambda: show(state.scheduler.cancel(self._now(), task_id)))

    async def pause(self, namespace: str, task_id: str, *, show: Callable[[Task], T]) -> T:
        state = self._namespaces.get_for_command(namespace, "task")
        return await self._answers.give(state, lambda: show(state.scheduler.pause(self._now(), task_id)))

    async def resume(
        self,
        namespace: str,
        task_id: str,
        target: str | None = None,
        token_limit: int | None = None,
        *,
        show: Callable[[Task], T],
    ) -> T:
        state = self._namespaces.get_for_command(namespace, "task")
        return await self._answers.give(
            state, lambda: show(state.scheduler.resume(self._now(), task_id, target, token_limit))
        )

    async def resolve(self, namespace: str, task_id: str, result: bytes | None, *, show: Callable[[Task], T]) -> T:
        state = self._namespaces.get_for_command(namespace, "task")
        return await self._answers.give(state, lambda: show(state.scheduler.resolve(self._now(), task_id, result)))

    async def get_batch(self, namespace: str, batch_id: str, *, show: Callable[[Batch], T]) -> T:
        state = self._namespaces.get(namespace, "batch")
        return await self._answers.give(state, lambda: show(state.scheduler.batch(batch_id)))

    async def cancel_batch(self, namespace: str, batch_id: str) -> int:
        state = self._namespaces.get_for_command(namespace, "batch")
        return await self._answers.give(state, lambda: state.scheduler.cancel_batch(self._now(), batch_id))

    async def list_targets(self, namespace: str, after: str, *, show: Callable[[list[Target]], T]) -> T:
        state = self._namespaces.find(namespace)
        if state is None:
            return show([])
        return await self._answers.give(state, lambda: show(state.scheduler.targets.after(after)))

    async def _read(self, state: NamespaceState, task_id: str, read: Callable[[], T]) -> T:
        """What is read of one task, at once where nothing of it waits for a commit."""
        return await self._answers.give(state, read) if state.is_unkept(task_id) else read()

    async def _list_tasks(self, state: NamespaceState, task_filter: TaskFilter, after: int, limit: int) -> TaskPage:
        matches: list[Task] = []
        while True:
            scanned = list(islice(state.scheduler.tasks_after(after), MAX_SCANNED_PER_TURN))
            for task in scanned:
                if task_filter.matches(task):
                    if len(matches) == limit:
                        return TaskPage(matches, matches[-1].seq)
                    matches.append(copy(task))
            if len(scanned) < MAX_SCANNED_PER_TURN:
                return TaskPage(matches, None)
            after = scanned[-1].seq
            await asyncio.sleep(0)
