"""Rules of the ends that parked tasks wait for are broken one by one, as in `test_mutations`, and each is caught."""

from __future__ import annotations

import pytest

from taskyard_server.core.agenda import Agenda
from taskyard_server.core.lifecycle import Lifecycle
from taskyard_server.core.runs.awaited_ends import AwaitedEnds, NotedEnd
from taskyard_server.core.runs.parks import Parks

from .breach_histories import Histories
from .crowd_commands import waits_in_crowds
from .park_commands import parks_tasks
from .restarts import RestartingSimulation
from .simulator import Mismatch, Simulation
from .test_mutations import Edit, mutate

# They rewrite the core.
pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

STEPS = 600
SEEDS = [*filter(waits_in_crowds, range(1_000)), *filter(parks_tasks, range(90))]
"""In these histories tasks are parked, in most of them many for the ends of the same ones."""
HISTORIES = Histories(Simulation, SEEDS, STEPS)
WITH_RESTARTS = Histories(RestartingSimulation, SEEDS, STEPS)
BRINGS_ABOUT = "self._children.ends.act_on_one(now) or self._awaited.act_on_one(now)"

MUTATIONS: dict[str, list[Edit]] = {
    "the ends of tasks wake nobody": [(Lifecycle, "finish", "self.parks.ends.ended(now, task)", "pass")],
    "the call that ends a task lets others go on": [
        (
            AwaitedEnds,
            "ended",
            "self._note(now, task.id, waiting)",
            "self._note(now, task.id, waiting)\n        while self.act_on_one(now):\n            pass",
        ),
    ],
    "nobody is woken for ends that are to be told": [(Agenda, "next_due", "self._awaited.next_due()", "None")],
    "ends are told by nobody": [(Agenda, "_follow_one", BRINGS_ABOUT, "self._children.ends.act_on_one(now)")],
    "ends are told before children end with their parents": [
        (Agenda, "_follow_one", BRINGS_ABOUT, "self._awaited.act_on_one(now) or self._children.ends.act_on_one(now)"),
    ],
    "events come before ends": [
        (
            Agenda,
            "_follow_one",
            BRINGS_ABOUT,
            BRINGS_ABOUT.replace("self._awaited", "self._events.act_on_one(now) or self._awaited"),
        ),
    ],
    "what comes after others is looked at before ends": [
        (
            Agenda,
            "_follow_one",
            BRINGS_ABOUT,
            BRINGS_ABOUT.replace("self._awaited", "self._predecessors.act_on_one(now) or self._awaited"),
        ),
    ],
    "the last end comes first": [
        (AwaitedEnds, "act_on_one", "self._noted.items()", "reversed(self._noted.items())"),
    ],
    "the youngest goes on first": [(AwaitedEnds, "act_on_one", "key=_youngest_first", "key=lambda each: each.seq")],
    "the last that was parked goes on first": [
        (NotedEnd, "__init__", "self.is_in_order = False", "self.is_in_order = True")
    ],
    "an end is told to one task alone": [
        (
            AwaitedEnds,
            "act_on_one",
            "if not noted.waiting:\n            del self._noted[ended]",
            "del self._noted[ended]",
        ),
    ],
    "the end of one of the tasks is enough": [
        (AwaitedEnds, "act_on_one", "if not all(its):", "if True:"),
        (AwaitedEnds, "_go_on", "if any(map(self.is_over, park.waits)):", "if True:"),
    ],
    "all waits must be over": [(AwaitedEnds, "act_on_one", "if not all(its):", "if not any(its):")],
    "a task is not told of an end": [(AwaitedEnds, "act_on_one", "unended.discard(ended)", "pass")],
    "what was resumed once it was told has ended": [
        (AwaitedEnds, "_go_on", "if any(map(self.is_over, park.waits)):", "if True:"),
    ],
    "what was resumed once it was told is not waited for": [(AwaitedEnds, "_go_on", "self.wait(now, task)", "pass")],
    "what was resumed before it was told is told as an end": [
        (Lifecycle, "resume", "self.parks.ends.resumed(task)", "pass"),
    ],
    "what was resumed before it was told is not waited for": [
        (AwaitedEnds, "resumed", "self._awaited[task.id] = noted.waiting", "pass"),
    ],
    "what has ended is waited for": [(AwaitedEnds, "_is_live", " and task.state not in TERMINAL", "")],
    "what had ended before is told later": [(AwaitedEnds, "wait", "is_any_over = True", "pass")],
    "the end of tasks is no step": [(Parks, "_meet_what_came", "self._meet(now, task, wait, None, None)", "pass")],
    "an end that was in time is met twice": [
        (Parks, "_come_due", "for wait in park.waits if wait.until", "for wait in before.waits if wait.until"),
    ],
    "an end before the time was over is too late": [
        (Parks, "_come_due", "self._meet_what_came(now, task)", "self._meet_events(now, task)"),
    ],
    "an end that came is lost if something else comes first": [
        (Parks, "_wake", "self._meet_what_came(now, task)", "self._meet_events(now, task)"),
    ],
    "a question whose time is over fails a task for which an end has come": [
        (Parks, "_come_due", "unanswered and park.met == before.met", "unanswered"),
    ],
    "a question whose time is over has an answer where an end has come": [
        (Parks, "_come_due", "if wait not in unanswered:", "if True:"),
    ],
    "a task that goes on waits for ends still": [(Parks, "_withdraw", "self.ends.withdraw(task)", "pass")],
    "a task that goes on waits still for what lives": [(AwaitedEnds, "withdraw", "del waiting[task]", "pass")],
    "a task that goes on is told of an end still": [(AwaitedEnds, "withdraw", "del noted.waiting[task]", "pass")],
    "an end that nobody is to be told of is kept": [
        (AwaitedEnds, "withdraw", "if not noted.waiting:", "if False:"),
    ],
}

LOST: dict[str, list[Edit]] = {
    "one task alone goes on for what had ended before a restart": [
        (AwaitedEnds, "wait", "self._noted[EARLIER].waiting[task] = None", "pass"),
    ],
    "after a restart the youngest goes on first": [
        (NotedEnd, "__init__", "self.is_in_order = False", "self.is_in_order = True"),
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
