"""Rules of parked tasks are broken one by one, as in `test_mutations`, and each breach is caught."""

from __future__ import annotations

import pytest

from taskyard_server.core.deadlines import Deadlines
from taskyard_server.core.dispatcher import Dispatcher
from taskyard_server.core.figures import explain
from taskyard_server.core.grants import Grants
from taskyard_server.core.history import History
from taskyard_server.core.lifecycle import Lifecycle
from taskyard_server.core.reports import Reports
from taskyard_server.core.restoring import Restoring
from taskyard_server.core.runs.parks import Parks
from taskyard_server.core.runs.steps import Steps
from taskyard_server.core.targets import Targets

from . import simulator
from .breach_histories import Histories
from .park_commands import parks_tasks
from .restarts import RestartingSimulation
from .simulator import Mismatch, Simulation
from .test_mutations import Edit, mutate

# They rewrite the core.
pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

STEPS = 600
SEEDS = [seed for seed in range(200) if parks_tasks(seed)]
"""In these histories tasks are parked."""
HISTORIES = Histories(Simulation, SEEDS, STEPS)
WITH_RESTARTS = Histories(RestartingSimulation, SEEDS, STEPS)

MUTATIONS: dict[str, list[Edit]] = {
    "the target of a parked task is free": [(Grants, "end", "if task.state is not PARKED:", "if True:")],
    "a target that is released stays taken": [
        (Parks, "new_park", "left_secs, keeps_target, heard)", "left_secs, True, heard)")
    ],
    "a hand-out leaves the target kept": [(Grants, "grant", "park = park._replace(keeps_target=False)", "pass")],
    "the end of a parked task leaves its target kept": [(Parks, "end", ", keeps_target=False", "")],
    "a parked task that ends leaves its target taken": [
        (Parks, "leave", "self._life.targets.vacate(now, task)", "pass")
    ],
    "a woken task that ends leaves its target taken": [
        (Lifecycle, "_dequeue", "if task.history.park is not None:", "if False:"),
    ],
    "who keeps a target waits for the older ones": [
        (Targets, "_elect", "running in target.waiting:", "running.seq == target.oldest().seq:"),
    ],
    "the default deadline of a parked task goes on": [(Grants, "park", "task.deadline = None", "pass")],
    "a default deadline begins anew after a park": [
        (
            Lifecycle,
            "_make_ready",
            "self.limits.default_deadline_secs if left_secs is None else left_secs",
            "self.limits.default_deadline_secs",
        ),
    ],
    "a resumed run has what was left to the one before": [
        (History, "of_next_run", "self.park._replace(left_secs=None)", "self.park"),
    ],
    "a deadline of the submitter stands still": [
        (Grants, "park", "if task.deadline_secs is None:", "if True:"),
    ],
    "parked tasks have no deadline": [
        (Deadlines, "_first", "task.state in TIMED", 'task.state in TIMED and task.state != "parked"'),
    ],
    "a park counts as a delivery": [(Grants, "park", "task.deliveries -= 1", "pass")],
    "what has come is waited for again": [(Parks, "_wait", "if True in is_met or", "if")],
    "a park is no start": [
        (Reports, "park", "self._life.grants.begin(now, task, is_over=True)", "task.state = TaskState.RUNNING")
    ],
    "the tokens of a run that parks are not counted": [(Reports, "park", "tokens is not None", "False")],
    "what is asked again has its time and default anew": [(Parks, "new_park", "known.get(wait.key, wait)", "wait")],
    "what is not asked again stays open": [
        (
            Parks,
            "new_park",
            "kept = tuple([known.get(wait.key, wait) for wait in waits])",
            "kept = tuple({**{wait.key: wait for wait in waits}, **known}.values())",
        ),
    ],
    "a time that is over is waited for": [(Parks, "_index", "due <= now", "due < 0")],
    "an answer leaves the task parked": [(Parks, "answer", "self._wake(now, task)", "self._index(now, task)")],
    "a question may be answered twice": [(Parks, "_meet", "each != wait", "True")],
    "what was answered is not known": [(Parks, "_meet", ", met=(*park.met, wait.key)", "")],
    "an answer that comes while the task runs is lost": [
        (Parks, "answer", "else:\n        self._meet(now, task, wait, result, by)", "else:\n        pass"),
    ],
    "an answer is no step": [
        (Parks, "_meet", "self.steps.met(now, task, wait, result, by, is_expired=is_expired)", "pass"),
    ],
    "who has answered is not kept": [(Steps, "met", "now, by, is_expired", "now, None, is_expired")],
    "answers have no bound": [(Parks, "answer", "> MAX_STEPS_BYTES", "> 1 << 30")],
    "a question that nobody answered was answered": [
        (Parks, "_come_due", "is_expired=wait.kind != TIME", "is_expired=False"),
    ],
    "a question without a default goes on": [(Parks, "_come_due", "wait.default is None", "False")],
    "no code tells that nobody answered": [
        (Parks, "_come_due", ", code=QUESTION_EXPIRED", ""),
    ],
    "a task that was cancelled is woken": [(Parks, "end", "self._withdraw(task)", "pass")],
    "a question that was answered is listed": [(Parks, "_meet", "self._note_questions(task)", "pass")],
    "the questions of a task that has ended are listed": [(Parks, "end", "self._note_questions(task)", "pass")],
    "a question that is asked no more is listed": [
        (Parks, "_wait", "pop(task, 0)\n    self._note_questions(task)", "pop(task, 0)"),
    ],
    "a question that is asked again has the age of its first park": [
        (Parks, "_wait", "self._open -= self._asked.pop(task, 0)", "pass"),
    ],
    "a park cannot be repeated": [(Reports, "park", "park.token == token", "False")],
    "a repeated park is no sign of life": [
        (Reports, "park", "self._life.liveness.heard(now, self._hosts.get(host_id))", "pass"),
    ],
    "the end of a stranger is told": [(Reports, "park", "other.agent is not task.agent", "False")],
    "a child of another agent is a stranger": [(Reports, "park", " and other.options.parent_id != task.id", "")],
    "a task goes to any host after a park": [(Dispatcher, "_preferred", "return other", "return offer")],
    "a task goes back to a host that has failed it": [(Dispatcher, "_preferred", "park.token != task.token or ", "")],
    "parked tasks are left at the end of the process": [
        (simulator, "end_all", "task.state is not PAUSED:", 'task.state not in ("paused", "parked"):'),
    ],
    "a parked task is explained by what has ended": [(explain, "_live_of", " and each.state not in TERMINAL", "")],
}

