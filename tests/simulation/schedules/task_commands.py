"""What agents and hosts do to the tasks of a history of schedules; the model only follows what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from taskyard_server.core.errors import Refusal
from taskyard_server.core.leases import Lease
from taskyard_server.core.task import Submission, Task

from .event_tape import ENDED

HOST = "host"


class TaskCommands:
    """The part of the simulation that speaks to the core about tasks. `_both` and the rest are the simulation's."""

    def _to_tasks(self, name: str, args: tuple[Any, ...], core: Callable[[], Any]) -> None:
        """What is refused here the model need not know."""

        def unless_refused() -> None:
            try:
                core()
            except Refusal as refusal:
                self.given[f"{name} of a task: {refusal.code}"] += 1

        self._both(name, args, unless_refused, lambda: self.model.tasks_changed(self.now))

    def _submit(self) -> None:
        agent, many = self.chances.agent(), self.chances.one_of([1, 1, 4])
        asked = Submission(agent, "other", deadline=self.now + self.chances.secs(20))
        for _ in range(many):
            self._to_tasks("submit", (agent,), lambda: self.core.submit(self.now, asked))

    def _claim(self) -> None:
        count = self.chances.one_of([1, 2, 10])
        self._to_tasks("claim", (count,), lambda: self._leases.extend(self.core.claim(self.now, HOST, count)))

    def _lease(self) -> Lease | None:
        self._leases = [lease for lease in self._leases if lease.task.lease is lease]
        return self.chances.one_of(self._leases) if self._leases else None

    def _complete(self) -> None:
        if (lease := self._lease()) is not None:
            task_id, token = lease.task.id, lease.token
            self._to_tasks(
                "complete", (task_id,), lambda: self.core.reports.complete(self.now, HOST, task_id, token, None)
            )

    def _fail(self) -> None:
        if (lease := self._lease()) is not None:
            task_id, token = lease.task.id, lease.token
            self._to_tasks("fail", (task_id,), lambda: self.core.reports.fail(self.now, HOST, task_id, token, "broke"))

    def _cancel(self) -> None:
        self._to_one("cancel", lambda task: task.state not in ENDED, lambda its: self.core.cancel(self.now, its))

    def _pause_task(self) -> None:
        self._to_one("pause task", lambda task: task.lease is not None, lambda its: self.core.pause(self.now, its))

    def _resume_task(self) -> None:
        """A failed one, too: its trigger has ended and stays so."""
        stopped = ("paused", "failed")
        self._to_one("resume task", lambda task: task.state in stopped, lambda its: self.core.resume(self.now, its))

    def _resolve_task(self) -> None:
        stopped = ("paused", "failed")
        self._to_one(
            "resolve task", lambda task: task.state in stopped, lambda its: self.core.resolve(self.now, its, None)
        )

    def _to_one(self, name: str, which: Callable[[Task], bool], core: Callable[[str], Any]) -> None:
        tasks = [task.id for task in self.core.tasks_after(0) if which(task)]
        if tasks:
            task_id = self.chances.one_of(tasks)
            self._to_tasks(name, (task_id,), lambda: core(task_id))
