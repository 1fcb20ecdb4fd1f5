"""Random histories of schedules: after every step the core agrees with the model, and the ledger finds no rule broken.

By default 12,000 steps in short histories, and many more in the other tiers. One history, of any length:

    SEED=7 STEPS=100000 pytest tests/simulation/schedules/test_schedule_simulation.py

`STEPS` alone sets the length of each of the default histories. A failure names the seed, the step and the last
commands.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.tiers import spread

from .schedule_world import Simulation

SEED = os.environ.get("SEED")
STEPS = int(os.environ.get("STEPS", "1000"))
CHUNKS = [[int(SEED)]] if SEED else [list(range(first, first + 12)) for first in range(0, 120, 12)]
SECONDS = 0 if SEED or "STEPS" in os.environ else 900
"""The time limit of a test; 0 is none."""

# What must be seen at least so often in the first of the default histories.
OFTEN = {
    **{f"{command}: ok": 15 for command in ("create", "update", "pause", "resume", "trigger", "reconfigure")},
    **{f"{command}: not_found": 3 for command in ("update", "pause", "resume", "delete", "trigger")},
    "create: already_exists": 15,
    "create: bad_request": 3,
    "create: queue_full": 15,
    "the wall clock was set back": 40,
    "a time that was leaped over is to come": 30,
    "an interval begins anew": 1,
    "advance: ok": 3000,
    **{f"trigger {kind}": 100 for kind in ("due", "claimed", "deferred", "failed", "skipped")},
    "trigger completed": 60,
    **{f"overlap {policy}": 20 for policy in ("skip", "wait", "allow", "replace")},
    **{f"missed while the scheduler was not running: {policy}": 20 for policy in ("last", "all", "none")},
    **{f"the schedule was paused: {policy}": 3 for policy in ("last", "all", "none")},
    "due with a known key": 2,
    "jitter": 20,
    "restart, tasks gone: ok": 5,
    "restart, tasks stay: ok": 8,
    "restart between submit and record": 1,
    "drain: ok": 3,
    "complete: ok": 40,
    "fail: ok": 10,
    "cancel: ok": 15,
}


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("seeds", spread(CHUNKS, gate=1), ids=lambda seeds: f"seeds {seeds[0]} to {seeds[-1]}")
def test_schedules_agree_with_the_model_after_every_step(seeds):
    given: Counter[str] = Counter()
    for seed in seeds:
        simulation = Simulation(seed)
        simulation.run(STEPS)
        given += simulation.counts()
    if SEED is None and seeds[0] == 0 and "STEPS" not in os.environ:
        rare = {each: given[each] for each, often in OFTEN.items() if given[each] < often}
        assert not rare, "the histories hardly show these"


def test_the_same_seed_makes_the_same_history():
    first, second = Simulation(3), Simulation(3)
    first.run(200)
    second.run(200)
    assert first.counts() == second.counts()
    assert first.now == second.now
