"""The simulation finds what it is for, of why a task waits: reasons are told wrong one by one, and each is caught."""

from __future__ import annotations

import pytest

from taskyard_server.core.figures import explain
from taskyard_server.core.liveness import Liveness

from .breach_histories import Histories
from .simulator import Mismatch, Simulation
from .test_mutations import Edit, mutate

# They rewrite the core.
pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

STEPS = 600
SEEDS = (1, 2, 3, 5, 6, 10, 12, 15, 20)
"""Of these, multiples of 5 have keys, and of 6 predecessors."""
HISTORIES = Histories(Simulation, SEEDS, STEPS)

MUTATIONS: dict[str, list[Edit]] = {
    "a hold is no reason": [(explain, "_of_itself", "if history.held:", "if False:")],
    "a time is no reason": [(explain, "_of_itself", "if history.not_before is not None", "if False")],
    "a time is one also when it is over": [
        (explain, "_of_itself", "(history.not_before > now or not (history.held or awaited))", "True"),
    ],
    "what it comes after is no reason": [(explain, "_of_itself", "if awaited:", "if False:")],
    "a pause is no reason": [(explain, "_of_itself", "if task.state is PAUSED:", "if False:")],
    "a drain is no reason": [(explain, "_of_itself", "if scheduler.dispatcher.is_stopped:", "if False:")],
    "what runs in a target is not in the way": [
        (explain, "_in_the_way", "if target.running is not None and", "if False and"),
    ],
    "what may still run in a target is not in the way": [
        (explain, "_in_the_way", "for lease in target.stopping:", "for lease in ():"),
    ],
    "what is older in a target is not in the way": [(explain, "_in_the_way", "oldest.seq < task.seq", "False")],
    "an agent over its limit goes on": [
        (explain, "_of_limits", "agent.inflight >= limits.max_per_agent_inflight", "False"),
    ],
    "a full namespace goes on": [(explain, "_of_limits", "life.counts.inflight >= limits.max_inflight", "False")],
    "a full namespace is one task early": [
        (
            explain,
            "_of_limits",
            "life.counts.inflight >= limits.max_inflight",
            "life.counts.inflight + 1 >= limits.max_inflight",
        ),
    ],
    "a key without a place goes on": [(explain, "_of_keys", "key.inflight >= key.max_inflight", "False")],
    "a key without a token goes on": [(explain, "_of_keys", "if due and rate", "if False and rate")],
    "hosts that drain have room": [(explain, "_has_room", "host.draining or ", "")],
    "hosts that rest have room": [(explain, "_has_room", "or rests ", "")],
    "silent streams have room": [
        (explain, "_has_room", "or scheduler.life.liveness.is_silent(now, offer)", ""),
    ],
    "hosts that wait quietly are none": [
        (Liveness, "is_live", "any(not offer.streamed for offer in host.offers)", "False"),
    ],
    "a task without a host waits for nothing": [
        (explain, "_lacks", "elif able:", "elif True:\n        return\n    elif able:")
    ],
}


@pytest.mark.parametrize("breach", MUTATIONS)
def test_what_is_told_wrong_is_caught(monkeypatch, breach):
    for edit in MUTATIONS[breach]:
        mutate(monkeypatch, *edit)
    with pytest.raises(Mismatch):
        HISTORIES.play(breach)


def test_the_same_histories_pass_with_nothing_told_wrong():
    assert HISTORIES.play() == len(SEEDS) * STEPS
