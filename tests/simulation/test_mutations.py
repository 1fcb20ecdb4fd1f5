"""The simulation finds what it is for: rules of the core are broken one by one, and each breach is caught.

A mutation replaces a few words in the source of core functions, for the length of a test. The indexes are not recounted
here: what the core answers must betray it. If the core is rewritten so that the words are gone, the test says so; put
the same breach into the new words.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from textwrap import dedent

import pytest

from taskyard_server.core.agenda import Agenda
from taskyard_server.core.handing import Handing
from taskyard_server.core.lane import Lane
from taskyard_server.core.lifecycle import Lifecycle
from taskyard_server.core.liveness import Liveness
from taskyard_server.core.offers import Crew, Offers
from taskyard_server.core.ready_queue import ReadyQueue
from taskyard_server.core.reports import Reports
from taskyard_server.core.retention import Retention
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.streams import Streams
from taskyard_server.core.targets import Targets
from taskyard_server.core.task import Task

from .simulator import Mismatch, Simulation

# They rewrite the core.
pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

SEEDS, STEPS = [1021, 1018, 1019, 1095, 1017, 1097, 1180, *range(1000, 1012)], 500
"""A breach must be seen within 9,500 steps. The first histories show what others seldom do."""

NEVER = sys.maxsize

Edit = tuple[type, str, str, str]
"""The class, its method, the words there, and what stands there instead."""

MUTATIONS: dict[str, list[Edit]] = {
    "the fair order ignores what is in flight": [
        (ReadyQueue, "take", "agent.inflight * ONE_IN_FLIGHT + SERVED", "SERVED"),
        (ReadyQueue, "landed", "agent.rank - ONE_IN_FLIGHT", "agent.rank"),
    ],
    "an agent whose task lands does not move ahead at once": [
        (ReadyQueue, "landed", "if rank < lane.entries[-1]", "if False"),
    ],
    "a report needs no valid token": [
        (Reports, "_leased", "lease.token != token or ", ""),
    ],
    "a lease may expire more than max_deliveries times": [
        (Lifecycle, "lose", "task.deliveries < self.limits.max_deliveries", "True"),
    ],
    "the deadline of an ended task stays in the timers": [
        (Lifecycle, "finish", "self._forget_deadline(task)", "pass"),
    ],
    "a task that is handed out still counts as queued by its agent": [
        (Lifecycle, "grant", "task.agent.queued -= 1", "pass"),
    ],
    "the latest priority goes first": [
        (Lane, "_row", "rows.insert(at, Row(priority))", "rows.append(Row(priority))"),
    ],
    "a task that comes back goes last": [
        (Lane, "add", "last.seq < task.seq", "last is not None"),
    ],
    "a task that left its lane is handed out": [
        (Lane, "remove", "self._bury()", "pass"),
    ],
    "a task that comes back and ends again is forgotten by its first end": [
        (Retention, "remove", "self._left.get(task, 0) + 1", "0"),
    ],
    "an agent that was never served goes last": [
        (ReadyQueue, "new_agent", "Agent(agent_id, self._turns)", "Agent(agent_id, SERVED + self._turns)"),
    ],
    "an agent gets one more than its limit": [
        (ReadyQueue, "first", "best.agent.inflight >= max_per_agent", "best.agent.inflight > max_per_agent"),
    ],
    "a lease that ends with the deadline goes before it": [
        (Agenda, "timers", "self._kinds.append((timers, act))", "self._kinds.insert(0, (timers, act))"),
    ],
    "a task is handed out in the instant of its deadline": [
        (Task, "is_overdue", "self.deadline <= now", "self.deadline < now"),
    ],
    "a released task counts as delivered": [
        (Lifecycle, "release", "task.deliveries -= 1", "pass"),
    ],
    "a task that a stream never started counts as delivered": [
        (Lifecycle, "lose", "task.deliveries -= 1", "pass"),
    ],
    "a task that a stream never started stays with it until its lease ends": [
        (Lifecycle, "grant", "lease.due = min(lease.start_by, lease.expires_at)", "pass"),
    ],
    "a task that was started in time must be started again": [
        (Lifecycle, "begin", "lease.start_by = inf", "pass"),
    ],
    "a lease is adopted whatever its token": [
        (Streams, "_adopt", "(lease.task.id, lease.token) in listed", "lease.task.id in dict(held)"),
    ],
    "of two tokens that a host lists for a task only one counts": [
        (Streams, "_adopt", "(lease.task.id, lease.token) in listed", "dict(held).get(lease.task.id) == lease.token"),
    ],
    "a host keeps what it does not list": [
        (Streams, "_adopt", "elif lease.stream is not None", "elif False"),
    ],
    "an adopted lease ends with the grace of the broken stream": [
        (Streams, "_adopt", "lease.adopt_by = inf", "pass"),
    ],
    "the leases of a broken stream wait for their host for ever": [
        (Streams, "disconnect", "lease.adopt_by = now + self._life.limits.reconnect_grace_secs", "pass"),
    ],
    "a stream that was superseded breaks the one that took its place": [
        (Streams, "disconnect", "if host.session is offer", "if True"),
    ],
    "another instance supersedes a stream that lives": [
        (Streams, "_make_way", "host.instance != hello.instance and not self._handing.is_silent(now, stream)", "False"),
    ],
    "a heartbeat renews leases that it does not list": [
        (
            Streams,
            "beat",
            "for task_id, token in held:",
            "for task_id, token in [*held, *((its.task.id, its.token) for its in host.leases.values())]:",
        ),
    ],
    "a heartbeat takes time from leases": [
        (Streams, "beat", "elif now + lease.secs > lease.expires_at", "else"),
    ],
    "handing out uses no credit": [
        (Offers, "served", "offer.room -= 1", "pass"),
    ],
    "handing out ignores how loaded hosts are": [
        (Crew, "enter", "(len(host.leases) / slots, offer.turn)", "(0.0, offer.turn)"),
    ],
    "handing out counts leases, not shares of slots": [
        (Crew, "enter", "len(host.leases) / slots", "float(len(host.leases))"),
    ],
    "a host that was just handed a task does not go behind its equals": [
        (Offers, "served", "offer.turn = self._turns", "pass"),
    ],
    "a claim of a host with a stream leaves the stream's place as it was": [
        (Handing, "claim", "life.offers.loaded(host)", "pass"),
    ],
    "a freed agent limit wakes nobody": [
        (ReadyQueue, "landed", "if lane.bucket.crews", "if False"),
    ],
    "a new task wakes nobody": [
        (ReadyQueue, "add", "if bucket.crews", "if False"),
    ],
    "new credit wakes nobody": [
        (Offers, "eased", "self._awake[crew] = None", "pass"),
    ],
    "new limits wake nobody": [
        (Scheduler, "reconfigure", "self._life.offers.wake_all()", "pass"),
    ],
    "a new kind of task is not shown to those who wait": [
        (ReadyQueue, "_open", "self._join(crew, bucket)", "pass"),
    ],
    "a crew that waited for the limit of all is forgotten": [
        (
            Handing,
            "hand_out",
            "life.inflight >= limits.max_inflight:",
            "life.inflight >= limits.max_inflight and not awake.clear():",
        ),
    ],
    "a silent stream is handed tasks": [
        (Handing, "hand_out", "self.is_silent(now, offer)", "False"),
    ],
    "a stream that was silent waits no more though it is heard of": [
        (Handing, "heard", "session.place is None", "False"),
    ],
    "a claim that waits shows its host's stream no sign of life": [
        (Handing, "_heard_by_a_claim", "self.heard(now, host)", "self._hosts.heard(now, host)"),
    ],
    "a draining host is handed tasks": [
        (Offers, "eased", "offer.room > 0 and not offer.host.draining", "offer.room > 0"),
    ],
    "a host that registers anew is handed what it could run before": [
        (Handing, "look_at", "self._fit(now, offer)", "pass"),
    ],
    "a claim that waits does not notice that a stream registers its host anew": [
        (Streams, "connect", "self._handing.look_at(now, host)", "pass"),
    ],
    "a dead host is handed tasks while its stream may still be silent": [
        (Handing, "is_silent", "self._life.liveness.is_dead(now, host)", "False"),
    ],
    "what waits for one project is handed those of all after a look": [
        (Handing, "_fit", ".narrowed(offer.project)", ""),
    ],
    "a host stays among those with whom it waited before it registered anew": [
        (Crew, "front", "offer.crew is self and ", ""),
    ],
    "a claim that waits forgets which project it asked for": [
        (Offers, "open", "patience, project, self._turns", "patience, None, self._turns"),
    ],
    "the tab executor that waits does not notice who comes and goes": [
        (Handing, "_look_at_built_in", "self._fit(now, offer)", "pass"),
    ],
    "a dead host keeps its leases": [
        (Liveness, "orphan", "self._life.lose(", "(lambda *_: None)("),
    ],
    "a host is looked at once, and never again": [
        (Liveness, "_look_at", "self.listen_for(host)", "self.forget(host)"),
    ],
    "lowered time-outs hold for silences that begin later": [
        (Scheduler, "reconfigure", "self._life.liveness.listen_for(host)", "pass"),
    ],
    "reconciliation passes dead hosts by": [
        (Scheduler, "reconcile", "self._life.liveness.orphan(now, host)", "pass"),
    ],
    "a stream is told to stop what it reported itself": [
        (Lifecycle, "_end_lease", "stop is not None and lease.stream is not None", "lease.stream is not None"),
    ],
    "a stream is not told what was cancelled": [
        (Scheduler, "cancel", "None, None, StopReason.CANCELLED", "None, None"),
    ],
    "a requeued task does not show why": [
        (Lifecycle, "_requeue", "self._move(now, task, QUEUED, why)", "self._move(now, task, QUEUED, None)"),
    ],
    "an event shows the state before as the state after": [
        (Lifecycle, "_tell", "Event(now, task, CHANGED, before)", "Event(now, task, CHANGED, task.state)"),
    ],
    "two tasks of a target run at once": [
        (Targets, "take", "target.running = task", "pass"),
    ],
    "a blocked target goes on": [
        (Targets, "block", "target.blockers[task] = None", "pass"),
    ],
    "the youngest task of a target goes first": [
        (Targets, "enter", "heappush(target.heap, (task.seq, task))", "heappush(target.heap, (-task.seq, task))"),
    ],
    "a task that waits for its next attempt loses its place": [
        (Lifecycle, "_retry_or_fail", "self.targets.enter(now, task)", "self.targets.park(now, task)"),
    ],
    "a target is free while a host may still work": [
        (Lifecycle, "_end_lease", "self.targets.stop(lease)", "pass"),
    ],
    "the word of a host that it stopped is not heard": [
        (Reports, "stopped", "self._life.has_stopped(now, lease)", "pass"),
    ],
    "a host that comes back and knows nothing of a task may still run it": [
        (Streams, "_adopt", "life.has_stopped(now, lease)", "pass"),
    ],
    "a task that blocks its target is forgotten with time": [
        (Lifecycle, "finish", "if not blocks:", "if True:"),
    ],
    "a task that never started blocks its target": [
        (Lifecycle, "finish", " and task.started_at is not None", ""),
    ],
    "a task that blocks its target and expires shows no deadline": [
        (Targets, "block", "if target.head is task", "if False"),
    ],
    "a default deadline counts while an older task of the target goes first": [
        (Lifecycle, "_withdraw", "not task.deliveries", "False"),
    ],
    "a resumed task has used up deliveries": [
        (Lifecycle, "resume", "task.deliveries = 0", "pass"),
    ],
    "a resumed task keeps its first deadline": [
        (Lifecycle, "resume", "else now + task.deadline_secs", "else task.created_at + task.deadline_secs"),
    ],
    "a paused task may expire": [
        (Lifecycle, "pause", "self._forget_deadline(task)", "pass"),
    ],
    "a failure that is taken back still counts": [
        (Lifecycle, "_leave_the_end", "self.counters.reopened += 1", "pass"),
    ],
    "an attempt follows too soon": [
        (Lifecycle, "_retry_or_fail", "now + policy.delay_secs(", "now + 0.4 * policy.delay_secs("),
    ],
    "an attempt follows after the deadline": [
        (Lifecycle, "_retry_or_fail", "due >= task.deadline", "False"),
    ],
    "a held task goes when it is due": [
        (Lifecycle, "accept", " and not options.hold", ""),
    ],
    "a task within its budget fails": [
        (Lifecycle, "is_over_budget", "> limit", ">= limit"),
    ],
    "an attempt has used what the one before it used": [
        (Lifecycle, "grant", "task.history.tokens_used or 0", "0"),
    ],
    "a drain ends and nothing is paused": [
        (Liveness, "_end_drain", "self._life.pause(now, lease.task)", "pass"),
    ],
}


def mutate(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, words: str, instead: str) -> None:
    """Replace one method by itself with other words in it."""
    function: Callable[..., object] = getattr(owner, name)
    source = dedent(inspect.getsource(function))
    assert source.count(words) == 1, f"{owner.__name__}.{name} has no {words!r} any more"
    code = compile(source.replace(words, instead), f"<mutated {name}>", "exec", annotations.compiler_flag)
    namespace: dict[str, object] = {}
    exec(code, function.__globals__, namespace)
    monkeypatch.setattr(owner, name, namespace[name])


def run() -> int:
    """A few short histories; how many steps that were."""
    steps = 0
    for seed in SEEDS:
        simulation = Simulation(seed, recount_every=NEVER)
        try:
            simulation.run(STEPS)
        except Mismatch as mismatch:
            mismatch.add_note(f"caught after {steps + simulation.steps} steps")
            raise
        steps += simulation.steps
    return steps


@pytest.mark.parametrize("breach", MUTATIONS)
def test_a_broken_rule_is_caught(monkeypatch, breach):
    for edit in MUTATIONS[breach]:
        mutate(monkeypatch, *edit)
    with pytest.raises(Mismatch) as caught:
        run()
    print(caught.value.__notes__[0], caught.value.why)


def test_the_same_histories_pass_with_no_rule_broken(monkeypatch):
    rewritten = {(owner, name): words for edits in MUTATIONS.values() for owner, name, words, _ in edits}
    for (owner, name), words in rewritten.items():
        mutate(monkeypatch, owner, name, words, words)
    assert run() == len(SEEDS) * STEPS


def test_a_breach_is_reported_with_seed_step_and_the_last_commands(monkeypatch):
    first, second = (Simulation(1000, recount_every=NEVER) for _ in range(2))
    first.run(100)
    second.run(100)
    mutate(monkeypatch, *MUTATIONS["a report needs no valid token"][0])
    with pytest.raises(Mismatch) as caught:
        first.run(5000)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"seed 1000, step {first.steps}: {caught.value.why}"
    assert lines[1] == "last commands:"
    assert lines[21].startswith(f"  {first.steps} at ")
    assert lines[22:] == [f"to see it again: SEED=1000 STEPS={first.steps} pytest tests/simulation/test_simulation.py"]
    with pytest.raises(Mismatch) as again:
        second.run(5000)
    assert str(again.value) == str(caught.value)
