"""Hosts park tasks, people answer their questions: in some histories, with dice of their own.

In these histories runs record steps, too. The model is the store from which the core has them, as in `step_commands`.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from taskyard_server.core.history import Wait
from taskyard_server.core.task import Task

from .host_commands import HostCommands, Lease
from .model_records import ENDED, Asked, Job

if TYPE_CHECKING:
    from .agent_commands import AgentCommands
    from .simulator import Simulation
    from .step_commands import StepCommands

EVENT_NAMES: Final = ["paid", "shipped", "gone"]
KINDS: Final = ["answer", "answer", "answer", "ends", "ends", "time"]


def parks_tasks(seed: int) -> bool:
    """In every ninth history tasks are parked; in a few of these, tasks come after others, too."""
    return seed % 18 in (13, 15) or seed % 72 in (6, 60)


def sends_events(seed: int) -> bool:
    """In a quarter of these they wait for events, too."""
    return seed % 36 == 13


class ParkCommands:
    """What the tasks of one life of a history wait for."""

    def __init__(
        self, simulation: Simulation, agents: AgentCommands, hosts: HostCommands, recording: StepCommands
    ) -> None:
        self._sim = simulation
        self._core, self._model = simulation.core, simulation.model
        self._agents, self._hosts, self._recording = agents, hosts, recording
        self._dice = Random(f"parks of {simulation.seed} from {simulation.steps}")
        self._tokens = Random(f"tokens of parks of {simulation.seed} from {simulation.steps}")
        self._parked: list[tuple[Lease, tuple[Asked, ...], bool]] = []

    def wants(self) -> bool:
        """True if something about parked tasks is done now."""
        return parks_tasks(self._sim.seed) and self._dice.random() < 0.2

    def act(self) -> None:
        chance, any_held = self._dice.random(), bool(self._model.world.flying())
        if chance < (0.5 if any_held else 0.05):
            self._park()
        elif chance < 0.55 and self._parked:
            self.report(*self._dice.choice(self._parked[-4:]))
        elif chance < 0.9:
            self._answer()
        else:
            self._recording.record()

    def _park(self) -> None:
        lease, dice = self._some_lease(), self._dice
        possible = [*KINDS, *["event"] * 8] if sends_events(self._sim.seed) else KINDS
        kinds = [dice.choice(possible) for _ in range(dice.choice([1, 1, 2, 3]))]
        asked = [self._wait(lease.task, kind) for kind in kinds]
        job = self._model.world.tasks.get(lease.task)
        if job is not None:
            # What is asked again may have another time, another default, and name other tasks.
            asked += [self._wait(lease.task, wait.kind, wait.name) for wait in job.waits if dice.random() < 0.6]
        waits = {wait.key: wait for wait in asked}
        self.report(lease, tuple(waits.values()), dice.random() < 0.7)

    def _some_lease(self) -> Lease:
        """Mostly one that is held, often of a task that was parked before, or of a target."""
        flying, dice = self._model.world.flying(), self._dice
        some = [job for job in flying if job.waits or job.met or job.target]
        if not flying or dice.random() < 0.15:
            return self._hosts.some_lease()
        job = dice.choice(some if some and dice.random() < 0.6 else flying)
        return Lease(job.host or "", job.id, job.token)

    def _wait(self, task_id: str, kind: str, name: str | None = None) -> Asked:
        dice, now = self._dice, self._sim.now
        # Few names, so that some are asked for again; and enough for the ends of others, which then have come.
        name = dice.choice("abcdefgh" if kind != "ends" else "abcdefghijklmnop") if name is None else name
        until = now + dice.choice([-0.5, 0.25, 1.0, 4.0, 20.0]) * (1 + dice.random())
        if kind == "time":
            return Asked(kind, name, until)
        if kind == "event":
            return Asked(kind, name, dice.choice([None, None, until]), (dice.choice(EVENT_NAMES),))
        if kind == "ends":
            return Asked(kind, name, dice.choice([None, None, until]), self._some_tasks(task_id))
        default = dice.choice([None, b"no"])
        return Asked(kind, name, dice.choice([None, None, until]), (), dice.choice([None, b"which?"]), default)

    def _some_tasks(self, task_id: str) -> tuple[str, ...]:
        """Mostly of the same agent, some of which have ended."""
        tasks, dice = self._model.world.tasks, self._dice
        own = tasks[task_id].wish.agent if task_id in tasks else None
        known = [job.id for job in tasks.values() if job.wish.agent == own or job.wish.parent == task_id]
        if dice.random() < 0.98:
            # It may not wait for itself.
            known = [each for each in known if each != task_id]
        live = [each for each in known if tasks[each].state not in ENDED]
        strangers = [job.id for job in tasks.values() if job.wish.agent != own]
        some = [dice.choice(live if live and dice.random() < 0.7 else known or ["tsk_nope"])]
        some += dice.sample(live, min(len(live), dice.choice([0, 0, 1, 2])))
        # These may be resumed, and then have not ended.
        failed = [each for each in known if tasks[each].state == "failed"]
        some += dice.sample(failed, min(len(failed), dice.choice([0, 1, 2])))
        if dice.random() < 0.1:
            some.append(dice.choice([*strangers[-3:], "tsk_nope"]))
        return tuple(some)

    def report(self, lease: Lease, waits: tuple[Asked, ...], keeps: bool) -> None:
        now, given = self._sim.now, self._sim.given
        job = self._model.world.tasks.get(lease.task)
        before = None if job is None else (job.state, job.token)
        asked_again = set() if job is None else {wait.key for wait in job.waits} & {wait.key for wait in waits}
        core_waits = tuple([Wait(*wait) for wait in waits])
        tokens = self._tokens.choice([None, None, 10, 60, 200])
        answer = self._sim.both(
            "park",
            (*lease, waits, tokens, keeps),
            lambda: self._core.reports.park(now, *lease, core_waits, tokens, keeps_target=keeps),
            lambda _: self._model.park(now, *lease, waits, tokens, keeps),
        )
        if answer is None or job is None:
            return
        if before is not None and before[0] in ("assigned", "running"):
            self._parked.append((lease, waits, keeps))
            given["park", f"is {job.state}"] += 1
            given["park", "asks again"] += bool(asked_again)
            given["park", "releases a target"] += job.target is not None and not keeps
        else:
            given["park", "repeated"] += 1

    def _answer(self) -> None:
        """Mostly an open question, or one that was answered, of a task that is parked or not."""
        dice, now, task_id, name = self._dice, self._sim.now, self._agents.some_task_id(), dice_name(self._dice)
        asked = [job for job in self._model.world.tasks.values() if any(wait.kind == "answer" for wait in job.waits)]
        if asked and dice.random() < 0.85:
            job = dice.choice(asked)
            task_id = job.id
            if dice.random() < 0.9:
                name = dice.choice([wait.name for wait in job.waits if wait.kind == "answer"])
            self._sim.given["answer", f"of one that is {job.state}"] += 1
        size, by = dice.choice([None, 0, 1, 1, 1, 700_000]), dice.choice([None, "bob"])
        self._sim.both(
            "answer",
            (task_id, name, size, by),
            lambda: self._to_core(now, task_id, name, size, by),
            lambda _: self._to_model(now, task_id, name, size, by),
        )

    def _to_core(self, now: float, task_id: str, name: str, size: int | None, by: str | None) -> Task:
        task = self._core.get(task_id)
        self._core.parks.answer(now, task, name, None if size is None else bytes(size), by)
        return task

    def _to_model(self, now: float, task_id: str, name: str, size: int | None, by: str | None) -> Job:
        return self._model.answer(now, task_id, name, None if size is None else bytes(size), by)


def dice_name(dice: Random) -> str:
    return dice.choice("abcdefgh")
