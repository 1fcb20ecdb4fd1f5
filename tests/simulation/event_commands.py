"""Somebody sends events to names that parked tasks wait for: in some of the histories in which tasks are parked."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from taskyard_server.core.names import Names
from taskyard_server.core.runs.events import NewEvent

from .park_commands import EVENT_NAMES, sends_events

if TYPE_CHECKING:
    from .model_records import Job
    from .simulator import Simulation

LIVES: Final = [0.0, 0.0, 0.0, 0.25, 0.5, 2.0, 30.0]


class EventCommands:
    """What is sent in one life of a history."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self._core, self._model = simulation.core, simulation.model
        self._dice = Random(f"events of {simulation.seed} from {simulation.steps}")

    def wants(self) -> bool:
        """True if an event is sent now."""
        return sends_events(self._sim.seed) and self._dice.random() < 0.08

    def send(self) -> None:
        dice, now = self._dice, self._sim.now
        # Few ids, so that some are sent again; some to a name that most wait for.
        waited_for = [name for job in self._model.world.tasks.values() for name in _awaited(job)]
        name = dice.choice(waited_for if waited_for and dice.random() < 0.6 else EVENT_NAMES)
        event_id, payload = dice.choice("1234567"), bytes(dice.choice([0, 1, 2, 60_000]))
        life, by = dice.choice(LIVES), dice.choice([None, "bob"])
        agents = dice.choice([None, None, frozenset(dice.choices([f"agent-{number}" for number in range(8)], k=3))])
        given = (name, event_id, payload, life, by, agents)
        allowed = None if agents is None else Names(agents)
        answer = self._sim.both(
            "send event",
            (name, event_id, len(payload), life, agents),
            lambda: self._core.parks.events.send(now, NewEvent(name, event_id, payload, life, by, allowed)),
            lambda _: self._model.world.parks.events.send(now, *given),
        )
        if answer is not None:
            event, is_repeated = answer
            self._sim.given["event", "repeated" if is_repeated else "for some" if event.waited else "for nobody"] += 1


def _awaited(job: Job) -> list[str]:
    return [name for wait in job.waits if wait.kind == "event" for name in wait.about]
