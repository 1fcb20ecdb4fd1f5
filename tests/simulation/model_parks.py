"""Parked tasks in the model, written from docs/rules.md (Parked tasks, Events): each question looks at all tasks."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from .model_events import Came
from .model_records import ENDED, Asked, Job, Refused
from .model_sent_events import MAX_EVENT_BYTES, Events

if TYPE_CHECKING:
    from .world import World

MAX_STEPS_BYTES = 1 << 20
"""Of the steps of one task (docs/rules.md, Steps)."""


class Parks:
    """How the tasks of a world come to wait for answers, ends of others and times, and go on."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.came: list[Came] = []
        self.events = Events(world)
        self.resumed: set[str] = set()
        self._ends: dict[str, int] = {}

    def repeated(self, host_id: str, task_id: str, token: int) -> Job | None:
        """The task if it was parked under this token, and was not handed out since."""
        job = self._world.tasks.get(task_id)
        if job is None or (job.last_host, job.token, job.parked_under) != (host_id, token, token):
            return None
        return job

    def check(self, job: Job, waits: Collection[Asked]) -> None:
        """The end of itself is not waited for, nor of a stranger that is no child; that of one not there is over.

        Events must have room among the steps.
        """
        for task_id in [each for wait in waits if wait.kind == "ends" for each in wait.about]:
            other = self._world.tasks.get(task_id)
            if other is job:
                raise Refused("bad_request", f"waits: task {task_id} would wait for its own end")
            if other is not None and other.wish.agent != job.wish.agent and other.wish.parent != job.id:
                raise Refused("not_found", f"waits: task {task_id} not found")
        events = sum(wait.kind == "event" for wait in waits)
        if events and sum(job.steps.values()) + events * MAX_EVENT_BYTES > MAX_STEPS_BYTES:
            raise Refused("too_large")

    def park(self, now: float, job: Job, waits: Collection[Asked], keeps: bool) -> None:
        """Let one that runs wait for any of these; what it waits for already stays as it was."""
        world, own = self._world, {wait.key: wait for wait in job.waits}
        job.waits = tuple(own.get(wait.key, wait) for wait in waits)
        if job.own_secs is None:
            job.left = (job.deadline or 0.0) - now
            job.deadline = None
        job.deliveries -= 1
        job.keeps, job.parked_at, job.parked_under = keeps, now, job.token
        world.enter(now, job, "parked")
        world.end_lease(now, job, None, None)
        met = [wait for wait in job.waits if wait.key in job.met]
        if met or self.events.has_for(job):
            job.waits = tuple(wait for wait in job.waits if wait not in met)
            self.wake(now, job)
        elif any(self._is_over(now, wait) for wait in job.waits):
            self.come_due(now, job)
        world.settle(now, job.target)

    def answer(self, now: float, job: Job, name: str, result: bytes | None, by: str | None) -> None:
        """One that is parked goes on; another is told when it asks again."""
        wait = next((wait for wait in job.waits if wait.key == f"answer:{name}"), None)
        if wait is None:
            if f"answer:{name}" in job.met:
                raise Refused("conflict", "question was answered")
            raise Refused("not_found", "question not found")
        if wait.until is not None and wait.until <= now:
            raise Refused("conflict", "the time of the question is over")
        if sum(job.steps.values()) + len(result or b"") > MAX_STEPS_BYTES:
            raise Refused("too_large")
        self._meet(now, job, wait, result, by)
        if job.state == "parked":
            self.wake(now, job)
        else:
            self._world.tell(now, "progressed", job, job.state)

    def due(self, job: Job) -> float | None:
        """When time lets a parked task go on, or fail."""
        if job.state != "parked":
            return None
        return min((wait.until for wait in job.waits if wait.until is not None), default=None)

    def come_due(self, now: float, job: Job) -> None:
        """Something that it waits for is over: a time, the time for an answer, or the tasks that it waits for."""
        met = job.met
        self._meet_ends(now, job)
        self._meet_events(now, job)
        over = [wait for wait in job.waits if wait.until is not None and wait.until <= now]
        unanswered = [wait for wait in over if wait.kind == "answer" and wait.default is None]
        if unanswered and job.met == met:
            error = f"nobody answered the question {unanswered[0].name} in time"
            self._world.end(now, job, "failed", error, code="question_expired")
            return
        for wait in [wait for wait in over if wait not in unanswered]:
            self._meet(now, job, wait, wait.default, None, is_expired=wait.kind != "time")
        self.wake(now, job)

    def ended(self, job: Job) -> None:
        """A task that lived has ended, after all others that have."""
        self._ends[job.id] = self._world.number()

    def may_go_on(self, job: Job) -> bool:
        """True if the ends of tasks, or an event, have come for one that is parked."""
        return job.state == "parked" and (self._has_ended(job) or self.events.has_for(job))

    def is_next(self, job: Job) -> bool:
        """True if it may be the next that goes on: ends come before events.

        Of several the one whose tasks had all ended first is next, and of those for which the same end came the oldest.
        Where one of these was resumed in between, its waiters may have had their turns before.
        """
        over = [each for each in self._world.tasks.values() if each.state == "parked" and self._has_ended(each)]
        sure = [each for each in over if not any(self.resumed & {*wait.about} for wait in each.waits)]
        if job in sure:
            return job is min(sure, key=self._turn)
        return job in over or not over

    def restarted(self) -> None:
        """All that has ended did so before."""
        self.resumed.clear()
        self._ends.clear()

    def _has_ended(self, job: Job) -> bool:
        return any(wait.kind == "ends" and not self.live(wait) for wait in job.waits)

    def _turn(self, job: Job) -> tuple[int, int]:
        over = [wait.about for wait in job.waits if wait.kind == "ends" and not self.live(wait)]
        return min(max((self._ends.get(each, 0) for each in about), default=0) for about in over), job.order

    def preferred_host(self, job: Job) -> str | None:
        """Where it was when it was parked, if that was its last lease."""
        return job.last_host if job.parked_under == job.token else None

    def live(self, wait: Asked) -> list[str]:
        """The tasks that have not ended, of those that are waited for."""
        tasks = self._world.tasks
        return [each for each in wait.about if each in tasks and tasks[each].state not in ENDED]

    def record(self, now: float, job: Job, key: str, came: Came, size: int) -> None:
        """It has one more step."""
        job.steps[key] = size
        self.came.append(came._replace(task=job.id, number=len(job.steps), at=now, run=job.run))

    def _is_over(self, now: float, wait: Asked) -> bool:
        if wait.kind == "ends" and not self.live(wait):
            return True
        return wait.until is not None and wait.until <= now

    def _meet(
        self, now: float, job: Job, wait: Asked, result: bytes | None, by: str | None, *, is_expired: bool = False
    ) -> None:
        """What came of a wait is a step, and it is waited for no more, nor ever again."""
        size = len(wait.name) + len(result or b"") + len(wait.question or b"")
        came = Came("", 0, wait.kind, wait.name, result, by, is_expired, wait.question, 0.0, 0)
        self.record(now, job, wait.key, came, size)
        job.waits = tuple(each for each in job.waits if each is not wait)
        job.met = (*job.met, wait.key)

    def _meet_ends(self, now: float, job: Job) -> None:
        """Tasks that have all ended are waited for no more."""
        for wait in [wait for wait in job.waits if wait.kind == "ends" and not self.live(wait)]:
            self._meet(now, job, wait, None, None)

    def _meet_events(self, now: float, job: Job) -> None:
        """For each wait the oldest event that it has not had."""
        for wait in [wait for wait in job.waits if wait.kind == "event"]:
            (name,) = wait.about
            event = self.events.next_for(job, name)
            if event is not None:
                self._meet(now, job, wait, event.payload, event.by)
                job.heard.pop(name, None)
                job.heard[name] = event.number

    def wake(self, now: float, job: Job) -> None:
        """To its old place, with all that came for it."""
        self._meet_ends(now, job)
        self._meet_events(now, job)
        self._world.enter(now, job, "queued")
        self._world.place(now, job)