LOST: dict[str, list[Edit]] = {
    "a restart forgets what parked tasks wait for": [(Parks, "restored", "self._index(now, task)", "pass")],
    "after a restart the oldest question is that of the oldest task": [
        (Parks, "settle", "sorted(self._asked.items(), key=_parked_since)", "self._asked"),
    ],
    "a restart forgets open questions": [(Parks, "restored", "self._note_questions(task)", "pass")],
    "a restart frees the targets of parked tasks": [(Targets, "_restore_keeper", "target.running = task", "pass")],
    "a restart frees the targets of woken tasks": [
        (
            Targets,
            "restore",
            "target.heap.append((task.seq, task))\n        self._restore_keeper(target, task)",
            "target.heap.append((task.seq, task))",
        ),
    ],
    "a restart takes released targets": [(Targets, "_restore_keeper", "park.keeps_target", "True")],
    "a restart counts no parked tasks": [(Restoring, "live", "life.counts.parked += 1", "pass")],
    "a restart forgets the deadlines of parked tasks": [
        (Restoring, "live", "life.counts.parked += 1\n        life.deadlines.add(task)", "life.counts.parked += 1"),
    ],
}


@pytest.mark.parametrize("breach", MUTATIONS)
def test_a_broken_rule_is_caught(monkeypatch, breach):
    for edit in MUTATIONS[breach]:
        mutate(monkeypatch, *edit)
    with pytest.raises(Mismatch):
        HISTORIES.play(breach)


@pytest.mark.parametrize("breach", LOST)
def test_what_is_lost_with_a_restart_is_missed(monkeypatch, breach):
    for edit in LOST[breach]:
        mutate(monkeypatch, *edit)
    with pytest.raises(Mismatch):
        WITH_RESTARTS.play(breach)


def test_the_same_histories_pass_with_no_rule_broken(monkeypatch):
    for (owner, name), words in {edit[:2]: edit[2] for edits in MUTATIONS.values() for edit in edits}.items():
        mutate(monkeypatch, owner, name, words, words)
    assert HISTORIES.play() == len(SEEDS) * STEPS
    assert WITH_RESTARTS.play() == len(SEEDS) * STEPS
