"""Hosts record steps under leases: new ones, and ones whose names the task has already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from taskyard_server.core.history import Step
from taskyard_server.core.runs.steps import NewStep

if TYPE_CHECKING:
    from .host_commands import HostCommands
    from .simulator import Simulation


class StepCommands:
    """What the runs of tasks record in one life of a history. The model is the store from which the core has them."""

    def __init__(self, simulation: Simulation, hosts: HostCommands) -> None:
        self._sim = simulation
        self._core, self._model, self._chances = simulation.core, simulation.model, simulation.chances
        self._hosts = hosts

    def record(self) -> None:
        now, lease, dice = self._sim.now, self._hosts.some_lease(), self._chances.step_dice
        step = (*lease, dice.choice("abcdefgh"), dice.choice([0, 1, 200_000, 600_000]))
        self._sim.both("record", step, lambda: self._to_core(now, *step), lambda _: self._model.record(now, *step))

    def _to_core(self, now: float, host_id: str, task_id: str, token: int, name: str, size: int) -> tuple[int, bool]:
        steps, task, job = self._core.steps, self._core.find(task_id), self._model.world.tasks.get(task_id)
        if task is not None and job is not None and task.lease is not None and not steps.is_known(task):
            assert steps.adopt(task, [Step(*key.split(":"), None, None, 1, 1, None, 0.0) for key in job.steps])
        return self._core.reports.record_step(now, host_id, NewStep(task_id, token, name, bytes(size)))
