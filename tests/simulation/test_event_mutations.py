"""Rules of events are broken one by one, as in `test_mutations`, and each breach is caught."""

from __future__ import annotations

import pytest

from taskyard_server.core.agenda import Agenda
from taskyard_server.core.figures import explain
from taskyard_server.core.runs.events import SentEvent, SentEvents
from taskyard_server.core.runs.parks import Parks
from taskyard_server.store import rows
from taskyard_server.store.loading import _Loading

from .breach_histories import Histories
from .park_commands import sends_events
from .restarts import RestartingSimulation
from .simulator import Mismatch, Simulation
from .test_mutations import Edit, mutate

# They rewrite the core.
pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

STEPS = 600
SEEDS = [seed for seed in range(700) if sends_events(seed)]
"""In these histories events are sent."""
HISTORIES = Histories(Simulation, SEEDS, STEPS)
WITH_RESTARTS = Histories(RestartingSimulation, SEEDS, STEPS)
KNOWN = "self._by_key.get(key)"

MUTATIONS: dict[str, list[Edit]] = {
    "an event wakes nobody": [(SentEvents, "send", "self._note_due(now, event)", "event.due = {}")],
    "nobody is told when an event is to be got": [(Agenda, "next_due", "self._events.next_due()", "None")],
    "events come after all else": [
        (Agenda, "_follow_one", "self._events.act_on_one(now) or ", ""),
    ],
    "an event is for one of those that wait": [
        (SentEvents, "send", "if event.may_reach(task)]", "if event.may_reach(task)][:1]")
    ],
    "an event is for tasks of any agent": [(SentEvent, "may_reach", "task.agent_id in self.agents", "True")],
    "a life never ends": [(SentEvent, "is_for", "since < self.until", "True")],
    "a life has no end but the last tick": [(SentEvent, "is_for", "since < self.until", "since <= self.until")],
    "an event is for those alone that waited": [(SentEvent, "is_for", " or since < self.until", "")],
    "what waited is too late for an event without a life": [(SentEvent, "is_for", "since <= self.at or ", "")],
    "the newest event comes first": [(SentEvents, "next_for", "by_number.items()", "reversed(by_number.items())")],
    "a task gets an event twice": [(Parks, "_meet_events", "self._note_heard(task, name, event.number)", "pass")],
    "what it had is forgotten with the next park": [(Parks, "new_park", "heard = history.park.heard", "pass")],
    "what it had of one name counts for another": [
        (SentEvents, "next_for", ".get(name, 0)", ".get(max(dict(park.heard), default=name), 0)")
    ],
    "what is there already is not got": [(Parks, "_wait", " or self.events.has_for(task)", "")],
    "what has come is lost if something else comes first": [
        (Parks, "_wake", "self._meet_what_came(now, task)", "pass")
    ],
    "what came before the time was over is too late": [
        (
            Parks,
            "_come_due",
            "self._meet_what_came(now, task)",
            "[self._meet(now, task, each, None, None) for each in before.waits if self.ends.is_over(each)]",
        ),
    ],
    "the payload is lost": [(Parks, "_meet_events", "event.payload, event.by", "None, event.by")],
    "who sent it is not kept": [(Parks, "_meet_events", "event.payload, event.by", "event.payload, None")],
    "an event is let go with its life": [(SentEvents, "let_go", "if event.due:\n            return", "pass")],
    "an event is kept for ever": [(SentEvents, "_end_life", "self.let_go(event.name)", "pass")],
    "an event that all have got is kept": [(Parks, "_meet_events", "self.events.let_go(wait.about[0])", "pass")],
    "the end of a task keeps an event": [(Parks, "end", "self.events.let_go(name)", "pass")],
    "a task that goes on waits still": [(Parks, "_withdraw", "self.events.withdraw(task)", "pass")],
    "a repeat is another event": [(SentEvents, "send", "if known is not None:", "if False:")],
    "an id is the same for every name": [
        (SentEvents, "send", KNOWN, "next((each for each in self.all() if each.key[::2] == key[::2]), None)"),
    ],
    "an id is the same for all callers": [
        (SentEvents, "send", KNOWN, "next((each for each in self.all() if each.key[1:] == key[1:]), None)"),
    ],
    "a repeat is a new event once its life is over": [
        (SentEvents, "send", "known is not None:", "known is not None and not known.due:")
    ],
    "two events have one number": [(SentEvents, "send", "self.last_number += 1", "self.last_number += not self._due")],
    "an event is not explained": [
        (explain, "_of_a_wait", "WaitKind(wait.kind)", "WaitKind('ends' if wait.kind == EVENT else wait.kind)")
    ],
}

LOST: dict[str, list[Edit]] = {
    "an event is not kept": [(SentEvents, "send", "self._changes.sent_events[event] = None", "pass")],
    "an event that is over is kept": [(SentEvents, "_forget", "self._changes.sent_event_gone(event)", "pass")],
    "a restart forgets events": [(_Loading, "event", "self.restoring.sent_event(", "(lambda event: None)(")],
    "a restart counts events anew": [(rows, "_add_namespace", "scheduler.parks.events.last_number", "0")],
    "a restart ends no life": [(SentEvents, "restore", "self._timers.add(event.until, event)", "pass")],
    "a restart forgets who is to get an event": [(SentEvents, "wait", "if event is None:", "if True:")],
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
