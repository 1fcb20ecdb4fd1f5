"""Who moves tasks about: an operator who cancels, pauses, resumes and resolves, and a planner with schedules."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any, Final
from uuid import uuid4

from google.protobuf.message import Message

from taskyard.v1 import schedule_pb2 as plans
from taskyard.v1 import task_pb2 as pb
from taskyard.v1.target_pb2 import ListTargetsRequest, Target

from .doors import Answer, Doors, message
from .history import Firing, Json, Move, Outcome, Recorder, ScheduleMade, TriggerReading
from .made_up import AGENT_OF_SCHEDULES

AGAIN_SECS: Final = 0.2


class Operator:
    """Lets no task wait for ever: releases what is held, resumes what is paused, and unblocks targets in every way.

    Until `calm` it also cancels and pauses tasks at random. `at_work` is held for each round: who takes it sees no move
    that is half done.
    """

    def __init__(
        self, doors: Doors, recorder: Recorder, choose: Callable[[], str | None], chance: random.Random
    ) -> None:
        self.calm = False
        self.at_work = asyncio.Lock()
        self._doors = doors
        self._recorder = recorder
        self._choose = choose
        self._chance = chance

    async def run(self) -> None:
        """Operate until cancelled."""
        while True:
            await asyncio.sleep(self._chance.uniform(0.1, 0.5))
            async with self.at_work:
                await self._go_round()

    async def _go_round(self) -> None:
        if not self.calm and (task_id := self._choose()) is not None:
            await self._move(self._chance.choice(("cancel", "pause")), task_id)
        for task in await self._listed("pending"):
            if task.get("hold"):
                await self._move("unhold", task["taskId"])
        for task in await self._listed("paused"):
            await self._move("resume", task["taskId"])
        request = ListTargetsRequest(status=Target.Status.blocked)
        answer = await self._doors.call(self._doors.targets.ListTargets, request)
        for target in answer.body.get("targets", ()):
            await self._move(self._chance.choice(("resume", "resolve", "cancel")), target["taskId"])

    async def _listed(self, state: str) -> list[dict[str, Json]]:
        answer = await self._doors.call(self._doors.tasks.ListTasks, pb.ListTasksRequest(state=state))
        return list(answer.body.get("tasks", ()))

    async def _move(self, kind: str, task_id: str) -> None:
        """Move a task, once: what is unknown may or may not be done, and the next look at the tasks tells."""
        begun, tasks = time.monotonic(), self._doors.tasks
        value: Json = None
        method: Any
        request: Message
        match kind:
            case "cancel":
                method, request = tasks.CancelTask, pb.CancelTaskRequest(task_id=task_id)
            case "pause":
                method, request = tasks.PauseTask, pb.PauseTaskRequest(task_id=task_id)
            case "resolve":
                value = {"by": "hand", "of": task_id}
                method = tasks.ResolveTask
                request = message({"taskId": task_id, "result": value}, pb.ResolveTaskRequest)
            case _:
                method, request = tasks.ResumeTask, pb.ResumeTaskRequest(task_id=task_id)
        answer = await self._doors.call(method, request)
        self._recorder.add(
            Move,
            begun,
            outcome=answer.outcome,
            kind=kind,
            task_id=task_id,
            state=answer.body.get("status"),
            value=value,
            code=answer.code,
        )


class Planner:
    """Makes schedules that fire every second, triggers them by calls, too, and looks at their triggers.

    Triggers are looked at often enough that each is seen before it is no longer kept.
    """

    def __init__(self, doors: Doors, recorder: Recorder, chance: random.Random) -> None:
        self.stopping = asyncio.Event()
        self._doors = doors
        self._recorder = recorder
        self._chance = chance
        self._seen: dict[str, dict[str, Json]] = {}
        self._schedules: list[str] = []

    async def make(self, every_secs: float) -> None:
        """Make a schedule, and try until it is acknowledged."""
        schedule_id = f"every-{every_secs:g}s-{uuid4().hex[:6]}"
        body = {
            "scheduleId": schedule_id,
            "interval": f"{every_secs:g}s",
            "overlap": "allow",
            "catchUp": "all",
            "task": {"agentId": AGENT_OF_SCHEDULES, "action": "tick", "params": {"secs": 0.05}},
        }
        answer = await self._sure(self._doors.schedules.CreateSchedule, message(body, plans.CreateScheduleRequest))
        made = answer.body["schedule"]
        self._schedules.append(schedule_id)
        now = time.monotonic()
        self._recorder.add(
            ScheduleMade,
            now,
            schedule_id=schedule_id,
            agent=AGENT_OF_SCHEDULES,
            every_secs=every_secs,
            created_at=made["createdAt"],
        )

    async def run(self) -> None:
        """Look at the triggers and make some, until told to stop; then pause the schedules."""
        while not self.stopping.is_set():
            await asyncio.sleep(0.5)
            await self.look()
            if self._chance.random() < 0.3:
                await self._fire(self._chance.choice(self._schedules), f"by-call-{uuid4().hex}")
        for schedule_id in self._schedules:
            await self._sure(self._doors.schedules.PauseSchedule, plans.PauseScheduleRequest(schedule_id=schedule_id))

    async def look(self, *, until_told: bool = False) -> list[dict[str, Json]]:
        """Note what is new of the triggers; those that the server keeps, as far as it answers, or `until_told`."""
        token, triggers = "", []
        while True:
            request, begun = plans.ListTriggersRequest(page_token=token or None), time.monotonic()
            answer = await self._doors.call(self._doors.schedules.ListTriggers, request)
            if until_told and answer.outcome is Outcome.UNKNOWN:
                await asyncio.sleep(AGAIN_SECS)
                continue
            for trigger in answer.body.get("triggers", ()):
                triggers.append(trigger)
                if self._seen.get(trigger["triggerId"]) != trigger:
                    self._seen[trigger["triggerId"]] = trigger
                    self._recorder.add(TriggerReading, begun, trigger=trigger)
            token = answer.body.get("nextPageToken", "")
            if not token:
                return triggers

    async def _fire(self, schedule_id: str, key: str) -> None:
        """Trigger a schedule, and repeat it until it is acknowledged."""
        request = plans.TriggerScheduleRequest(schedule_id=schedule_id, idempotency_key=key)
        while True:
            begun = time.monotonic()
            answer = await self._doors.call(self._doors.schedules.TriggerSchedule, request)
            trigger_id = answer.body.get("trigger", {}).get("triggerId")
            told: Any = {"schedule_id": schedule_id, "key": key, "trigger_id": trigger_id}
            self._recorder.add(Firing, begun, outcome=answer.outcome, **told)
            if answer.outcome is not Outcome.UNKNOWN:
                return
            await asyncio.sleep(AGAIN_SECS)

    async def _sure(self, method: Any, request: Message) -> Answer:
        """Repeat a call that may be repeated until it is answered."""
        answer = await self._doors.call(method, request)
        while answer.outcome is Outcome.UNKNOWN:
            await asyncio.sleep(AGAIN_SECS)
            answer = await self._doors.call(method, request)
        assert answer.outcome is Outcome.ACKNOWLEDGED, f"{request}: {answer.code}"
        return answer
