"""The simulation finds what it is for, of targets that may be blocked: rules are broken, and each breach is caught."""

from __future__ import annotations

import pytest

from taskyard_server.core.lifecycle import Lifecycle
from taskyard_server.core.targets import Targets

from .breach_histories import Histories
from .simulator import Mismatch, Simulation
from .test_mutations import Edit, mutate

# They rewrite the core.
pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

STEPS = 600
SEEDS = range(1, 61, 3)
"""Only in these histories few targets may be blocked."""
HISTORIES = Histories(Simulation, SEEDS, STEPS)

MUTATIONS: dict[str, list[Edit]] = {
    "what fails blocks whatever its policy": [
        (Lifecycle, "finish", " and blocks_when_failed(task, self.limits)", ""),
    ],
    "there may be any number of blocked targets": [
        (Targets, "has_room", "self.blocked < max_blocked or name in self._targets", "True"),
    ],
    "no task is added to a target once too many are blocked": [
        (Targets, "has_room", " or name in self._targets", ""),
    ],
    "a target that is free again counts as blocked": [
        (Targets, "unblock", "self.blocked -= 1", "pass"),
    ],
}


@pytest.mark.parametrize("breach", MUTATIONS)
def test_a_broken_rule_is_caught(monkeypatch, breach):
    for edit in MUTATIONS[breach]:
        mutate(monkeypatch, *edit)
    with pytest.raises(Mismatch):
        HISTORIES.play(breach)


def test_the_same_histories_pass_with_no_rule_broken(monkeypatch):
    for (owner, name), words in {edit[:2]: edit[2] for edits in MUTATIONS.values() for edit in edits}.items():
        mutate(monkeypatch, owner, name, words, words)
    assert HISTORIES.play() == len(SEEDS) * STEPS
