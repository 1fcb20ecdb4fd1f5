"""Random histories of schedules that are kept in a store: after each restart they go on as the model does."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from .kept_in_a_store import StoredSimulation

SEED = os.environ.get("SEED")
STEPS = int(os.environ.get("STEPS", "800"))
SEEDS = [int(SEED)] if SEED else list(range(100, 106))
SECONDS = 0 if SEED or "STEPS" in os.environ else 900
"""The time limit of a test; 0 is none."""


@pytest.mark.timeout(SECONDS)
def test_schedules_that_were_stored_agree_with_the_model_after_every_step():
    given: Counter[str] = Counter()
    for seed in SEEDS:
        simulation = StoredSimulation(seed)
        simulation.run(STEPS)
        given += simulation.counts()
    assert SEED or "STEPS" in os.environ or given["restart from a store: ok"] >= 10
