"""An agent of the Python SDK, whose calls are repeated by the SDK alone: what it cannot repeat fails the test."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from taskyard import Client, NewTask, TaskState, TaskyardError

from .doors import Answer
from .history import Json, Outcome, SdkCall
from .writers import Tasks, Writer

T = TypeVar("T")
FIELDS = ("priority", "labels", "params", "target")
"""What it asks for, beside agent and action."""


class SdkAgent(Writer):
    """Submits, reads, waits and lists, one call after the other."""

    async def run(self) -> None:
        async with self.new_client() as self._client:
            await super().run()

    def new_client(self) -> Client:
        """What it calls by."""
        return Client(self.doors.grpc_address, namespace=self.doors.namespace)

    async def write(self) -> None:
        chance, client = self.mixture.chance, self._client
        known = chance.choice(self.acknowledged) if self.acknowledged else None
        match chance.choice(("submit", "submit", "submit_batch", "get", "wait", "stats", "list")):
            case "submit_batch":
                await self._submit_batch(chance.randint(2, 10))
            case "get" if known:
                await self._timed("get", client.get(known))
            case "wait" if known:
                with suppress(TimeoutError):
                    await self._timed("wait", client.wait(known, timeout=5))
            case "stats":
                await self._timed("stats", client.stats())
            case "list":
                await self._timed("list", self._list())
            case _:
                await self._submit()

    async def _submit(self) -> None:
        (asked,) = tasks = [self._plain(self.mixture.task(keyed=False))]
        begun = time.monotonic()
        with self._noted_if_it_fails(tasks, begun):
            submitted = await self._timed("submit", self._client.submit(_new(asked, asked["agentId"])))
        self.note(tasks, [Answer(Outcome.ACKNOWLEDGED, {"taskId": submitted.id})], begun, f"{begun}")

    async def _submit_batch(self, count: int) -> None:
        tasks = [self._plain(task) for task in self.mixture.batch(count, keyed=False)]
        begun = time.monotonic()
        submit = self._client.submit_batch([_new(task) for task in tasks], agent_id=tasks[0]["agentId"])
        with self._noted_if_it_fails(tasks, begun):
            batch = await self._timed("submit_batch", submit)
        self._note_batch(tasks, batch.id, batch.task_ids, begun)

    def _note_batch(self, tasks: Tasks, batch_id: str, task_ids: tuple[str, ...], begun: float) -> None:
        bodies = [{"taskId": task_id, "batchId": batch_id} for task_id in task_ids]
        self.note(tasks, [Answer(Outcome.ACKNOWLEDGED, body) for body in bodies], begun, f"{begun}")

    @contextmanager
    def _noted_if_it_fails(self, tasks: Tasks, begun: float) -> Iterator[None]:
        try:
            yield
        except TaskyardError:
            self.note(tasks, [Answer(Outcome.UNKNOWN)] * len(tasks), begun, f"{begun}")
            raise

    async def _list(self) -> None:
        async for _ in self._client.list(states=[TaskState.RUNNING, TaskState.ASSIGNED]):
            pass

    async def _timed(self, kind: str, call: Awaitable[T]) -> T:
        begun = time.monotonic()
        answer = await call
        self.recorder.add(SdkCall, begun, kind=kind)
        return answer

    def _plain(self, asked: dict[str, Json]) -> dict[str, Json]:
        """The task without what keeps it waiting, and without failures."""
        asked["params"].pop("fails", None)
        kept = {"agentId", "action", *FIELDS}
        return {name: value for name, value in asked.items() if name in kept}


def _new(asked: dict[str, Json], agent_id: str | None = None) -> NewTask:
    fields = {name: value for name, value in asked.items() if name in FIELDS}
    return NewTask(asked["action"], agent_id=agent_id, **fields)
