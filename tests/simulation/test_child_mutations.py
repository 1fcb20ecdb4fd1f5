"""The simulation finds what it is for, of children by name: broken rules are caught one by one."""

from __future__ import annotations

import pytest

from taskyard_server.core.pending import Pending
from taskyard_server.core.restoring import Restoring
from taskyard_server.core.retention import Retention
from taskyard_server.core.runs import child_tasks
from taskyard_server.core.runs.artifacts import Artifacts
from taskyard_server.core.runs.child_tasks import ChildTasks
from taskyard_server.core.runs.named_children import NamedChildren

from .breach_histories import Histories
from .child_commands import names_children
from .restarts import RestartingSimulation
from .simulator import Mismatch, Simulation
from .test_mutations import Edit, mutate

# They rewrite the core.
pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

STEPS = 700
SEEDS = [seed for seed in range(280) if names_children(seed)]
"""Only in these histories tasks have children by name."""
HISTORIES = Histories(Simulation, SEEDS, STEPS)
WITH_RESTARTS = Histories(RestartingSimulation, SEEDS, STEPS)

LEASED = "self._reports.leased(now, host_id, task_id, token, own_only=own_only).task"
NO_LEASE = "self._reports._life.task(task_id)"

MUTATIONS: dict[str, list[Edit]] = {
    "a name is not looked up": [
        (ChildTasks, "submit", "named.find(parent, name)) is", "None) is"),
    ],
    "a name is that of a child that has not ended": [
        (ChildTasks, "submit", ") is not None:", ") is not None and known.over_at is None:"),
    ],
    "a name is that of a child that has not failed": [
        (ChildTasks, "submit", ") is not None:", ") is not None and known.state != 'failed':"),
    ],
    "a name is one of the run": [
        (ChildTasks, "submit", ") is not None:", ") is not None and known.created_at >= parent.lease.claimed_at:"),
    ],
    "any lease will do for a child": [(ChildTasks, "submit", LEASED, NO_LEASE)],
    "any lease will do to find a child": [(ChildTasks, "find", LEASED, NO_LEASE)],
    "a child is of another agent": [(child_tasks, "_below", 'not in ("", parent.agent.id)', "is None")],
    "the agent of a child is not its parent's": [
        (child_tasks, "_below", "agent_id=parent.agent.id", "agent_id=submission.agent_id or 'agent-0'"),
    ],
    "a child is one of another task": [(child_tasks, "_below", "not in (None, parent.id)", "== 0")],
    "a child has a key": [
        (child_tasks, "_below", "options.key is not None or", ""),
    ],
    "a child has a unique key": [
        (child_tasks, "_below", " or options.extras.unique_key is not None", ""),
    ],
    "a child does not end with its parent": [(child_tasks, "_below", "OnParentEnd.CANCEL", "OnParentEnd.KEEP")],
    "a child ends with its parent whatever is said": [
        (child_tasks, "_below", "options.extras.on_parent_end or ", ""),
    ],
    "a child comes after tasks of anybody": [
        (ChildTasks, "submit", "Names(frozenset((parent.agent.id,)))", "None"),
    ],
    "a child does not count as the start of its parent": [
        (ChildTasks, "submit", "self._reports.note_left_behind(now, parent)", "pass"),
    ],
    "a parent does not have its child": [
        (ChildTasks, "submit", "parent.history = parent.history._replace", "parent.history._replace"),
    ],
    "a parent has its last child alone": [
        (ChildTasks, "submit", "(*parent.history.children, child.seq)", "(child.seq,)"),
    ],
    "a held child is not let go by a repeat": [
        (ChildTasks, "_submit_again", "self._pending.release_hold(now, child)", "pass"),
    ],
    "a repeat that is held lets a child go": [
        (
            ChildTasks,
            "_submit_again",
            "if not submission.options.hold:\n        self._pending",
            "if True:\n        self._pending",
        ),
    ],
    "a held child keeps its params": [(Pending, "change_params", "task.params = params", "pass")],
    "a held child keeps its input": [(Pending, "change_params", "_replace(input=its_input)", "_replace()")],
    "a child that waits for others is let go by a repeat": [
        (ChildTasks, "submit", "if known.is_held:", "if known.state == 'pending':"),
    ],
    "a child is let go in a drain": [(ChildTasks, "_submit_again", "self._admission.require_open()", "pass")],
    "a repeat that a held child needs is no start": [
        (ChildTasks, "submit", "self._reports.note_start(now, parent)", "pass"),
    ],
    "a child that is not held gets artifacts": [(Artifacts, "_held_child", "if not child.is_held:", "if False:")],
    "the artifact of a child is its parent's": [
        (Artifacts, "task_of", "self._held_child(parent, right.child) if right.child else parent", "parent"),
    ],
    "a child is not kept for its parent": [(Retention, "_is_needed", "children.named.holds(task)", "False")],
    "a child that was refused is kept": [
        (NamedChildren, "holds", "self.find(parent, name) is task", "parent in self._of"),
    ],
    "children are kept after the end of their parent": [
        (Retention, "retain", "self._life.children.named.let_go(task)", "pass"),
    ],
    "the children of a failed parent are not kept": [
        (Retention, "retain", "task.state is not FAILED", "True"),
    ],
    "the children of a parent that is forgotten are kept": [
        (Retention, "_evict", "life.children.named.let_go(task)\n    agent", "agent"),
    ],
    "a failed parent that others need keeps its children": [
        (Retention, "_evict", "life.children.named.let_go(task)\n        return", "return"),
    ],
    "a parent that is resumed late has lost its children": [
        (Retention, "remove", "self._life.children.named.restored(task)", "pass"),
    ],
    "children that nobody needs any more stay aside": [
        (NamedChildren, "let_go", "self.on_let_go(child)", "pass"),
    ],
}

RESTARTS: dict[str, list[Edit]] = {
    "a restart has the first params of a held child": [
        (Pending, "change_params", "self._life.changes.rewritten[task] = None", "pass"),
    ],
    "a restart forgets who has which children": [
        (Restoring, "finish", "life.children.named.restored(task)", "pass"),
    ],
    "a restart forgets the children of failed parents": [
        (
            Restoring,
            "_note_relations",
            "task.history.children and may_run",
            "task.history.children and not task.over_at",
        ),
    ],
    "a restart has the children of those that never run again": [
        (Restoring, "_note_relations", "task.history.children and may_run", "task.history.children"),
        (NamedChildren, "restored", "parent.state in OVER", "False"),
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
