"""Many tasks wait for the ends of the same few, which end and are resumed: in some of the histories with parked tasks.

They wait for events, too, and some end with those that they wait for. All this has dice of its own.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from .host_commands import HostCommands, Lease
from .model_records import ENDED, FLYING, Asked, Job, Wish
from .park_commands import EVENT_NAMES

if TYPE_CHECKING:
    from .agent_commands import AgentCommands
    from .event_commands import EventCommands
    from .park_commands import ParkCommands
    from .simulator import Simulation


def waits_in_crowds(seed: int) -> bool:
    """In a quarter of the histories in which tasks are parked, and in none in which they wait for events."""
    return seed % 36 == 33


class CrowdCommands:
    """What many tasks of one life of a history wait for together."""

    def __init__(
        self,
        simulation: Simulation,
        agents: AgentCommands,
        hosts: HostCommands,
        parks: ParkCommands,
        sending: EventCommands,
    ) -> None:
        self._sim = simulation
        self._core, self._model = simulation.core, simulation.model
        self._agents, self._hosts, self._parks, self._sending = agents, hosts, parks, sending
        self._dice = Random(f"crowds of {simulation.seed} from {simulation.steps}")

    def wants(self) -> bool:
        """True if something about a crowd is done now."""
        return waits_in_crowds(self._sim.seed) and self._dice.random() < 0.4

    def act(self) -> None:
        tasks, chance = self._model.world.tasks, self._dice.random()
        awaited = self._awaited()
        live, failed = ([each for each in awaited if (each.state == "failed") is stopped] for stopped in (False, True))
        live = [each for each in live if each.state not in ENDED]
        if chance < 0.1:
            self._hosts.claim_up_to(5)
        elif chance < 0.2 and live:
            flying = [job for job in live if job.state in FLYING]
            self._end(self._dice.choice(flying or live))
        elif chance < 0.35 and failed:
            self._sim.given["crowd", "what it waits for is resumed"] += 1
            self._agents.resume_one(self._dice.choice(failed).id)
        elif chance < 0.4 and live:
            parent = self._dice.choice(live)
            self._agents.submit_one(Wish(parent.wish.agent, "click", parent=parent.id, on_parent_end="cancel"))
        elif chance < 0.45:
            self._sending.send()
        elif flying := [job for job in tasks.values() if job.state in FLYING and job not in awaited]:
            self._park(self._dice.choice(flying), live)

    def _awaited(self) -> list[Job]:
        """The tasks whose ends are waited for, by parked tasks, and that are there."""
        tasks = self._model.world.tasks
        parked = [job for job in tasks.values() if job.state == "parked"]
        names = {each for job in parked for wait in job.waits if wait.kind == "ends" for each in wait.about}
        return [job for job in tasks.values() if job.id in names]

    def _end(self, job: Job) -> None:
        """Mostly by a failure, after which it may be resumed."""
        self._sim.given["crowd", "its end has come"] += 1
        if job.state in FLYING:
            now, args = self._sim.now, (job.host or "", job.id, job.token, "broken", False, None, None, None, None)
            core, model = self._core.reports.fail, self._model.fail
            self._sim.both("fail", args, lambda: core(now, *args), lambda _: model(now, *args))
        else:
            self._agents.cancel_one(job.id)

    def _park(self, job: Job, awaited: list[Job]) -> None:
        """Mostly for what others wait for already."""
        dice, agent = self._dice, job.wish.agent
        own = [each for each in self._model.world.tasks.values() if each.wish.agent == agent and each is not job]
        crowded = [each for each in awaited if each in own]
        some = crowded if crowded and dice.random() < 0.8 else [each for each in own if each.state not in ENDED]
        if not some:
            return
        about = tuple(each.id for each in dice.choices(some, k=dice.choice([1, 2, 2])))
        waits = [Asked("ends", f"{dice.random()}", dice.choice([None, None, self._sim.now + 4]), about)]
        if dice.random() < 0.4:
            waits.append(Asked("event", f"{dice.random()}", None, (dice.choice(EVENT_NAMES),)))
        self._parks.report(Lease(job.host or "", job.id, job.token), tuple(waits), dice.random() < 0.5)
