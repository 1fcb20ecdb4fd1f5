"""Agents that submit over every door, note what they were told, and repeat under its key what they were not told."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, Final
from uuid import uuid4

import grpc

from taskyard.errors import error_from_rpc
from taskyard.v1.batch_pb2 import SubmitBatchRequest
from taskyard.v1.task_pb2 import SubmitTaskRequest, SubmitTasksRequest

from .doors import CALL_SECS, UNKNOWN, Answer, Doors, message, plain
from .history import Json, Outcome, Recorder, Submission
from .mixture import Mixture

AGAIN_SECS: Final = 0.1
"""How long a writer waits after an unknown outcome."""
MOST_UNANSWERED: Final = 5
Tasks = Sequence[dict[str, Json]]


class Writer(ABC):
    """One agent with one call at a time. `acknowledged` has the ids of its tasks, the newest last."""

    def __init__(self, doors: Doors, mixture: Mixture, recorder: Recorder, pause_secs: float) -> None:
        self.doors = doors
        self.mixture = mixture
        self.recorder = recorder
        self.acknowledged: deque[str] = deque(maxlen=200)
        self.stopping = asyncio.Event()
        self._pauses = mixture.pauses(pause_secs)

    @abstractmethod
    async def write(self) -> None:
        """Submit some tasks, until their outcome is known, if they can be repeated."""

    async def run(self) -> None:
        """Submit until told to stop. What is unknown then is repeated until it is known."""
        while not self.stopping.is_set():
            await self.write()
            await self.pause(next(self._pauses))

    async def pause(self, secs: float) -> None:
        """Wait, or until told to stop."""
        try:
            async with asyncio.timeout(secs):
                await self.stopping.wait()
        except TimeoutError:
            pass

    def note(
        self, tasks: Tasks, answers: Sequence[Answer], begun: float, call: str, lane: str = "", first: int = 0
    ) -> None:
        """Write down the tries of one message."""
        for place, (asked, answer) in enumerate(zip(tasks, answers, strict=True)):
            task_id = answer.body.get("taskId")
            self.recorder.add(
                Submission,
                begun,
                outcome=answer.outcome,
                call=call,
                lane=lane or call,
                place=first + place,
                asked=asked,
                task_id=task_id,
                created_at=answer.body.get("createdAt"),
                batch_id=answer.body.get("batchId"),
            )
            if task_id is not None:
                self.acknowledged.append(task_id)


class CallingWriter(Writer):
    """A writer of calls that take one task or a batch."""

    async def write(self) -> None:
        chance = self.mixture.chance
        keyed = chance.random() < 0.8
        if chance.random() < 0.2:
            tasks = self.mixture.batch(chance.randint(2, 20), keyed=keyed)
        else:
            tasks = [self.mixture.task(keyed=keyed)]
        while True:
            begun, call = time.monotonic(), uuid4().hex
            answers = await (self.submit_one(tasks[0]) if len(tasks) == 1 else self.submit_batch(tasks))
            self.note(tasks, answers, begun, call)
            if not keyed or all(answer.outcome is not Outcome.UNKNOWN for answer in answers):
                return
            await asyncio.sleep(AGAIN_SECS)

    async def submit_one(self, task: dict[str, Json]) -> list[Answer]:
        return [await self.send_one(task)]

    async def submit_batch(self, tasks: Tasks) -> list[Answer]:
        body: dict[str, Json] = {"agentId": tasks[0]["agentId"], "tasks": []}
        if "callbackUrl" in tasks[0]:
            body["callbackUrl"] = tasks[0]["callbackUrl"]
        for task in tasks:
            body["tasks"].append(
                {name: value for name, value in task.items() if name not in ("agentId", "callbackUrl")}
            )
        answer = await self.send_batch(body)
        if answer.outcome is not Outcome.ACKNOWLEDGED:
            return [answer] * len(tasks)
        outcomes = []
        for each in answer.body["tasks"]:
            outcome = Outcome.REFUSED if "error" in each else Outcome.ACKNOWLEDGED
            outcomes.append(Answer(outcome, each | {"batchId": answer.body["batchId"]}))
        return outcomes

    @abstractmethod
    async def send_one(self, body: dict[str, Json]) -> Answer: ...

    @abstractmethod
    async def send_batch(self, body: dict[str, Json]) -> Answer: ...


class RestWriter(CallingWriter):
    """A writer over REST, through the gateway."""

    async def send_one(self, body: dict[str, Json]) -> Answer:
        return await self.doors.post("/tasks", body)

    async def send_batch(self, body: dict[str, Json]) -> Answer:
        return await self.doors.post("/tasks/batch", body)


class UnaryWriter(CallingWriter):
    """A writer over unary gRPC."""

    async def send_one(self, body: dict[str, Json]) -> Answer:
        return await self.doors.call(self.doors.tasks.SubmitTask, message(body, SubmitTaskRequest))

    async def send_batch(self, body: dict[str, Json]) -> Answer:
        return await self.doors.call(self.doors.batches.SubmitBatch, message(body, SubmitBatchRequest))


class StreamWriter(Writer):
    """A writer over SubmitTasks, with some messages under way at once. After a break it sends those again, in order."""

    def __init__(self, doors: Doors, mixture: Mixture, recorder: Recorder, pause_secs: float) -> None:
        super().__init__(doors, mixture, recorder, pause_secs)
        self._again: deque[Tasks] = deque()

    async def write(self) -> None:
        """Work over one stream until it breaks or the writer is told to stop and has all its answers."""
        lane, place = uuid4().hex, 0
        unanswered: deque[tuple[Tasks, float, int]] = deque()
        stream = self.doors.tasks.SubmitTasks(metadata=self.doors.metadata)
        try:
            while not self.stopping.is_set() or unanswered or self._again:
                while len(unanswered) < MOST_UNANSWERED and (self._again or not self.stopping.is_set()):
                    tasks = self._again.popleft() if self._again else self._next_message()
                    unanswered.append((tasks, time.monotonic(), place))
                    place += len(tasks)
                    async with asyncio.timeout(CALL_SECS):
                        await stream.write(
                            SubmitTasksRequest(tasks=[message(task, SubmitTaskRequest) for task in tasks])
                        )
                    if self.mixture.chance.random() < 0.5:
                        break
                async with asyncio.timeout(CALL_SECS):
                    answer: Any = await stream.read()
                if answer is grpc.aio.EOF:
                    break
                tasks, begun, first = unanswered.popleft()
                answers = [_answer(outcome) for outcome in answer.outcomes]
                self.note(tasks, answers, begun, f"{lane}-{first}", lane, first)
                if "idempotencyKey" in tasks[0] and any(each.outcome is Outcome.UNKNOWN for each in answers):
                    self._again.append(tasks)
                    await asyncio.sleep(AGAIN_SECS)
                await self.pause(next(self._pauses))
        except grpc.aio.AioRpcError as error:
            if error_from_rpc(error).code not in UNKNOWN:
                raise
        except (TimeoutError, asyncio.InvalidStateError):
            pass
        finally:
            stream.cancel()
        for tasks, begun, first in unanswered:
            unknown = [Answer(Outcome.UNKNOWN)] * len(tasks)
            self.note(tasks, unknown, begun, f"{lane}-{first}", lane, first)
        # Those without keys cannot be repeated.
        self._again.extendleft(tasks for tasks, _, _ in reversed(unanswered) if "idempotencyKey" in tasks[0])
        if unanswered:
            await asyncio.sleep(AGAIN_SECS)

    async def run(self) -> None:
        await super().run()
        while self._again:
            await self.write()

    def _next_message(self) -> Tasks:
        chance = self.mixture.chance
        return self.mixture.tasks(chance.choice((1, 2, 5, 20)), keyed=chance.random() < 0.8)


def _answer(outcome: Any) -> Answer:
    body = plain(outcome)
    if "accepted" in body:
        return Answer(Outcome.ACKNOWLEDGED, body["accepted"])
    code = body.get("error", {}).get("code", "")
    return Answer(Outcome.UNKNOWN if code in UNKNOWN else Outcome.REFUSED, code=code)
