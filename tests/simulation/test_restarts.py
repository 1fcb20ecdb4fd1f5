"""Random histories with restarts: what a store kept goes on as the model does."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.tiers import spread

from .restarts import RestartingSimulation

SEED = os.environ.get("SEED")
STEPS = int(os.environ.get("STEPS", "1000"))
CHUNK = 8
CHUNKS = [[0], *[list(range(first, first + CHUNK)) for first in range(0, 160, CHUNK)]]
SECONDS = 0 if SEED or "STEPS" in os.environ else 900
"""The time limit of a test; 0 is none."""

OFTEN = {("restart", "nothing lost"): 30, ("restart", "steps lost"): 10}


@pytest.mark.long
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize(
    "seeds", [[int(SEED)]] if SEED else spread(CHUNKS, gate=1), ids=lambda seeds: f"seeds {seeds[0]} to {seeds[-1]}"
)
def test_after_a_restart_the_core_agrees_with_the_model_as_before(seeds):
    given: Counter[tuple[str, str]] = Counter()
    for seed in seeds:
        simulation = RestartingSimulation(seed, **({"recount_every": 1} if SEED else {}))
        simulation.run(STEPS)
        given += simulation.given
    if SEED is None and seeds == CHUNKS[1] and "STEPS" not in os.environ:
        rare = {each: given[each] for each, often in OFTEN.items() if given[each] < often}
        assert not rare, "the histories hardly show these"
