"""Hosts say chunks under leases: the next ones, ones that came before, and ones that leave a gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from taskyard_server.core.runs.outputs import TaskOutput

from .model_output import Said

if TYPE_CHECKING:
    from .host_commands import HostCommands, Lease
    from .simulator import Simulation


class OutputCommands:
    """What tasks say in one life of a history. With each restart the core is given what was kept, as from a store."""

    def __init__(self, simulation: Simulation, hosts: HostCommands) -> None:
        self._sim = simulation
        self._core, self._model, self._chances = simulation.core, simulation.model, simulation.chances
        self._hosts = hosts

    def say(self) -> None:
        now, lease, dice = self._sim.now, self._hosts.some_lease(), self._chances.output_dice
        job = self._model.world.tasks.get(lease.task)
        before = 0 if job is None else job.said.under.get(lease.token, 0)
        number = max(1, before + dice.choice([1, 1, 1, 1, 0, -1, 2]))
        sizes = tuple(dice.choice([1, 10, 60]) for _ in range(dice.choice([1, 1, 2, 5])))
        said = (now, lease, number, sizes)
        self._sim.both("say", (*lease, number, sizes), lambda: self._to_core(*said), lambda _: self._to_model(*said))

    def _to_core(self, now: float, lease: Lease, number: int, sizes: tuple[int, ...]) -> tuple[object, ...]:
        taken = self._core.outputs.append(now, *lease, number, sizes)
        output = taken.output
        return taken.first, taken.begin, taken.repeated, taken.cut, output.first, output.dropped, output.next

    def _to_model(self, now: float, lease: Lease, number: int, sizes: tuple[int, ...]) -> tuple[object, ...]:
        taken = self._model.say(now, *lease, number, sizes)
        said = self._model.world.tasks[lease.task].said
        return *taken, said.parts[0][0], sum(said.sizes) - said.kept, len(said.sizes) + 1

    def restarted(self) -> None:
        """Give a new core what the tasks have said that it has."""
        for task in self._core.tasks_after(0):
            self._core.outputs.adopt(task, _kept(self._model.world.tasks[task.id].said))
        self._core.outputs.recount()
        self._model.world.said = sum(job.said.kept for job in self._model.world.tasks.values())


def _kept(said: Said) -> TaskOutput:
    (token, taken) = next(iter(said.under.items()), (0, 0))
    segments = [(first, sum(said.sizes[: first - 1])) for first, _ in said.parts]
    return TaskOutput(len(said.sizes) + 1, sum(said.sizes), token, taken, segments)
