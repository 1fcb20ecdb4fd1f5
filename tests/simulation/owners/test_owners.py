"""Random histories of several owners of one store. `SEED=n` sees one again, `SEEDS=n` makes more of them."""

import os

import pytest

from .simulation import OwnersSimulation

SEED = os.environ.get("SEED")
SEEDS = range(int(os.environ.get("SEEDS", "4"))) if SEED is None else [int(SEED)]


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_is_told_turns_out_wrong(seed):
    OwnersSimulation(seed).run()
