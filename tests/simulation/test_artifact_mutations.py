"""Rules of artifacts are broken one by one, as in `test_mutations`, and each breach is caught."""

from __future__ import annotations

import pytest

from taskyard_server.core.pending import Pending
from taskyard_server.core.reports import Reports
from taskyard_server.core.runs.artifacts import Artifacts

from .breach_histories import Histories
from .simulator import Mismatch, Simulation
from .test_mutations import Edit, mutate

# They rewrite the core.
pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

STEPS = 600
SEEDS = range(5, 80, 9)
"""Only in these histories tasks get artifacts."""
HISTORIES = Histories(Simulation, SEEDS, STEPS)

MUTATIONS: dict[str, list[Edit]] = {
    "a task that is not held gets one of its submitter": [(Artifacts, "task_of", "if not task.is_held:", "if False:")],
    "a lease that has ended may put more": [
        (Reports, "leased", "return self._lease_of", "return self._life.task(task_id).lease or self._lease_of"),
    ],
    "an artifact is no start": [(Reports, "note_left_behind", "self.note_start(now, task)", "pass")],
    "nobody is told": [(Reports, "note_left_behind", "self._life.record_left_behind(now, task)", "pass")],
    "the one before stays": [(Artifacts, "put", "if each is not replaced", "")],
    "all others go": [(Artifacts, "put", "(*others, artifact)", "(artifact,)")],
    "the one before counts, too": [(Artifacts, "admit", "if each.name != name", "")],
    "a task has no bound": [(Artifacts, "admit", "size > limits.max_artifact_bytes", "size < 0")],
    "a namespace has no bound": [(Artifacts, "admit", "size > limits.max_namespace_artifact_bytes", "size < 0")],
    "what is replaced is counted on": [
        (Artifacts, "put", "artifact.size - come - (0 if replaced is None else replaced.size)", "artifact.size - come"),
    ],
    "what is forgotten is counted on": [
        (Artifacts, "forget", "self.used -= sum([each.size for each in task.history.artifacts])", "pass"),
    ],
    "artifacts go when a hold is released": [
        (Pending, "release_hold", "_replace(held=False)", "_replace(held=False, artifacts=())"),
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
