"""Random histories against the core: after every step it agrees with the model and with a recount of itself.

By default 100,000 steps in many short histories. One history, of any length:

    SEED=7 STEPS=1000000 pytest tests/simulation/test_simulation.py

`STEPS` alone sets the length of each of the default histories. A failure names the seed, the step and the last
commands. With `SEED` all indexes are recounted after every step, so that a fault is seen at the step that made it.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from .simulator import Simulation

SEED = os.environ.get("SEED")
STEPS = int(os.environ.get("STEPS", "2500"))
CHUNKS = [[int(SEED)]] if SEED else [list(range(first, first + 8)) for first in range(0, 40, 8)]
SECONDS = 0 if SEED or "STEPS" in os.environ else 120
"""The time limit of a test; 0 is none."""

REPORTS = ("start", "progress", "complete", "fail", "release", "renew")

# Every command, with every way in which it may end, at least so often in one chunk of the default run.
OFTEN = {
    ("submit", "ok"): 1000,
    ("submit", "queue_full"): 500,
    ("submit", "bad_request"): 50,
    ("submit", "unavailable"): 50,
    ("submit", "repeat"): 20,
    ("submit", "already_exists"): 10,
    ("submit batch", "ok"): 300,
    ("submit batch", "bad_request"): 5,
    ("submit batch", "unavailable"): 10,
    ("task of a batch", "ok"): 300,
    ("task of a batch", "queue_full"): 300,
    ("task of a batch", "already_exists"): 5,
    ("claim", "handed out"): 500,
    ("claim", "ok"): 1000,
    ("claim", "not_found"): 50,
    ("claim", "bad_request"): 50,
    ("start", "ok"): 150,
    ("start", "conflict"): 50,
    ("progress", "ok"): 50,
    ("complete", "ok"): 200,
    ("fail", "ok"): 50,
    ("release", "ok"): 50,
    ("renew", "ok"): 100,
    ("renew", "bad_request"): 5,
    **{(report, "lease_lost"): 20 for report in REPORTS},
    **{(report, "not_found"): 20 for report in REPORTS},
    ("cancel", "ok"): 100,
    ("cancel", "conflict"): 100,
    ("cancel", "not_found"): 30,
    **{("cancel of", state): 10 for state in ("queued", "assigned", "running", "done", "failed", "cancelled")},
    ("cancel of", "rejected"): 10,
    ("cancel of", "paused"): 1,
    ("cancel batch", "ok"): 20,
    ("cancel batch", "not_found"): 20,
    ("batch", "ok"): 20,
    ("batch", "not_found"): 20,
    ("get", "ok"): 50,
    ("get", "not_found"): 5,
    ("list", "ok"): 50,
    ("register", "ok"): 100,
    ("heartbeat", "ok"): 100,
    ("heartbeat", "not_found"): 5,
    ("drain host", "ok"): 20,
    ("deregister", "ok"): 20,
    ("deregister", "not_found"): 2,
    ("reconfigure", "ok"): 100,
    ("advance", "ok"): 1000,
    ("drain", "ok"): 5,
    ("shut down", "ok"): 10,
    ("ended", "deadline exceeded"): 50,
    ("ended", "deadline exceeded while queued"): 100,
    ("ended", "lease expired"): 20,
    ("ended", "scheduler shutdown"): 20,
    ("ended", "Job was interrupted by user"): 5,
    ("ended", "rejected: global queue full"): 100,
    ("ended", "rejected: agent queue full"): 100,
    ("bound by", "maxInflight"): 50,
    ("bound by", "maxPerAgentInflight"): 50,
}


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("seeds", CHUNKS, ids=lambda seeds: f"seeds {seeds[0]} to {seeds[-1]}")
def test_the_core_agrees_with_the_model_and_with_itself_after_every_step(seeds):
    given: Counter[tuple[str, str]] = Counter()
    for seed in seeds:
        simulation = Simulation(seed, **({"recount_every": 1} if SEED else {}))
        simulation.run(STEPS)
        given += simulation.given
    if SEED is None and "STEPS" not in os.environ:
        rare = {each: given[each] for each, often in OFTEN.items() if given[each] < often}
        assert not rare, "the histories hardly show these"


def test_the_same_seed_makes_the_same_history():
    first, second = Simulation(3), Simulation(3)
    first.run(1000)
    second.run(1000)
    assert first.given == second.given
    assert first.now == second.now
    assert list(first.model.tasks) == list(second.model.tasks)
