"""kill -9 between the end of a parent and those of its thousands of children: all of these end, and no others do."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import grpc
import pytest

from taskyard.v1 import batch_pb2, batch_pb2_grpc, task_pb2, task_pb2_grpc
from tests.waiting import until

from .test_output import KILLS, SEED, repeated
from .trials import SETTINGS, yard_in

pytestmark = [pytest.mark.gate("whole yards that are killed"), pytest.mark.long]

BATCH = 400
BATCHES = 6
"""Far more children than end in one step with their parent."""
BELOW = 20
ONE_IN = 40


class Families:
    """Held tasks that others have submitted."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._tasks = task_pb2_grpc.TaskServiceStub(channel)
        self._batches = batch_pb2_grpc.BatchServiceStub(channel)

    async def begin(self, number: int) -> str:
        """A parent with children, one in forty of which is kept; some others have a child that ends with them."""
        request = task_pb2.SubmitTaskRequest(agent_id="ann", action="plan", hold=True, idempotency_key=f"plan {number}")
        parent = (await repeated(lambda: self._tasks.SubmitTask(request, timeout=5))).task_id
        for each in range(BATCHES):
            accepted = await self._submit([parent] * BATCH, f"{number} {each}")
            await self._submit(accepted[:BELOW], f"{number} {each} below")
        return parent

    async def end(self, parent: str) -> None:
        """Cancel it, however often that must be said."""
        try:
            cancel = task_pb2.CancelTaskRequest(task_id=parent)
            await repeated(lambda: self._tasks.CancelTask(cancel, timeout=5))
        except grpc.aio.AioRpcError as error:
            # It was so already, by a call whose answer was lost.
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise

    async def count(self, action: str, state: str) -> int:
        """How many of these there are."""
        request = task_pb2.ListTasksRequest(action=action, state=state, page_size=1_000)
        found = 0
        while True:
            page = await repeated(lambda: self._tasks.ListTasks(request, timeout=5))
            found += len(page.tasks)
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def _submit(self, parents: list[str], key: str) -> list[str]:
        request = batch_pb2.SubmitBatchRequest(agent_id="ann")
        for place, parent in enumerate(parents):
            is_kept = place % ONE_IN == ONE_IN - 1
            request.tasks.add(
                action="keep" if is_kept else "end",
                hold=True,
                parent_id=parent,
                on_parent_end=task_pb2.Parent.keep if is_kept else task_pb2.Parent.cancel,
                idempotency_key=f"{key} {place}",
            )
        answer = await repeated(lambda: self._batches.SubmitBatch(request, timeout=20))
        return [outcome.task_id for outcome in answer.tasks]


async def test_kills_between_the_ends_leave_no_child_that_should_have_ended(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    options = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200))
    settings = {**SETTINGS, "scheduler": {**SETTINGS["scheduler"], "maxBatchSize": BATCH}}
    async with yard_in(tmp_path, settings=settings) as yard, grpc.aio.insecure_channel(yard.grpc, options) as channel:
        families = Families(channel)
        for number in range(KILLS):
            parent = await families.begin(number)
            ending = asyncio.create_task(families.end(parent))
            await asyncio.sleep(chance.uniform(0.0, 0.1))
            await yard.kill(*chance.choice([("server",), ("writer", "server"), ("server", "writer")]))
            await yard.start()
            await ending
            left = await until(lambda: families.count("end", "pending"), lambda left: left == 0)
            assert left == 0
        kept = BATCH // ONE_IN
        assert await families.count("end", "cancelled") == KILLS * BATCHES * (BATCH - kept + BELOW)
        assert await families.count("keep", "pending") == KILLS * BATCHES * kept
        await yard.check_store()
