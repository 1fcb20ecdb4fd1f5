"""The simulation finds what it is for, of predecessors and unique keys: broken rules are caught one by one."""

from __future__ import annotations

import pytest

from taskyard_server.core import unique_keys
from taskyard_server.core.admission import Admission
from taskyard_server.core.lifecycle import Lifecycle
from taskyard_server.core.pending import Pending
from taskyard_server.core.predecessors import Predecessors
from taskyard_server.core.restoring import Restoring
from taskyard_server.core.retention import Retention
from taskyard_server.core.unique_keys import UniqueKeys
from taskyard_server.store import rows

from .breach_histories import Histories
from .restarts import RestartingSimulation
from .simulator import Mismatch, Simulation
from .test_mutations import Edit, mutate

# They rewrite the core.
pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

STEPS = 700
SEEDS = [888, 246, *range(0, 180, 6)]
HISTORIES = Histories(Simulation, SEEDS, STEPS)
WITH_RESTARTS = Histories(RestartingSimulation, SEEDS, STEPS)
"""Only these histories have predecessors and unique keys."""

MUTATIONS: dict[str, list[Edit]] = {
    "a task waits for the first alone of those that it comes after": [
        (Predecessors, "_verdict", "for each in self._waiting[task]:", "for each in self._waiting[task][:1]:"),
    ],
    "a failed predecessor lets its followers go": [
        (Predecessors, "_judge", "return Verdict.FAILED", "return Verdict.CLEAR"),
    ],
    "a failure that blocks its target cancels its followers": [
        (Predecessors, "_judge", "self._targets.blocks(task)", "False"),
    ],
    "the policy ended is that of success": [
        (Predecessors, "_judge", "if is_ended_enough", "if False"),
    ],
    "followers of a task that ends are not looked at": [
        (Predecessors, "changed", "self._changed[task] = None", "pass"),
    ],
    "a task that may go is let go in spite of its hold": [
        (Pending, "judged", "if not task.history.held", "if True"),
    ],
    "a release does not wait for what a task comes after": [
        (Pending, "release_hold", "self._life.predecessors.holds_back(task) or ", ""),
    ],
    "the time of a task does not wait for what it comes after": [
        (Pending, "add", " and (following is None or following.verdict is Verdict.CLEAR)", ""),
        (Pending, "come_due", "not self._life.predecessors.holds_back(task)", "True"),
    ],
    "a task after what has failed already waits": [
        (Pending, "end_failed", "if following.failed is not None", "if False"),
    ],
    "an input is let go once its task is queued": [
        (Predecessors, "leave", "inputs = self.inputs.get(task, ())", "inputs = self.inputs.pop(task, ()) and ()"),
    ],
    "an input is let go at a failure of its task": [
        (Lifecycle, "finish", "if state is not FAILED and options", "if options"),
    ],
    "an input is kept for ever": [
        (Lifecycle, "finish", "self.predecessors.let_inputs_go(task)", "pass"),
    ],
    "the inputs of a failed task are kept for ever": [
        (Retention, "_evict", "life.predecessors.let_inputs_go(task)", "pass"),
    ],
    "a task that others wait for is forgotten": [
        (Retention, "_is_needed", "task in followers", "False"),
    ],
    "a task that others waited for is kept for ever": [
        (Retention, "let_go", "self.ended.put_back(task)", "pass"),
    ],
    "what comes after a refused task of its batch is accepted": [
        (
            Admission,
            "_with_ids",
            "for index in extras.after_indexes]",
            "for index in extras.after_indexes if not isinstance(outcomes[index], Refusal)]",
        ),
    ],
    "a unique key is taken for ever": [
        (Lifecycle, "finish", "self.unique_keys.remove(task)", "pass"),
    ],
    "a task that is resumed has no unique key": [
        (Lifecycle, "resume", "self.unique_keys.add(task)", "pass"),
    ],
    "with queued a key is taken while its task is in flight": [
        (unique_keys, "_holds", "or task.state in WAITING", "or True"),
    ],
    "a task in flight is replaced": [
        (UniqueKeys, "find_conflict", "and _all_wait(holders)", ""),
    ],
    "a task is replaced by one that is refused": [
        (UniqueKeys, "find_conflict", "return None", "pass"),
    ],
    "a task replaces the one that it comes after": [
        (UniqueKeys, "find_conflict", "if any(", "if False and any("),
    ],
    "a task is the answer to no key but its own": [
        (UniqueKeys, "_bind", "self._tasks.by_key[task.agent.id, key.key] = task", "pass"),
    ],
    "the oldest task that has a key is the answer": [
        (UniqueKeys, "find_conflict", "holders[-1]", "holders[0]"),
    ],
}

RESTARTS: dict[str, list[Edit]] = {
    "a restart forgets what waits for others": [
        (Restoring, "live", "self._followers.append(task)", "pass"),
    ],
    "a restart forgets what was to follow": [
        (Predecessors, "restore", "self._look_at(now, task)", "pass"),
    ],
    "a restart forgets inputs": [
        (Restoring, "_note_relations", "self._with_inputs.append(task)", "pass"),
    ],
    "a restart forgets the inputs of failed tasks": [
        (Restoring, "_note_relations", " or task.state is FAILED", ""),
    ],
    "a lease that lives on has no inputs": [
        (Restoring, "finish", "task.lease.inputs = life.predecessors.inputs[task]", "pass"),
    ],
    "a restart frees unique keys": [
        (Restoring, "live", "life.unique_keys.add(task)", "pass"),
    ],
    "a restart forgets bound keys": [
        (Restoring, "_index_task", "for bound in task.history.bound", "for bound in ()"),
    ],
    "a bound key is not kept": [
        (UniqueKeys, "_bind", "self._changes.tasks[task] = None", "pass"),
    ],
    "a task that waits for others is kept as one that is queued": [
        (rows, "is_as_submitted", "and not task.options.extras.after", ""),
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
