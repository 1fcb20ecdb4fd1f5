"""What agents ask for in a history: submissions, cancels, and look-ups, of what is there, was there, or never was."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from taskyard_server.core.errors import QueueFull, Refusal
from taskyard_server.core.task import Existing, Task

from .agreement import within_limits_for_one_more
from .indexes import bounded
from .model_records import STOPPED, Wish
from .plain_values import to_submission

if TYPE_CHECKING:
    from .simulator import Simulation, Told

NOBODY: Final = ("tsk_nope", "tsk_00000000000000000000000000000000")


class AgentCommands:
    """The agents of one life. `some_task_id` is for all who speak of tasks."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self._core, self._model, self._chances = simulation.core, simulation.model, simulation.chances
        self._batch_ids: deque[str] = deque(["bat_nope"], maxlen=12)
        self._task_ids: deque[str] = deque(NOBODY, maxlen=120)
        self._places: deque[tuple[int, int]] = deque([(0, 0)], maxlen=40)
        self.let_claim: Callable[[int], None]
        """Lets some host claim so many tasks."""

    def submit(self) -> None:
        self.submit_one(self._chances.wish(self._sim.now))

    def submit_one(self, wish: Wish) -> None:
        now, world = self._sim.now, self._model.world
        known = set(world.tasks)
        before = [(task.state, task.agent.id) for task in self._core.tasks_after(0)]
        kinds, new_agent = list(self._core._life.ready._buckets), wish.agent not in world.agents
        task = self._sim.both(
            "submit",
            (wish,),
            lambda: self._core.submit(now, to_submission(wish)),
            lambda told: self._model.submit(now, wish, self.named(told.refusal or told.answer)),
        )
        if isinstance(task, Existing):
            self._sim.given["submit", "existing"] += 1
        elif task is not None and task.id in known:
            self._sim.given["submit", "repeat"] += 1
        elif task is not None and task.id not in world.tasks:
            self._sim.given["submit", "repeat of a task of the past"] += 1
        elif task is not None:
            if wish.on_conflict != "replaceQueued":
                within_limits_for_one_more(self._core.limits, before, wish.agent)
            if task.state == "cancelled":
                self._sim.given["submit", "after a failed one"] += 1
            elif task.state == "pending" and wish.after:
                self._sim.given["submit", "after others"] += 1
            bounded(self._core, task, kinds, new_agent=new_agent)
            self._places.append((task.seq, world.tasks[task.id].order))

    def submit_batch(self) -> None:
        now = self._sim.now
        wishes = self._chances.wishes(now)

        def model(told: Told) -> Any:
            batch = told.answer.batch.id if told.answer else "none"
            ids = [self.named(outcome) for outcome in told.answer.outcomes] if told.answer else ["none"] * len(wishes)
            return self._model.submit_batch(now, wishes, ids, batch)

        submission = self._sim.both(
            "submit batch",
            tuple(wishes),
            lambda: self._core.submit_batch(now, [*map(to_submission, wishes)]),
            model,
        )
        if submission is not None:
            self._batch_ids.append(submission.batch.id)
            for outcome in submission.outcomes:
                self._sim.given["task of a batch", outcome.code if isinstance(outcome, Refusal) else "ok"] += 1

    def flood(self) -> None:
        """Many tasks of one kind; some are handed out, most are cancelled, and a few more come: all in one step."""
        chances = self._chances
        wishes = chances.flood(self._sim.now)
        for wish in wishes:
            self.submit_one(wish)
        latest = list(self._task_ids)[-len(wishes) :]
        self.let_claim(chances.below(20))
        for task_id in chances.some_of(latest, max(0, len(latest) - chances.one_of([2, 15, 25, 40]))):
            self.cancel_one(task_id)
        for wish in wishes[:3]:
            self.submit_one(replace(wish, agent=f"late {wish.agent}"))

    def named(self, outcome: Any) -> str:
        """The id that the core gave to a task that it accepted or kept as rejected."""
        task = outcome.task if isinstance(outcome, QueueFull) else outcome
        if not isinstance(task, Task):
            return "none"
        self._task_ids.append(task.id)
        self._chances.could_be_parent(task.id)
        return task.id

    def cancel(self) -> None:
        self.cancel_one(self.some_task_id())

    def cancel_one(self, task_id: str) -> None:
        now, tasks = self._sim.now, self._model.world.tasks
        before = tasks[task_id].state if task_id in tasks else "unknown"
        self._sim.given["cancel of", before] += 1
        if self._chances.extra():
            self._cancel_with_children(task_id)
            return
        reason = self._chances.reason()
        self._sim.both(
            "cancel",
            (task_id, reason),
            lambda: self._core.cancel(now, task_id, reason),
            lambda _: self._model.cancel(now, task_id, reason),
        )

    def _cancel_with_children(self, task_id: str) -> None:
        now, reason = self._sim.now, self._chances.reason()
        done = self._sim.both(
            "cancel with children",
            (task_id, reason),
            lambda: self._core.cancel_with_children(now, task_id, reason=reason),
            lambda _: self._model.cancel_with_children(now, task_id, reason),
        )
        if done is not None and done[1]:
            self._sim.given["cancel with children", "of some"] += 1

    def pause(self) -> None:
        self._go("pause", self.some_task_id(), self._chances.reason())

    def resume(self) -> None:
        """Mostly of one that can be; sometimes with a target, which may be another's."""
        stopped = [job for job in self._model.world.tasks.values() if job.held or job.state in STOPPED]
        likely = stopped and self._chances.under(0.7)
        job = self._chances.one_of(stopped) if likely else None
        target = self._chances.one_of([None, None, job.target if job else None, "target-0"])
        limit = self._chances.one_of([20, 150, 10**6]) if self._chances.under(0.2) else None
        self._go("resume", job.id if job else self.some_task_id(), target, limit)

    def resume_one(self, task_id: str) -> None:
        """Resume this one, with a higher limit of tokens."""
        self._go("resume", task_id, None, 10**6)

    def resolve(self) -> None:
        self._go("resolve", self.some_task_id(), self._chances.one_of([None, b"resolved"]), self._chances.reason())

    def _go(self, name: str, task_id: str, *args: Any) -> None:
        now, tasks = self._sim.now, self._model.world.tasks
        before = tasks[task_id].state if task_id in tasks else "unknown"
        core, model = getattr(self._core, name), getattr(self._model, name)
        done = self._sim.both(
            name, (task_id, *args), lambda: core(now, task_id, *args), lambda _: model(now, task_id, *args)
        )
        if done is not None:
            self._sim.given[f"{name} of", before] += 1

    def get(self) -> None:
        task_id = self.some_task_id()
        self._sim.both("get", (task_id,), lambda: self._core.get(task_id), lambda _: self._model.get(task_id))

    def list(self) -> None:
        seq, order = self._chances.one_of(self._places)
        self._sim.both(
            "list",
            (seq,),
            lambda: [*self._core.tasks_after(seq)],
            lambda _: [job for job in self._model.world.tasks.values() if job.order > order],
        )

    def batch(self) -> None:
        batch_id = self._chances.one_of(self._batch_ids)
        self._sim.both(
            "batch",
            (batch_id,),
            lambda: [*self._core.batch(batch_id).tasks.values()],
            lambda _: self._model.batch(batch_id),
        )

    def cancel_batch(self) -> None:
        now, batch_id, reason = self._sim.now, self._chances.one_of(self._batch_ids), self._chances.reason()
        self._sim.both(
            "cancel batch",
            (batch_id, reason),
            lambda: self._core.cancel_batch(now, batch_id, reason),
            lambda _: self._model.cancel_batch(now, batch_id, reason),
        )

    def some_task_id(self) -> str:
        """Mostly of a task that is known, of any state as often as of any other; else one from the past, or none."""
        tasks = self._model.world.tasks
        if self._chances.under(0.15) or not tasks:
            return self._chances.one_of(self._task_ids)
        states = list(dict.fromkeys(job.state for job in tasks.values()))
        state = self._chances.one_of(states)
        return self._chances.one_of([job.id for job in tasks.values() if job.state == state])
