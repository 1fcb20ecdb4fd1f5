"""Hosts put artifacts under leases, submitters those of tasks that are held: new ones, and others of a name again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from taskyard_server.core.history import Artifact
from taskyard_server.core.runs.artifacts import Right

if TYPE_CHECKING:
    from .agent_commands import AgentCommands
    from .host_commands import HostCommands
    from .simulator import Simulation


class ArtifactCommands:
    """What tasks get in one life of a history. With each restart the core is told how much there is, as by a store."""

    def __init__(self, simulation: Simulation, agents: AgentCommands, hosts: HostCommands) -> None:
        self._sim = simulation
        self._core, self._model, self._chances = simulation.core, simulation.model, simulation.chances
        self._agents, self._hosts = agents, hosts

    def put(self) -> None:
        now, dice = self._sim.now, self._chances.artifact_dice
        name, size = dice.choice("abc"), dice.choice([0, 1, 10, 30])
        host_id: str | None = None
        held = [job.id for job in self._model.world.tasks.values() if job.held]
        if dice.random() < 0.3:
            task_id, token = dice.choice(held) if held and dice.random() < 0.8 else self._agents.some_task_id(), 0
        else:
            host_id, task_id, token = self._hosts.some_lease()
        put = (host_id, task_id, token, name, size)
        self._sim.both("put", put, lambda: self._to_core(now, *put), lambda _: self._model.put(now, *put))

    def _to_core(self, now: float, host_id: str | None, task_id: str, token: int, name: str, size: int) -> int | None:
        artifact = Artifact(name, "text/plain", size, b"", 1, now, 1, "place")
        replaced = self._core.artifacts.put(now, Right(task_id, host_id, token), artifact)
        return None if replaced is None else replaced.size

    def restarted(self) -> None:
        """Tell a new core how much its tasks have."""
        tasks = self._model.world.tasks.values()
        self._core.artifacts.used = sum(sum(job.artifacts.values()) for job in tasks)
