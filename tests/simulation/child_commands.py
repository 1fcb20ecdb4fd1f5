"""Hosts submit children of their tasks by name, give them artifacts, and ask for them: in some histories.

They have dice of their own, and what children are for, too: their parents wait for their ends, fail, and are resumed.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

from taskyard_server.core.history import Artifact
from taskyard_server.core.runs.artifacts import Right
from taskyard_server.core.task import Task

from .host_commands import HostCommands, Lease
from .model_records import ENDED, Asked, Job, Wish
from .plain_values import to_submission

if TYPE_CHECKING:
    from .agent_commands import AgentCommands
    from .park_commands import ParkCommands
    from .simulator import Simulation, Told

NAMES: Final = "abcdef"
"""Few, so that most are used again."""


def names_children(seed: int) -> bool:
    """In every ninth history tasks have children by name, and in one of those of the gate."""
    return seed % 9 == 8 or seed % 72 == 4


class ChildCommands:
    """The children by name of one life of a history."""

    def __init__(self, simulation: Simulation, agents: AgentCommands, hosts: HostCommands, parks: ParkCommands) -> None:
        self._sim = simulation
        self._core, self._model, self._chances = simulation.core, simulation.model, simulation.chances
        self._agents, self._hosts, self._parks = agents, hosts, parks
        self._dice = Random(f"children of {simulation.seed} from {simulation.steps}")

    def wants(self) -> bool:
        """True if something about children is done now."""
        share = 0.25 if self._model.world.flying() else 0.05
        return names_children(self._sim.seed) and self._dice.random() < share

    def act(self) -> None:
        chance, flying = self._dice.random(), self._model.world.flying()
        parents, children = [job for job in flying if job.children], [job for job in flying if job.wish.child_name]
        failed = [job for job in self._model.world.tasks.values() if job.children and job.state == "failed"]
        if chance < 0.1 and children:
            self._report("complete", self._dice.choice(children), b"made", None, None)
        elif chance < 0.2 and failed:
            self._sim.given["child", "its parent is resumed"] += 1
            self._agents.resume_one(self._dice.choice(failed).id)
        elif chance < 0.3:
            self._fetch(self._some_lease(parents))
        elif chance < 0.4:
            self._put(self._some_lease(parents))
        elif chance < 0.5 and parents:
            self._park_on_ends(self._dice.choice(parents))
        elif chance < 0.6 and parents:
            self._report("fail", self._dice.choice(parents), "broken", self._dice.random() < 0.2, *[None] * 4)
        else:
            self._submit(self._some_lease(parents))

    def _some_lease(self, parents: list[Job]) -> Lease:
        """Mostly one that is held, often by a task that has children."""
        flying, dice = self._model.world.flying(), self._dice
        if not flying or dice.random() < 0.15:
            return self._hosts.some_lease()
        return _lease_of(dice.choice(parents if parents and dice.random() < 0.6 else flying))

    def _some_child(self, lease: Lease, share: float) -> tuple[Lease, str]:
        """One of this lease, but in this share one that is held, if there is any."""
        world, dice = self._model.world, self._dice
        flying = [(job, world.tasks[each]) for job in world.flying() for each in job.children if each in world.tasks]
        held = [(_lease_of(job), child.wish.child_name or "") for job, child in flying if child.held]
        return dice.choice(held) if held and dice.random() < share else (lease, self._some_name(lease.task))

    def _some_name(self, task_id: str) -> str:
        """Often one that the task has used."""
        tasks, dice = self._model.world.tasks, self._dice
        its = tasks[task_id].children if task_id in tasks else ()
        used = [name for each in its if each in tasks and (name := tasks[each].wish.child_name)]
        return dice.choice(used) if used and dice.random() < 0.5 else dice.choice(NAMES)

    def _submit(self, lease: Lease) -> None:
        lease, name = self._some_child(lease, 0.3)
        now, sim, wish, world = self._sim.now, self._sim, self._wish(lease), self._model.world
        parent = world.tasks.get(lease.task)
        held = [job.id for job in world.tasks.values() if job.held]
        forgotten = parent is not None and any(each not in world.tasks for each in parent.children)

        def model(told: Told) -> object:
            made = told.refusal or (told.answer[0] if not told.answer[1] else None)
            return self._model.submit_child(now, *lease, name, wish, self._agents.named(made))

        answer = sim.both(
            "submit child",
            (*lease, name, wish),
            lambda: self._core.children.submit(now, *lease, to_submission(replace(wish, child_name=name)), {}),
            model,
        )
        if answer is not None:
            child, is_repeated = answer
            sim.given["child", "let go by a repeat"] += child.id in held and not child.is_held
            sim.given["child", f"known and {child.state}" if is_repeated else "new"] += 1
            sim.given["child", "new after one was forgotten"] += forgotten and not is_repeated
            sim.given["child", "asked for by a later run"] += is_repeated and child.created_at < parent.claimed_at

    def _wish(self, lease: Lease) -> Wish:
        """Mostly one that can be a child; some come after others, or are handed the result of their parent."""
        dice, parent = self._dice, self._model.world.tasks.get(lease.task)
        wish = self._chances.wish(self._sim.now, self._chances.agent() if parent is None else parent.wish.agent)
        if dice.random() < 0.97:
            wish = replace(wish, key=None, parent=None)
        if dice.random() < 0.97:
            wish = replace(wish, agent=dice.choice(["", wish.agent]))
        else:
            wish = replace(wish, agent=self._chances.agent())
        if dice.random() < 0.2:
            wish = replace(wish, hold=True)
        wish = replace(wish, params=dice.choice([None, b"one", b"two"]), input=dice.choice([None, None, b"three"]))
        wish = replace(wish, on_parent_end=dice.choice([None, None, "cancel", "keep", "keep"]))
        if parent is None or dice.random() < 0.7:
            return replace(wish, unique="sync") if dice.random() < 0.02 else wish
        known = [parent.id, parent.id, *parent.children[-3:], self._agents.some_task_id()]
        some = tuple(dice.choices(known, k=dice.choice([1, 1, 2])))
        policy = dice.choice([None, "ended", "ended"])
        inputs = tuple(each for each in some if dice.random() < 0.7)
        return replace(wish, after=some, inputs=inputs, after_policy=policy)

    def _put(self, lease: Lease) -> None:
        """Put an artifact of a child, mostly of one that is held."""
        now, (lease, name) = self._sim.now, self._some_child(lease, 0.7)
        artifact = Artifact("a", "text/plain", self._dice.choice([0, 1, 10]), b"", 0, now, 1, "place")
        host_id, task_id, token = lease
        self._sim.both(
            "put of a child",
            (*lease, name, artifact.size),
            lambda: self._core.artifacts.put(now, Right(task_id, host_id, token, child=name), artifact) is None,
            lambda _: self._model.put(now, *lease, "a", artifact.size, name) is None,
        )

    def _fetch(self, lease: Lease) -> None:
        now, name = self._sim.now, self._some_name(lease.task)
        self._sim.both(
            "fetch child",
            (*lease, name),
            lambda: self._found(now, lease, name),
            lambda _: self._model.fetch_child(now, *lease, name),
        )

    def _found(self, now: float, lease: Lease, name: str) -> Task | None:
        return self._core.children.find(now, *lease, name).task

    def _park_on_ends(self, parent: Job) -> None:
        """Let a task wait for the end of some of its children."""
        tasks, dice = self._model.world.tasks, self._dice
        live = [each for each in parent.children if each in tasks and tasks[each].state not in ENDED]
        some = tuple(dice.sample(live or [*parent.children], 1 if dice.random() < 0.6 or len(live) < 2 else 2))
        until = dice.choice([None, self._sim.now + 4 * dice.random()])
        self._sim.given["child", "its parent waits for it"] += bool(live)
        self._parks.report(_lease_of(parent), (Asked("ends", dice.choice(NAMES), until, some),), True)

    def _report(self, name: str, job: Job, *args: Any) -> None:
        now, lease = self._sim.now, _lease_of(job)
        core, model = getattr(self._core.reports, name), getattr(self._model, name)
        self._sim.both(name, (*lease, *args), lambda: core(now, *lease, *args), lambda _: model(now, *lease, *args))


def _lease_of(job: Job) -> Lease:
    return Lease(job.host or "", job.id, job.token)
