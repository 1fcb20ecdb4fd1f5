"""The simulation finds what it is for, of tasks that end with their parents: broken rules are caught one by one."""

from __future__ import annotations

import pytest

from taskyard_server.core.admission import Admission
from taskyard_server.core.agenda import Agenda
from taskyard_server.core.lifecycle import Lifecycle
from taskyard_server.core.restoring import Restoring
from taskyard_server.core.retention import Retention
from taskyard_server.core.runs.parent_ends import ParentEnds
from taskyard_server.core.scheduler import Scheduler

from .breach_histories import Histories
from .restarts import RestartingSimulation
from .simulator import Mismatch, Simulation
from .test_mutations import Edit, mutate

# They rewrite the core.
pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

STEPS = 700
SEEDS = [*range(3, 280, 9)]
HISTORIES = Histories(Simulation, SEEDS, STEPS)
WITH_RESTARTS = Histories(RestartingSimulation, SEEDS, STEPS)
"""Only in these histories tasks end with their parents."""

MUTATIONS: dict[str, list[Edit]] = {
    "a child is not cancelled": [
        (Lifecycle, "finish", "self.children.ends.ended(now, task)", "pass"),
    ],
    "a child is cancelled by the failure of its parent alone": [
        (Lifecycle, "finish", "if self.children.ends.bound:", "if self.children.ends.bound and state is FAILED:"),
    ],
    "a grandchild is not reached": [
        (
            Lifecycle,
            "finish",
            "if self.children.ends.bound:",
            "if self.children.ends.bound and not (error or '').startswith('parent'):",
        ),
    ],
    "a child is cancelled that was to be kept": [
        (ParentEnds, "bind", "is not CANCEL", "is None"),
    ],
    "a child that ended is cancelled": [
        (Lifecycle, "finish", "self.children.ends.unbind(task)", "pass"),
    ],
    "a child ends with any attempt of its parent": [
        (Lifecycle, "resume", "before = self", "self.children.ends.ended(now, task); before = self"),
    ],
    "a child is cancelled without a word of its parent": [
        (Lifecycle, "_end_orphan", "ended_text(parent_id)", "None"),
    ],
    "the host of a child is not told": [
        (Lifecycle, "_end_orphan", ", StopReason.CANCELLED", ", None"),
    ],
    "a child of a parent that has ended is accepted": [
        (Admission, "_admit_with_extras", "life.children.ends.check(submission.options, known)", "pass"),
    ],
    "a child that failed and is resumed ends with no parent": [
        (Lifecycle, "resume", "self.children.ends.bind_again(task)", "pass"),
    ],
    "a child that is resumed after the end is cancelled all the same": [
        (ParentEnds, "bind_again", "if parent is None or parent.state in TERMINAL:", "if False:"),
    ],
    "a parent is resumed before its children are cancelled": [
        (Scheduler, "resume", "self._life.children.ends.require_settled(task)", "pass"),
    ],
    "a parent is forgotten before its children are cancelled": [
        (Retention, "_is_needed", "task in ending", "False"),
    ],
    "a parent whose children have ended is kept for ever": [
        (ParentEnds, "unbind", "self.on_let_go(parent)", "pass"),
    ],
    "nobody is woken for children that are to be cancelled": [
        (Agenda, "next_due", "self._children.ends.next_due()", "None"),
    ],
}

RESTARTS: dict[str, list[Edit]] = {
    "a restart forgets what ends with its parent": [
        (Restoring, "live", "self._bound.append(task)", "pass"),
    ],
    "a restart forgets what was to end with its parent": [
        (Restoring, "_end_with_parents", "ends.ended(self._now, parent)", "pass"),
    ],
    "a restart ends what a parent that lives has submitted": [
        (Restoring, "_end_with_parents", "and parent.state in TERMINAL", ""),
    ],
}


@pytest.mark.parametrize("breach", MUTATIONS)
def test_a_broken_rule_is_caught(monkeypatch, breach):
    for edit in MUTATIONS[breach]:
        mutate(monkeypatch, *edit)
    with pytest.raises(Mismatch):
        HISTORIES.play(breach)


@pytest.mark.parametrize("breach", RESTARTS)
def test_what_a_restart_loses_is_missed(monkeypatch, breach):
    for edit in RESTARTS[breach]:
        mutate(monkeypatch, *edit)
    with pytest.raises(Mismatch):
        WITH_RESTARTS.play(breach)
