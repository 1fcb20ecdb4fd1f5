"""The simulation of schedules finds what it is for: rules of the core are broken one by one, and each breach is caught.

How a breach is planted is told in `test_mutations` of the simulation of tasks.
"""

from __future__ import annotations

from typing import Final

import pytest

from taskyard_server.core.lifecycle import Lifecycle
from taskyard_server.core.schedules.registry import ScheduleRegistry
from taskyard_server.core.schedules.trigger_dispatcher import TriggerDispatcher
from taskyard_server.core.schedules.trigger_queue import TriggerQueue
from taskyard_server.core.schedules.trigger_store import DueOrder, TriggerStore
from taskyard_server.core.schedules.triggered_tasks import TriggeredTasks
from tests.simulation.breach_histories import Histories
from tests.simulation.simulator import Mismatch
from tests.simulation.test_mutations import Edit, mutate

from .schedule_world import Simulation

# They rewrite the core.
pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

FIRST_SEEDS = (3086, 3115, 3245, 3103, 3043, 3042, 3008, 3015, 3028, 3026, 3104, 3035, 3030, 3010)
SEEDS, STEPS = [*FIRST_SEEDS, *range(3000, 3040)], 300
"""A breach must be seen within 16,200 steps. The first histories show what others seldom do."""
HISTORIES = Histories(Simulation, SEEDS, STEPS, {})
UNBROKEN: Final = 10
"""So many of these histories are also run with no rule broken; the other test runs many more."""

