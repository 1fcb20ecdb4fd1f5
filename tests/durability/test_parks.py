"""kill -9 while tasks record steps, are parked, asked about and woken: nothing that was told is lost or comes twice.

A host without a stream runs one small program for each task, from its start at each lease: a step, a question, a nap,
an event, a second step. People answer the questions, and send the events: some tasks wait for theirs already, and some
do so later. All calls are made again while nobody serves.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import grpc
import pytest

from taskyard.v1 import (
    event_pb2,
    event_pb2_grpc,
    lease_pb2,
    lease_pb2_grpc,
    park_pb2,
    park_pb2_grpc,
    runtime_host_pb2,
    step_pb2,
    step_pb2_grpc,
    task_pb2,
    task_pb2_grpc,
)
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub
from taskyard.v1.wait_pb2 import EventWait, NewWait, Question

from .test_output import SEED, killed, repeated
from .trials import SETTINGS, yard_in

pytestmark = [pytest.mark.gate("whole yards that are killed"), pytest.mark.long]

PAUSE_SECS = 0.15
"""Between two submissions, so that the one host comes after."""
NAP_SECS = 0.3
LIFE_SECS = 120
"""Of the events, in which their tasks begin to wait for them at the latest."""
GONE = (grpc.StatusCode.ABORTED, grpc.StatusCode.NOT_FOUND)
"""What was done by a call whose answer was lost cannot be done again."""


class Programs:
    """Tasks that wait in the middle. `kept` are the values that the server has acknowledged, by task and step."""

    def __init__(self, channel: grpc.aio.Channel, chance: random.Random) -> None:
        self._tasks = task_pb2_grpc.TaskServiceStub(channel)
        self._leases = lease_pb2_grpc.LeaseServiceStub(channel)
        self._hosts = RuntimeHostServiceStub(channel)
        self._steps = step_pb2_grpc.StepServiceStub(channel)
        self._parks = park_pb2_grpc.ParkServiceStub(channel)
        self._events = event_pb2_grpc.EventServiceStub(channel)
        self._chance = chance
        self.submitted: list[str] = []
        self.kept: dict[tuple[str, str], str] = {}
        self.done = 0

    async def submit(self, is_over: asyncio.Event) -> None:
        """Submit tasks until it is over."""
        while not is_over.is_set():
            number = len(self.submitted)
            request = task_pb2.SubmitTaskRequest(agent_id="ann", action="run", idempotency_key=f"task {number}")
            answer = await repeated(lambda request=request: self._tasks.SubmitTask(request, timeout=5))
            self.submitted.append(answer.task_id)
            await asyncio.sleep(PAUSE_SECS)

    async def answer(self, is_over: asyncio.Event) -> None:
        """Answer what is asked until all is done, each question with a word of its own."""
        while not is_over.is_set() or self.done < len(self.submitted):
            request = park_pb2.ListQuestionsRequest()
            listed = await repeated(lambda request=request: self._parks.ListQuestions(request, timeout=5))
            await asyncio.gather(*[self._answer(each.task_id) for each in listed.questions])
            await asyncio.sleep(0.05)

    async def _answer(self, task_id: str) -> None:
        key = task_id, "go"
        word = self.kept.get(key) or f"{self._chance.random()}"
        request = park_pb2.AnswerQuestionRequest(task_id=task_id, question_id="go")
        request.answer.string_value = word
        await repeated(lambda: self._parks.AnswerQuestion(request, timeout=5))
        self.kept[key] = word
        await asyncio.sleep(self._chance.choice([0, 2 * NAP_SECS]))
        event = event_pb2.SendEventRequest(name=task_id, event_id="paid", life_secs=LIFE_SECS)
        event.payload.string_value = word
        await repeated(lambda: self._events.SendEvent(event, timeout=5))

    async def work(self, is_over: asyncio.Event) -> None:
        """Run tasks until it is over and all are done."""
        host = runtime_host_pb2.RegisterHostRequest(host_id="h")
        await repeated(lambda: self._hosts.RegisterHost(host, timeout=5))
        turn = 0
        while not is_over.is_set() or self.done < len(self.submitted):
            turn += 1
            claim = lease_pb2.ClaimTaskRequest(host_id="h", lease_secs=3_600, claim_id=str(turn), wait_ms=200)
            leased = await repeated(lambda claim=claim: self._leases.ClaimTask(claim, timeout=5))
            if leased.claimed:
                try:
                    await self._run(leased)
                except grpc.aio.AioRpcError as error:
                    if error.code() not in GONE:
                        raise

    async def _run(self, leased: lease_pb2.ClaimTaskResponse) -> None:
        task_id = leased.task_id
        under: dict[str, Any] = {"host_id": "h", "task_id": task_id, "fencing_token": leased.fencing_token}
        fetch = step_pb2.FetchStepsRequest(**under)
        steps = (await repeated(lambda: self._steps.FetchSteps(fetch, timeout=5))).steps
        found = {step.name: step.result.string_value for step in steps}
        for name in ("one", "go"):
            # What was acknowledged is there in each later run.
            assert found.get(name) == self.kept.get((task_id, name), found.get(name))
        one = found.get("one") or await self._step(under, "one", f"{self._chance.random()}")
        if "go" not in found:
            await self._park(under, NewWait(name="go", question=Question(text="Go on?")))
        elif "nap" not in found:
            await self._park(under, NewWait(name="nap", sleep_secs=NAP_SECS))
        elif "paid" not in found:
            await self._park(under, NewWait(name="paid", event=EventWait(name=task_id)))
        else:
            assert found["paid"] == found["go"]
            two = found.get("two") or await self._step(under, "two", f"{one} {found['go']}")
            done = lease_pb2.CompleteTaskRequest(**under)
            done.result.string_value = two
            await repeated(lambda: self._leases.CompleteTask(done, timeout=5))

    async def _step(self, under: dict[str, Any], name: str, value: str) -> str:
        request = step_pb2.RecordStepRequest(name=name, **under)
        request.result.string_value = value
        await repeated(lambda: self._steps.RecordStep(request, timeout=5))
        self.kept[under["task_id"], name] = value
        return value

    async def _park(self, under: dict[str, Any], wait: NewWait) -> None:
        request = park_pb2.ParkTaskRequest(waits=[wait], **under)
        await repeated(lambda: self._parks.ParkTask(request, timeout=5))

    async def count(self, is_over: asyncio.Event) -> None:
        """Count what is done until all is."""
        while not is_over.is_set() or self.done < len(self.submitted):
            await asyncio.sleep(0.1)
            request = task_pb2.ListTasksRequest(state="done", page_size=1_000)
            answer = await repeated(lambda request=request: self._tasks.ListTasks(request, timeout=5))
            self.done = len(answer.tasks)

    async def found(self, task_id: str) -> tuple[task_pb2.Task, list[str]]:
        """A task, and the names of its steps."""
        task = await repeated(lambda: self._tasks.GetTask(task_pb2.GetTaskRequest(task_id=task_id), timeout=5))
        steps = await repeated(lambda: self._steps.ListSteps(step_pb2.ListStepsRequest(task_id=task_id), timeout=5))
        return task, [step.name for step in steps.steps]


async def test_kills_lose_no_step_no_answer_no_event_and_no_wait(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    options = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200))
    async with yard_in(tmp_path, settings=SETTINGS) as yard, grpc.aio.insecure_channel(yard.grpc, options) as channel:
        programs, is_over = Programs(channel, chance), asyncio.Event()
        parts = [programs.submit, programs.work, programs.answer, programs.count]
        running = [asyncio.create_task(part(is_over)) for part in parts]
        await killed(yard, chance)
        is_over.set()
        await asyncio.gather(*running)
        assert len(programs.submitted) > 20
        for task_id in programs.submitted:
            task, steps = await programs.found(task_id)
            assert steps == ["one", "go", "nap", "paid", "two"]
            one, go = programs.kept[task_id, "one"], programs.kept[task_id, "go"]
            assert (task.state, task.result.string_value) == (task_pb2.Task.State.done, f"{one} {go}")
        await yard.check_store()
