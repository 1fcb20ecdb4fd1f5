"""Random histories of several owners of one store. `SEED=n` sees one again, `SEEDS=n` makes more of them."""

import asyncio
import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.tiers import spread

from .clients import Planner
from .network import NoAnswer
from .simulation import Failure, OwnersSimulation

SEED = os.environ.get("SEED")
SEEDS = int(os.environ.get("SEEDS", "200"))
PART = 10
"""So many histories are one test, so that several processes share them."""
FIRSTS = [int(SEED)] if SEED else list(range(0, SEEDS, PART))


KINDS = ("stands still", "is killed", "weather", "stops", "drains", "store's clock")


@pytest.mark.parametrize("first", spread(FIRSTS, gate=1))
def test_nothing_that_is_told_turns_out_wrong(first):
    happened: Counter[str] = Counter()
    for seed in [first] if SEED else range(first, min(first + PART, SEEDS)):
        simulation = OwnersSimulation(seed)
        simulation.run()
        happened += simulation.happened
        assert SEED or simulation.witness.told > 100
    # The histories show what they are for: they are not all of one kind.
    assert SEED or first or not [kind for kind in KINDS if happened[kind] < 3]


def story(seed: int) -> str:
    """All that happens in a history, as another process sees it."""
    simulation = OwnersSimulation(seed)
    simulation.run()
    return f"{simulation.witness.told} {simulation.happened} {list(simulation.story)}"


def test_a_seed_makes_the_same_history_in_every_process():
    code = f"from tests.simulation.owners.test_owners import story; print(story({SEED or 148}))"
    stories = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(stories) == 1


def test_a_schedule_is_deleted_once_no_call_can_make_it_anew(monkeypatch):
    """The answer of the first call is lost, and the planner is to delete the schedule before it calls again."""
    simulation = OwnersSimulation(0)
    time, clients = simulation.time, simulation.network.clients
    planner = Planner(simulation, "yard-0", "plan")
    done: list[str] = []

    async def call(method, request):
        del request
        done.append(method)
        if done == ["CreateSchedule"]:
            await asyncio.sleep(6.0)
            raise NoAnswer

    monkeypatch.setattr(planner, "call", call)
    making = clients.create_task(planner.make("3s"))
    time.run_for(1.0)
    time.run(clients, planner.delete(), 20.0)
    assert making.done()
    assert done == ["CreateSchedule", "CreateSchedule", "DeleteSchedule"]
    time.close()


def test_a_schedule_that_stays_is_told_of(monkeypatch):
    async def delete(self):
        del self

    monkeypatch.setattr(Planner, "delete", delete)
    simulations = map(OwnersSimulation, range(PART))
    with pytest.raises(Failure, match="the schedule plan is still there"):
        any(simulation.run() for simulation in simulations)