MUTATIONS: dict[str, list[Edit]] = {
    "a changed cadence skips nothing": [
        (ScheduleRegistry, "update", "self._dispatcher.withdraw(now, schedule, CHANGED)", "pass"),
    ],
    "an interval counts from the creation after a change": [
        (
            ScheduleRegistry,
            "update",
            "schedule.since, schedule.next_due, schedule.resumed_at = since, next_due, None",
            "schedule.next_due, schedule.resumed_at = next_due, None",
        ),
    ],
    "a changed schedule is due at its old time": [
        (ScheduleRegistry, "update", "self._disarm(schedule)\n        self._dispatcher", "self._dispatcher"),
    ],
    "a pause skips nothing": [
        (ScheduleRegistry, "pause", "self._dispatcher.withdraw(now, schedule, PAUSED)", "pass"),
    ],
    "a paused schedule comes due": [
        (ScheduleRegistry, "pause", "self._disarm(schedule)", "pass"),
    ],
    "a pause skips what a call made": [
        (TriggerDispatcher, "withdraw", " and not trigger.by_call", ""),
    ],
    "a resume catches up nothing": [
        (ScheduleRegistry, "resume", "schedule.after_pause = catch_up", "pass"),
    ],
    "what passed in a pause counts as on time": [
        (ScheduleRegistry, "_decide_missed", "and due <= schedule.resumed_at", "and False"),
    ],
    "what passed since the resume counts as passed in the pause": [
        (ScheduleRegistry, "_decide_missed", "due <= schedule.resumed_at", "True"),
    ],
    "a deleted schedule keeps what has not fired": [
        (ScheduleRegistry, "delete", "self._dispatcher.drop(schedule)", "pass"),
    ],
    "a deleted schedule's triggers still count as pending": [
        (TriggerDispatcher, "drop", "self._leave_pending(trigger)", "pass"),
    ],
    "a schedule is made while the scheduler drains": [
        (ScheduleRegistry, "create", "if self._dispatcher.on_hold:", "if False:"),
    ],
    "a due time whose key is known makes a second trigger": [
        (TriggerStore, "new", "key is not None and self.find(schedule.id, key) is not None", "False"),
    ],
    "a call waits for the next look at the clock": [
        (TriggerDispatcher, "make_due_by_call", "if not self._fire_one(now):", "if True:"),
    ],
    "nobody looks at the wall clock before something is due": [
        (ScheduleRegistry, "next_due", "+ self._life.limits.poll_secs", "+ 1e9"),
    ],
    "the look at the wall clock is forgotten": [
        (ScheduleRegistry, "note_wall", "self._wall_noted_at = now", "pass"),
    ],
    "cron goes by the steady clock": [
        (ScheduleRegistry, "_process_due", "now + self._wall_offset", "now"),
    ],
    "a wake-up by the wall clock is as far off as its jump": [
        (ScheduleRegistry, "next_due", "- self._wall_offset", ""),
    ],
    "what is late by two polls is on time": [
        (ScheduleRegistry, "_decide_missed", "clock - on_time_secs", "clock - 2 * on_time_secs"),
    ],
    "the window of those that are caught up is twice as long": [
        (ScheduleRegistry, "_decide_missed", "spec.catch_up_window_secs", "2 * spec.catch_up_window_secs"),
    ],
    "each of the times that were missed is skipped by itself": [
        (ScheduleRegistry, "_decide_missed", "return reason, last", "return reason, cadence.next_after(due, since)"),
    ],
    "the last one that was missed is skipped where a later one is on time": [
        (ScheduleRegistry, "_decide_missed", "min(until, nextafter(on_time_from, -inf))", "until"),
    ],
    "of a run that is not caught up the last is skipped, too": [
        (ScheduleRegistry, "_decide_missed", "last >= on_time_from", "True"),
    ],
    "what is on time is skipped with those that are not caught up": [
        (ScheduleRegistry, "_decide_missed", "last >= on_time_from", "False"),
    ],
    "the times since a resume are skipped with those in the pause": [
        (
            ScheduleRegistry,
            "_decide_missed",
            "return reason, cadence.next_after(until, since)",
            "return reason, cadence.next_after(clock, since)",
        ),
    ],
    "what comes due is spread before all of it has come": [
        (
            ScheduleRegistry,
            "advance",
            "self._process_due(now) or self._dispatcher.act_on_one(now)",
            "self._dispatcher.act_on_one(now) or self._process_due(now)",
        ),
    ],
    "schedules stand still after a restart": [
        (ScheduleRegistry, "recover", "self._arm(schedule)", "pass"),
    ],
    "triggers count from one again after a restart": [
        (TriggerStore, "restore", "self._last_number = max(self._last_number, trigger.number)", "pass"),
    ],
    "schedules count from one again after a restart": [
        (ScheduleRegistry, "restore", "self._last_number = max(self._last_number, schedule.number)", "pass"),
    ],
    "a task that was not recorded is fired again after a restart": [
        (TriggerDispatcher, "adopt", "self._life.tasks.by_key.get((schedule.spec.task.agent_id, trigger.id))", "None"),
    ],
    "after a restart triggers do not learn of the end of their tasks": [
        (TriggerDispatcher, "adopt", "self._life.triggered.triggers[task] = trigger", "pass"),
    ],
    "after a restart what executes does not count as open": [
        (TriggerDispatcher, "adopt", "schedule.open += 1", "pass"),
    ],
    "a trigger that is taken up shows no task": [
        (TriggerDispatcher, "adopt", "trigger.task_id = schedule.last_task_id = task.id", "pass"),
    ],
    "jitter begins one trigger too early": [
        (TriggerDispatcher, "_spread", "len(fresh) > limits.jitter_threshold", "len(fresh) >= limits.jitter_threshold"),
    ],
    "jitter is twice as long as it may be": [
        (TriggerDispatcher, "_spread", "2**40", "2**39"),
    ],
    "jitter breaks the order": [
        (TriggerDispatcher, "_spread", "fractions = sorted(", "fractions = list("),
    ],
    "of those that go on in one tick the last goes first": [
        (TriggerDispatcher, "_spread", "reversed(delayed)", "delayed"),
    ],
    "jitter goes beyond the next due time": [
        (TriggerDispatcher, "_spread", "max_delay = min(max_delay, max(0.0, schedule.next_due - due_at))", "pass"),
    ],
    "what comes later overtakes what was spread before": [
        (TriggerDispatcher, "_spread", "(last := last_delay_end[schedule]) is not None", "False"),
    ],
    "what is due earlier replaces what is due later": [
        (TriggerDispatcher, "_arrive", "other.due_at > trigger.due_at", "False"),
    ],
    "a deleted schedule leaves its keys to its namesake": [
        (TriggerStore, "release_keys", "of_schedule is not None", "False"),
    ],
    "what was withdrawn is spread": [
        (TriggerDispatcher, "_spread", "if trigger.state is PENDING", "if True"),
    ],
    "an overlap is not skipped": [
        (TriggerDispatcher, "_arrive", "schedule.open and overlap is Overlap.SKIP", "False"),
    ],
    "an overlap does not wait": [
        (TriggerDispatcher, "_arrive", "schedule.open and overlap is Overlap.WAIT", "False"),
    ],
    "two wait for the one before them": [
        (TriggerDispatcher, "_arrive", "if schedule.waiting is not None", "if False"),
    ],
    "one more is open than may be": [
        (
            TriggerDispatcher,
            "_arrive",
            "schedule.open >= MAX_OPEN_PER_SCHEDULE",
            "schedule.open > MAX_OPEN_PER_SCHEDULE",
        ),
    ],
    "the one that waits is forgotten": [
        (TriggerDispatcher, "_end", "self._release_waiting(now, schedule)", "pass"),
    ],
    "the one that waits does not wait for all": [
        (TriggerDispatcher, "_release_waiting", " and not schedule.open", ""),
    ],
    "what was not fired is not replaced": [
        (TriggerDispatcher, "_replace_open", "self._end(now, trigger, SKIPPED, REPLACED)", "pass"),
    ],
    "what waits for one that is replaced goes on": [
        (TriggerDispatcher, "_replace_open", "if schedule.waiting is not None", "if False"),
    ],
    "a task is not cancelled by the one that replaces it": [
        (TriggerDispatcher, "_replace_open", "self._life.finish(", "(lambda *_: None)("),
    ],
    "the schedule of which the most execute is next": [
        (TriggerQueue, "_leave", "(schedule.executing, due_at", "(-schedule.executing, due_at"),
        (TriggerQueue, "_enter", "(schedule.executing, due_at", "(-schedule.executing, due_at"),
    ],
    "it does not matter how many of a schedule execute": [
        (TriggerQueue, "_leave", "(schedule.executing, due_at", "(0, due_at"),
        (TriggerQueue, "_enter", "(schedule.executing, due_at", "(0, due_at"),
    ],
    "of a schedule the one that came last is next": [
        (TriggerQueue, "next", "ready[0]", "ready[-1]"),
    ],
    "what was withdrawn keeps its turn": [
        (TriggerDispatcher, "_leave_pending", "self._queue.remove(trigger)", "pass"),
    ],
    "an end does not make a turn come sooner": [
        (TriggerDispatcher, "_end", "self._count_executing(schedule, -1)", "self.executing -= 1"),
    ],
    "a clock that was set back is not noticed": [
        (ScheduleRegistry, "note_wall", "if schedule.spec.cadence.by_wall:", "if False:"),
    ],
    "a clock that goes back a little makes all look anew": [
        (ScheduleRegistry, "note_wall", "self._latest_wall - self._life.limits.poll_secs", "self._latest_wall"),
    ],
    "a clock that goes back twice is noticed once": [
        (ScheduleRegistry, "note_wall", "        return\n    self._latest_wall = clock", "        return"),
    ],
    "a clock that was set back makes due again what was": [
        (ScheduleRegistry, "_recompute_due", "schedule.processed_times, following", "(), following"),
    ],
    "what comes after a leap back is due again": [
        (
            ScheduleRegistry,
            "_process_due",
            "processed_times.first_unprocessed(schedule.processed_times, later)",
            "later",
        ),
    ],
    "what was leaped over counts as dealt with": [
        (
            ScheduleRegistry,
            "_process_due",
            "add(schedule.processed_times, due, following)",
            "add(schedule.processed_times, due, later)",
        ),
    ],
    "a changed cadence remembers the times of the old one": [
        (ScheduleRegistry, "update", "schedule.processed_times = ()", "pass"),
    ],
    "the end of a pause stays where the clock was": [
        (ScheduleRegistry, "_resumed_by", "schedule.resumed_at = clock", "pass"),
    ],
    "an interval waits for its beginning after a restart": [
        (ScheduleRegistry, "_recompute_due", "schedule.since, schedule.processed_times = clock, ()", "pass"),
    ],
    "after a restart no clock is looked at": [
        (ScheduleRegistry, "recover", "self._recompute_due(schedule, clock)", "pass"),
    ],
    "one schedule more is made than may be": [
        (ScheduleRegistry, "create", "len(self._schedules) >=", "len(self._schedules) >"),
    ],
    "one more task of triggers is in flight than may be": [
        (TriggeredTasks, "hold", "self.inflight >=", "self.inflight >"),
    ],
    "one more task of a schedule is queued than may be": [
        (TriggerQueue, "_leave", "schedule.queued <", "schedule.queued <="),
        (TriggerQueue, "_enter", "schedule.queued <", "schedule.queued <="),
    ],
    "a task that was handed out still counts as queued": [
        (TriggeredTasks, "changed", "self.on_queued(trigger, queued)", "pass"),
    ],
    "a draining scheduler fires": [
        (TriggerDispatcher, "_fire_one", "self._can_fire", "self._queue"),
    ],
    "a full queue is looked at every second": [
        (TriggerDispatcher, "_defer", "trigger.deferrals += 1", "pass"),
    ],
    "a full queue is looked at ever more seldom": [
        (
            TriggerDispatcher,
            "_defer",
            "min(FIRST_DEFERRAL_SECS * 2 ** min(trigger.deferrals, MAX_DEFERRAL_DOUBLINGS), MAX_DEFERRAL_SECS)",
            "FIRST_DEFERRAL_SECS * 2**trigger.deferrals",
        ),
    ],
    "the limit of an agent fails a trigger": [
        (Lifecycle, "accept", "self.targets, agent, options)", "self.targets, None, options)"),
    ],
    "a deadline counts from the due time": [
        (TriggerDispatcher, "_fire", "now + spec.deadline_secs", "max(now - 1, trigger.due_at) + spec.deadline_secs"),
    ],
    "a task does not run under its trigger's trace": [
        (TriggerDispatcher, "_fire", "traceparent=trigger.traceparent", "traceparent=None"),
    ],
    "a schedule does not show when it fired": [
        (TriggerDispatcher, "_fire", "trigger.fired_at = schedule.last_fired_at = now", "trigger.fired_at = now"),
    ],
    "a trigger does not tell why it failed": [
        (TriggerDispatcher, "_end_with_task", "task.error or ", ""),
    ],
    "the newest of a schedule's ended triggers is forgotten": [
        (TriggerStore, "retire", "next(iter(of_schedule.ended))", "next(reversed(of_schedule.ended))"),
    ],
    "a schedule keeps one ended trigger less": [
        (TriggerStore, "retire", "> MAX_ENDED_PER_SCHEDULE", ">= MAX_ENDED_PER_SCHEDULE"),
    ],
    "ended triggers are kept without an end": [
        (TriggerStore, "retire", "len(self._ended) > MAX_ENDED", "False"),
    ],
    "the key of a forgotten trigger stays": [
        (TriggerStore, "forget", "del of_schedule.by_key[trigger.key]", "pass"),
    ],
    "a page of triggers repeats the last one of the page before": [
        (DueOrder, "latest_first", "bisect_left(entries, before)", "bisect_left(entries, before) + 1"),
    ],
}


@pytest.mark.parametrize("breach", MUTATIONS)
def test_a_broken_rule_is_caught(monkeypatch, breach):
    for edit in MUTATIONS[breach]:
        mutate(monkeypatch, *edit)
    with pytest.raises(Mismatch) as caught:
        HISTORIES.play(breach)
    print(caught.value.__notes__[0], caught.value.why)


def test_the_same_histories_pass_with_no_rule_broken(monkeypatch):
    rewritten = {(owner, name): words for edits in MUTATIONS.values() for owner, name, words, _ in edits}
    for (owner, name), words in rewritten.items():
        mutate(monkeypatch, owner, name, words, words)
    assert Histories(Simulation, SEEDS[:UNBROKEN], STEPS, {}).play() == UNBROKEN * STEPS
