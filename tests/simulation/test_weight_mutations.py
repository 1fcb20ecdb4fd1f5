"""The simulation finds what it is for, of weights: rules are broken one by one, and each breach is caught."""

from __future__ import annotations

import pytest

from taskyard_server.core.queue.ready_queue import ReadyQueue
from taskyard_server.core.queue.weights import Weights
from tests.core.queue import test_ready_queue

from .breach_histories import Histories
from .simulator import Mismatch, Simulation
from .test_mutations import Edit, mutate

# They rewrite the core.
pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

STEPS = 600
SEEDS = range(0, 140, 7)
"""Only these histories have weights."""
HISTORIES = Histories(Simulation, SEEDS, STEPS)

MUTATIONS: dict[str, list[Edit]] = {
    "weights do not count": [
        (Weights, "rank", "// agent.weight", "// 1"),
    ],
    "weights do not lead where nothing is in flight": [
        (Weights, "serve", "PASS_UNIT // agent.weight", "0"),
    ],
    "an agent that had nothing to do takes what it missed": [
        (Weights, "serve", "if passed < self.front - PASS_UNIT:", "if False:"),
    ],
    "an agent catches up on nothing": [
        (Weights, "serve", "passed = self.front - PASS_UNIT", "passed = self.front"),
    ],
    "other weights leave agents where they stood": [
        (ReadyQueue, "set_weights", "if were_in_force or self.weights.in_force:", "if False:"),
    ],
    "passes do not begin equal when weights come into use": [
        (Weights, "replace", "agent.passed = 0", "pass"),
    ],
    "an agent that comes while there are weights weighs 1": [
        (ReadyQueue, "_agent", "agent.weight = self.weights.of(agent_id)", "pass"),
    ],
}

OF_LIMITS: dict[str, list[Edit]] = {
    "an agent at its limit holds up those who come after it": [
        (Weights, "rank", "agent.inflight < self.max_per_agent", "True"),
    ],
    "another limit of agents leaves weighted ones where they stood": [
        (ReadyQueue, "set_max_per_agent", "if self.weights.in_force:", "if False:"),
    ],
}


def by_brute_force() -> None:
    for seed in range(6):
        test_ready_queue.test_each_claim_equals_the_choice_of_brute_force("weights and limits that move", seed)


@pytest.mark.parametrize("breach", MUTATIONS)
def test_a_broken_rule_is_caught(monkeypatch, breach):
    for edit in MUTATIONS[breach]:
        mutate(monkeypatch, *edit)
    with pytest.raises(Mismatch):
        HISTORIES.play(breach)


@pytest.mark.parametrize("breach", OF_LIMITS)
def test_a_broken_rule_of_limits_is_caught_by_brute_force(monkeypatch, breach):
    """Few histories of the simulation have so many tasks of several agents in flight."""
    for edit in OF_LIMITS[breach]:
        mutate(monkeypatch, *edit)
    with pytest.raises(AssertionError, match="the last steps were"):
        by_brute_force()


def test_the_same_histories_pass_with_no_rule_broken(monkeypatch):
    for (owner, name), words in {edit[:2]: edit[2] for edits in MUTATIONS.values() for edit in edits}.items():
        mutate(monkeypatch, owner, name, words, words)
    assert HISTORIES.play() == len(SEEDS) * STEPS
