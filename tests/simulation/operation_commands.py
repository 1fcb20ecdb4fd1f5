"""What is asked for many tasks at once in a history. Its dice are its own, so that no other history becomes another."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from taskyard_server.core.operations.operation import Operation, OperationKind, OperationRequest
from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.core.task import TaskState

from .indexes import same
from .model_operations import Figures, Wanted
from .park_commands import parks_tasks

if TYPE_CHECKING:
    from .simulator import Simulation

NAMES: Final = [f"operation-{number}" for number in range(12)]
KINDS: Final = ["cancel", "cancel", "pause", "resume", "resume", "resolve", "reprioritize", "reprioritize"]
STATES: Final = [None, None, ("queued",), ("queued", "pending"), ("running", "assigned"), ("paused", "failed")]


BEGUN: Final = 0.02
"""The share of steps that begin one where none is at work."""


class OperationCommands:
    """The operations of one history."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self._core, self._model = simulation.core, simulation.model
        self._dice = Random(f"operations of {simulation.seed} from {simulation.steps}")

    def wants(self) -> bool:
        """True if something about operations is done now."""
        return self._dice.random() < (0.3 if self._core.operations.live else BEGUN)

    def act(self) -> None:
        """Begin one, do a slice, or look at one."""
        chance = self._dice.random()
        if not self._core.operations.live or chance < 0.15:
            self._begin()
        elif chance < 0.85:
            self._step()
        else:
            self._look(cancels=chance > 0.95)

    def _begin(self) -> None:
        dice, now = self._dice, self._sim.now
        agents = [None, None, *sorted({job.wish.agent for job in self._model.world.tasks.values()})[:3]]
        limit = dice.choice([None, None, 20, 10**6])
        all_states = [*STATES, ("parked",), ("parked",)] if parks_tasks(self._sim.seed) else STATES
        name, kind, states = dice.choice(NAMES), dice.choice(KINDS), dice.choice(all_states)
        wanted = Wanted(name, kind, dice.choice(agents), states, limit, dice.choice([-6, 0, 0, 3]))
        wanted.reason = self._sim.chances.reason()
        task_filter = TaskFilter(
            agent_id=wanted.agent, states=None if states is None else frozenset(map(TaskState, states))
        )
        shown = b"\x0a" + bytes([len(wanted.agent)]) + wanted.agent.encode() if wanted.agent else b""
        if states is not None:
            text = ",".join(states).encode()
            shown += b"\x12" + bytes([len(text)]) + text
        request = OperationRequest(
            name, OperationKind(kind), task_filter, shown, wanted.token_limit, None, wanted.priority, wanted.reason
        )
        self._sim.both(
            "begin operation",
            (wanted,),
            lambda: figures(self._core.operations.begin(now, request)),
            lambda _: self._model.operations.begin(now, wanted),
        )

    def _step(self) -> None:
        now, core, model = self._sim.now, self._core.operations, self._model.operations
        same("operations can go on", core.is_ready, model.is_ready())
        self._sim.both("slice", (), lambda: core.step(now), lambda _: model.step(now))
        self._agree()

    def _look(self, cancels: bool) -> None:
        name, now = self._dice.choice(NAMES), self._sim.now
        core, model = self._core.operations, self._model.operations
        if cancels:
            self._sim.both(
                "cancel operation",
                (name,),
                lambda: figures(core.cancel(now, name, None)),
                lambda _: model.cancel(now, name),
            )
        else:
            self._sim.both(
                "get operation", (name,), lambda: figures(core.get(now, name, None)), lambda _: model.get(now, name)
            )

    def _agree(self) -> None:
        """Those at work are as far, in the same order of turns; and what came of them is counted."""
        its = [(each.request.operation_id, figures(each)) for each in self._core.operations._live]
        same("operations", its, [(each.wanted.name, each.figures) for each in self._model.operations.line])
        for each in self._model.operations.known.values():
            self._sim.given["operation", each.status] += 1


def figures(operation: Operation) -> Figures:
    """How far one is."""
    its = operation
    return its.status.value, its.matched, its.done, its.skipped, its.failed
