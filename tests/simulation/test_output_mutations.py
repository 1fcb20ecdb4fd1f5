"""Rules of output are broken one by one, as in `test_mutations`, and each breach is caught."""

from __future__ import annotations

import pytest

from taskyard_server.core.reports import Reports
from taskyard_server.core.runs.outputs import Outputs

from .breach_histories import Histories
from .simulator import Mismatch, Simulation
from .test_mutations import Edit, mutate

# They rewrite the core.
pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

STEPS = 600
SEEDS = range(2, 80, 9)
"""Only in these histories tasks say anything."""
HISTORIES = Histories(Simulation, SEEDS, STEPS)

MUTATIONS: dict[str, list[Edit]] = {
    "what is said again is taken again": [
        (Outputs, "append", "repeated = min(taken + 1 - number, len(sizes))", "repeated = 0"),
    ],
    "a later lease goes on with the numbers of the one before": [
        (Outputs, "append", " and output.token == token", ""),
    ],
    "a gap is taken": [(Outputs, "append", "if number > taken + 1:", "if False:")],
    "a chunk is no start": [(Outputs, "append", "self._reports.note_start(now, task)", "pass")],
    "a lease that has ended may say more": [
        (Reports, "leased", "return self._lease_of", "return self._life.task(task_id).lease or self._lease_of"),
    ],
    "numbers begin anew with each lease": [
        (Outputs, "append", "first, begin = output.next, output.said", "first, begin = taken + 1, output.said"),
    ],
    "nothing is ever dropped": [(Outputs, "_make_room", "output.said - segments[0][1] > limit", "False")],
    "a namespace has no bound": [
        (Outputs, "_make_room", "self.used > self.limits.max_namespace_output_bytes", "False"),
    ],
    "what is dropped counts as kept": [
        (Outputs, "append", "self.used += said - dropped", "self.used += said"),
    ],
    "all but the newest part is dropped": [(Outputs, "_make_room", "> limit and", "> 0 and")],
    "parts are of any size": [(Outputs, "_make_room", "begin - segments[-1][1] >= limit // SEGMENTS", "False")],
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
