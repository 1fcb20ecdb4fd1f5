"""Random histories against the core: after every step it agrees with the model and with a recount of itself.

By default one short history, and chunks of eight in the other tiers. One history, of any length:

    SEED=7 STEPS=1000000 pytest tests/simulation/test_simulation.py

`STEPS` alone sets the length of each of the default histories. A failure names the seed, the step and the last
commands. With `SEED` all indexes are recounted after every step, so that a fault is seen at the step that made it.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.tiers import spread

from .simulator import Simulation

SEED = os.environ.get("SEED")
STEPS = int(os.environ.get("STEPS", "1500"))
CHUNK = 8
CHUNKS = [[1], *[list(range(first, first + CHUNK)) for first in (0, 8, 16, 56, 64, *range(72, 400, CHUNK))]]
SECONDS = 0 if SEED or "STEPS" in os.environ else 900
"""The time limit of a test; 0 is none."""

REPORTS = ("start", "progress", "complete", "fail", "release", "renew")

# Every command, with every way in which it may end, at least so often in the chunk of the gate. What that does not
# show, the mutations hold: repeats of what has left memory, targets beyond the bound.
OFTEN = {
    ("submit", "ok"): 500,
    ("submit", "queue_full"): 150,
    ("submit", "bad_request"): 40,
    ("submit", "unavailable"): 50,
    ("submit", "repeat"): 10,
    ("submit", "after others"): 3,
    ("submit", "already_exists"): 10,
    ("submit batch", "ok"): 150,
    ("submit batch", "bad_request"): 3,
    ("submit batch", "unavailable"): 10,
    ("task of a batch", "ok"): 200,
    ("task of a batch", "queue_full"): 200,
    ("task of a batch", "already_exists"): 5,
    ("claim", "handed out"): 100,
    ("claim", "repeated"): 3,
    ("claim", "ok"): 500,
    ("claim", "not_found"): 30,
    ("claim", "bad_request"): 30,
    ("start", "ok"): 100,
    ("start", "conflict"): 50,
    ("progress", "ok"): 40,
    ("complete", "ok"): 150,
    ("fail", "ok"): 30,
    ("release", "ok"): 30,
    ("renew", "ok"): 80,
    ("renew", "bad_request"): 5,
    **{(report, "lease_lost"): 10 for report in REPORTS},
    **{(report, "not_found"): 10 for report in REPORTS},
    ("cancel", "ok"): 80,
    ("cancel", "conflict"): 100,
    ("cancel", "not_found"): 30,
    ("cancel of", "running"): 5,
    **{("cancel of", state): 10 for state in ("queued", "assigned", "done", "failed", "cancelled")},
    ("cancel of", "rejected"): 10,
    ("cancel of", "paused"): 1,
    ("cancel batch", "ok"): 10,
    ("cancel with children", "of some"): 1,
    ("cancel with children", "conflict"): 1,
    ("error", "run timeout exceeded"): 1,
    ("stop", "timed_out"): 1,
    ("cancel batch", "not_found"): 15,
    ("batch", "ok"): 10,
    ("batch", "not_found"): 15,
    ("get", "ok"): 30,
    ("get", "not_found"): 2,
    ("list", "ok"): 30,
    ("register", "ok"): 100,
    ("heartbeat", "ok"): 80,
    ("heartbeat", "not_found"): 2,
    ("drain host", "ok"): 15,
    ("deregister", "ok"): 20,
    ("connect", "ok"): 200,
    ("connect", "kept a lease"): 80,
    ("connect", "adopted a lease"): 5,
    ("connect", "lost a lease"): 50,
    ("connect", "already_exists"): 10,
    ("connect", "bad_request"): 10,
    ("credit", "ok"): 300,
    ("return credit", "ok"): 30,
    ("beat", "ok"): 150,
    ("beat", "lost a lease"): 50,
    ("disconnect", "ok"): 60,
    ("offer", "ok"): 60,
    ("offer", "not_found"): 3,
    ("offer", "bad_request"): 5,
    ("withdraw", "ok"): 30,
    ("handed over", "a stream"): 250,
    ("handed over", "a claim"): 40,
    ("reconcile", "ok"): 30,
    ("stop", "cancelled"): 15,
    ("stop", "deadline_exceeded"): 15,
    ("stop", "lease_ended"): 80,
    ("stop", "shutdown"): 2,
    ("stop", "paused"): 5,
    ("pause", "ok"): 10,
    ("pause", "conflict"): 60,
    ("pause", "not_found"): 5,
    ("resume", "ok"): 60,
    ("resume", "conflict"): 30,
    ("resume", "not_found"): 20,
    ("resume", "unavailable"): 2,
    **{("resume of", state): often for state, often in (("pending", 1), ("paused", 3), ("failed", 40))},
    ("resolve", "ok"): 4,
    ("resolve", "conflict"): 30,
    ("stopped", "ok"): 80,
    ("stopped", "of one that may run"): 3,
    ("error", "token limit exceeded"): 3,
    ("reconfigure", "ok"): 50,
    ("weigh", "ok"): 10,
    ("advance", "ok"): 800,
    ("drain", "ok"): 5,
    ("shut down", "ok"): 20,
    ("error", "deadline exceeded"): 40,
    ("error", "deadline exceeded while queued"): 150,
    ("error", "lease expired"): 4,
    ("stop message", "lease expired"): 10,
    ("error", "missed heartbeats"): 3,
    ("stop message", "not started by its host"): 50,
    ("error", "scheduler shutdown"): 80,
    ("error", "Job was interrupted by user"): 10,
    ("error", "rejected: global queue full"): 200,
    ("error", "rejected: agent queue full"): 50,
    **{
        ("explained", kind): 20 for kind in ("no_credit", "no_host", "target", "not_due", "agent_limit", "max_inflight")
    },
    **{("explained", kind): 4 for kind in ("held", "draining", "paused", "no_action", "runnable", "after")},
    ("explained", "key_inflight"): 2,
    ("park", "is parked"): 25,
    ("park", "is queued"): 5,
    ("park", "repeated"): 10,
    ("park", "lease_lost"): 10,
    ("park", "not_found"): 10,
    ("answer", "ok"): 15,
    ("answer", "not_found"): 20,
    **{("answer", f"of one that is {state}"): often for state, often in (("parked", 10), ("queued", 2))},
    **{("explained", f"parked for {kind}"): 5 for kind in ("answer", "ends")},
    ("cancel of", "parked"): 3,
    **{("submit child", outcome): often for outcome, often in (("ok", 30), ("bad_request", 8), ("lease_lost", 3))},
    ("submit child", "not_found"): 10,
    ("fetch child", "ok"): 4,
    ("fetch child", "not_found"): 10,
    ("child", "new"): 20,
    **{("child", f"known and {state}"): 2 for state in ("pending", "queued", "failed")},
    ("child", "asked for by a later run"): 1,
    ("child", "its parent waits for it"): 5,
    ("child", "its parent is resumed"): 2,
    ("bound by", "maxInflight"): 30,
    ("bound by", "maxPerAgentInflight"): 20,
}


@pytest.mark.long
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize(
    "seeds", [[int(SEED)]] if SEED else spread(CHUNKS), ids=lambda seeds: f"seeds {seeds[0]} to {seeds[-1]}"
)
def test_the_core_agrees_with_the_model_and_with_itself_after_every_step(seeds):
    given: Counter[tuple[str, str]] = Counter()
    for seed in seeds:
        simulation = Simulation(seed, **({"recount_every": 1} if SEED else {}))
        simulation.run(STEPS)
        given += simulation.given
    if SEED is None and seeds == CHUNKS[1] and "STEPS" not in os.environ:
        rare = {each: given[each] for each, often in OFTEN.items() if given[each] < often}
        assert not rare, "the histories hardly show these"


def test_the_same_seed_makes_the_same_history():
    first, second = Simulation(3), Simulation(3)
    first.run(400)
    second.run(400)
    assert first.given == second.given
    assert first.now == second.now
    assert list(first.model.world.tasks) == list(second.model.world.tasks)
