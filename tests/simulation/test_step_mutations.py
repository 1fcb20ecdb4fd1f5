"""Rules of steps are broken one by one, as in `test_mutations`, and each breach is caught."""

from __future__ import annotations

import pytest

from taskyard_server.core.history import History
from taskyard_server.core.reports import Reports
from taskyard_server.core.runs.steps import Steps

from .breach_histories import Histories
from .simulator import Mismatch, Simulation
from .test_mutations import Edit, mutate

# They rewrite the core.
pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

STEPS = 600
SEEDS = range(7, 80, 9)
"""Only in these histories runs record steps."""
HISTORIES = Histories(Simulation, SEEDS, STEPS)

MUTATIONS: dict[str, list[Edit]] = {
    "a lease that has ended may record more": [
        (Reports, "leased", "return self._lease_of", "return self._life.task(task_id).lease or self._lease_of"),
    ],
    "a step is no start": [(Reports, "note_left_behind", "self.note_start(now, task)", "pass")],
    "nobody is told": [(Reports, "note_left_behind", "self._life.record_left_behind(now, task)", "pass")],
    "a name is taken twice": [(Reports, "record_step", "if number is not None:", "if False:")],
    "a task has no bound": [(Steps, "record", "history.step_bytes + step.size >", "0 >")],
    "each run has the bound anew": [(Steps, "record", "history.step_bytes + step.size >", "step.size >")],
    "steps go when a task is resumed": [
        (History, "of_next_run", "run=self.run + 1", "run=self.run + 1, steps=0, step_bytes=0")
    ],
    "half of the steps will do": [(Steps, "record", "self._names.setdefault(task.seq, {})", "{}")],
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
