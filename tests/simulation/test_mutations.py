"""The simulation finds what it is for: rules of the core are broken one by one, and each breach is caught.

A mutation replaces a few words in the source of core functions, for the length of a test. The indexes are not recounted
here: what the core answers must betray it. If the core is rewritten so that the words are gone, the test says so; put
the same breach into the new words.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from textwrap import dedent
from types import ModuleType

import pytest

from taskyard_server.core.admission import Admission
from taskyard_server.core.attempts import Attempts
from taskyard_server.core.dispatcher import Dispatcher
from taskyard_server.core.grants import Grants
from taskyard_server.core.history import History
from taskyard_server.core.lifecycle import Lifecycle
from taskyard_server.core.liveness import Liveness
from taskyard_server.core.offers import OfferGroup, Offers
from taskyard_server.core.past_keys import PastKeys
from taskyard_server.core.pending import Pending
from taskyard_server.core.queue.lane import Lane
from taskyard_server.core.queue.ready_queue import ReadyQueue
from taskyard_server.core.reports import Reports
from taskyard_server.core.retention import RetainedTasks, Retention
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.streams import Streams
from taskyard_server.core.targets import Targets
from taskyard_server.core.task import Task
from taskyard_server.core.timers import Timers

from .breach_histories import NEVER, Histories
from .simulator import Mismatch, Simulation

# They rewrite the core.
pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

STEPS = 500
FIRST = (1037, 1069, 1056, 1034, 1052, 1066, 1198, 1021, 1018, 1019, 1095, 1017, 1097, 1180)
SEEDS = [*FIRST, 1030, 1058, 1020, 1047, 1043, 1013, *range(1000, 1010)]
"""A breach must be seen within 12,000 steps. The first histories show what others seldom do."""
HISTORIES = Histories(Simulation, SEEDS, STEPS)

Edit = tuple[type | ModuleType, str, str, str]
"""The class or module, its function, the words there, and what stands there instead."""

MUTATIONS: dict[str, list[Edit]] = {
    "the fair order ignores what is in flight": [
        (ReadyQueue, "take", "agent.inflight * ONE_IN_FLIGHT + SERVED", "SERVED"),
        (ReadyQueue, "release_slot", "agent.rank - ONE_IN_FLIGHT", "agent.rank"),
    ],
    "an agent whose task lands does not move ahead at once": [
        (ReadyQueue, "_move_ahead", "if rank < lane.entry", "if False"),
    ],
    "a report needs no valid token": [
        (Reports, "_lease_of", " or lease.token != token", ""),
    ],
    "fencing tokens grow by task only": [
        (Grants, "grant", "self.last_token + 1", "task.token + 1"),
    ],
    "a repeated claim leases anew": [
        (Dispatcher, "claim", "claim_id in host.claimed", "False"),
    ],
    "a repeated claim is answered with what has ended": [
        (Grants, "end", "lease.claim_id is not None", "False"),
    ],
    "a claim that is repeated waits twice": [
        (Dispatcher, "offer", "claim_id in host.waiting", "False"),
    ],
    "a lease may expire more than max_deliveries times": [
        (Grants, "_fail_attempt", "task.deliveries < life.limits.max_deliveries", "True"),
    ],
    "a task that is handed out still counts as queued by its agent": [
        (Grants, "grant", "task.agent.queued -= 1", "pass"),
    ],
    "the latest priority goes first": [
        (Lane, "_row", "rows.insert(at, Row(priority))", "rows.append(Row(priority))"),
    ],
    "a task that comes back goes last": [
        (Lane, "add", "row.last < seq", "True"),
    ],
    "a task that left its lane is handed out": [
        (Lane, "remove", "self._compact()", "pass"),
    ],
    "a key is forgotten with its task": [
        (Retention, "_forget_key", "life.past_keys.add(past)", "pass"),
    ],
    "a key is known for ever": [
        (PastKeys, "_forget", "del self._by_name[past.name]", "pass"),
    ],
    "a key of the past stands for any task": [
        (PastKeys, "find", "IdempotencyKey(key, past.fingerprint)", "None"),
    ],
    "a batch is refused for what repeats a task of the past": [
        (Admission, "_first_under", "or self._life.past_keys.find(name)", ""),
    ],
    "a task that comes back and ends again is forgotten by its first end": [
        (RetainedTasks, "remove", "self._stale.get(task, 0) + 1", "0"),
    ],
    "an agent that was never served goes last": [
        (ReadyQueue, "new_agent", "(agent_id, self._arrived)", "(agent_id, SERVED + self._arrived)"),
    ],
    "an agent gets one more than its limit": [
        (ReadyQueue, "first", "best.agent.inflight >= max_per_agent", "best.agent.inflight > max_per_agent"),
    ],
    "a lease that ends with the deadline goes before it": [
        (Timers, "queue", "key=_order", "key=lambda entry: -entry[0]"),
    ],
    "a task is handed out in the instant of its deadline": [
        (Task, "is_overdue", "self.due_at <= now", "self.due_at < now"),
    ],
    "a released task counts as delivered": [
        (Grants, "release", "task.deliveries -= 1", "pass"),
    ],
    "a task that a stream never started counts as delivered": [
        (Grants, "lose", "task.deliveries -= 1", "pass"),
    ],
    "a task that a stream never started stays with it until its lease ends": [
        (Grants, "grant", "lease.start_by = now + life.limits.start_timeout_secs", "pass"),
    ],
    "a task that was started in time must be started again": [
        (Grants, "begin", "lease.start_by = inf", "pass"),
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
        (Streams, "disconnect", "if host.stream is offer", "if True"),
    ],
    "another instance supersedes a stream that lives": [
        (
            Streams,
            "_supersede",
            "host.instance != hello.instance and not self._life.liveness.is_silent(now, stream)",
            "False",
        ),
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
    "dispatch uses no credit": [
        (Offers, "record_grant", "offer.room -= 1", "pass"),
    ],
    "dispatch ignores how loaded hosts are": [
        (OfferGroup, "enter", "(len(host.leases) / slots, offer.last_grant)", "(0.0, offer.last_grant)"),
    ],
    "dispatch counts leases, not shares of slots": [
        (OfferGroup, "enter", "len(host.leases) / slots", "float(len(host.leases))"),
    ],
    "a host that was just handed a task does not go behind its equals": [
        (Offers, "record_grant", "offer.last_grant = self._grants", "pass"),
    ],
    "a claim of a host with a stream leaves the stream's place as it was": [
        (Dispatcher, "claim", "life.offers.load_changed(host)", "pass"),
    ],
    "a freed agent limit wakes nobody": [
        (ReadyQueue, "_move_ahead", "if lane.bucket.groups", "if False"),
    ],
    "a new task wakes nobody": [
        (ReadyQueue, "add", "if bucket.groups", "if False"),
    ],
    "new credit wakes nobody": [
        (Offers, "capacity_changed", "self._awake[group] = None", "pass"),
    ],
    "new limits wake nobody": [
        (Lifecycle, "reconfigure", "self.offers.wake_all()", "pass"),
    ],
    "a new kind of task is not shown to those who wait": [
        (ReadyQueue, "_open", "self._join(group, bucket)", "pass"),
    ],
    "a group that waited for the limit of all is forgotten": [
        (
            Dispatcher,
            "dispatch",
            "life.counts.inflight >= limits.max_inflight:",
            "life.counts.inflight >= limits.max_inflight and not awake.clear():",
        ),
    ],
    "a silent stream is handed tasks": [
        (Dispatcher, "dispatch", "life.liveness.is_silent(now, offer)", "False"),
    ],
    "a stream that was silent waits no more though it is heard of": [
        (Liveness, "heard", "not stream.is_waiting", "False"),
    ],
    "a claim that waits shows its host's stream no sign of life": [
        (Dispatcher, "_record_claimant", "self._life.liveness.heard(now, host)", "host.last_heartbeat_at = now"),
    ],
    "a draining host is handed tasks": [
        (Offers, "capacity_changed", "offer.room > 0 and not host.draining", "offer.room > 0"),
    ],
    "a host that rests is handed tasks": [
        (Offers, "capacity_changed", "host.rests_until is None or not offer.streamed", "True"),
    ],
    "a host that registers anew is handed what it could run before": [
        (Dispatcher, "refresh", "self._refresh_offer(now, offer)", "pass"),
    ],
    "a claim that waits does not notice that a stream registers its host anew": [
        (Streams, "connect", "self._dispatcher.refresh(now, host)", "pass"),
    ],
    "what waits for one project is handed those of all after a look": [
        (Dispatcher, "_refresh_offer", ".narrowed(offer.project)", ""),
    ],
    "a host stays among those with whom it waited before it registered anew": [
        (OfferGroup, "front", "offer.group is self and ", ""),
    ],
    "a claim that waits forgets which project it asked for": [
        (Offers, "open", "silence_limit_secs, project, self._grants", "silence_limit_secs, None, self._grants"),
    ],
    "the tab executor that waits does not notice who comes and goes": [
        (Dispatcher, "_refresh_built_in", "self._refresh_offer(now, offer)", "pass"),
    ],
    "a dead host keeps its leases": [
        (Liveness, "orphan", "self._life.grants.lose(", "(lambda *_: None)("),
    ],
    "a host is looked at once, and never again": [
        (Liveness, "_check_silence", "self.arm_silence_timer(host)", "self.disarm_silence_timer(host)"),
    ],
    "lowered time-outs hold for silences that begin later": [
        (Liveness, "timeouts_changed", "self.arm_silence_timer(host)", "pass"),
    ],
    "reconciliation passes dead hosts by": [
        (Liveness, "reconcile", "self.orphan(now, host)", "pass"),
    ],
    "a stream is told to stop what it reported itself": [
        (Grants, "end", "stop is not None and lease.stream is not None", "lease.stream is not None"),
    ],
    "a stream is not told what was cancelled": [
        (Lifecycle, "cancel", "None, None, StopReason.CANCELLED", "None, None"),
    ],
    "a resume keeps the reason of a pause": [(History, "of_next_run", ", reason=None", "")],
    "a command without a reason keeps the one before": [
        (History, "with_reason", "reason ==", "reason is None or reason ==")
    ],
    "children are cancelled without the reason": [
        (Scheduler, "cancel_with_children", "(now, each, reason)", "(now, each, None)")
    ],
    "a host is not told why": [(Lifecycle, "pause", "_with_reason(INTERRUPTED, task)", "INTERRUPTED")],
    "a requeued task has an error": [
        (Grants, "_requeue", "life.transition(task, QUEUED, None)", "life.transition(task, QUEUED, why)"),
    ],
    "a task that waits for its next attempt has an error": [
        (Attempts, "fail", "life.transition(task, PENDING, None)", "life.transition(task, PENDING, error)"),
    ],
    "an event shows the state before as the state after": [
        (Lifecycle, "emit", "Event(now, task, kind, before)", "Event(now, task, kind, task.state)"),
    ],
    "two tasks of a target run at once": [
        (Targets, "take", "target.running = task", "pass"),
    ],
    "a blocked target goes on": [
        (Targets, "_add_blocker", "target.blockers[task.id] = task", "pass"),
    ],
    "the youngest task of a target goes first": [
        (Targets, "enter", "heappush(target.heap, (task.seq, task))", "heappush(target.heap, (-task.seq, task))"),
    ],
    "a task that waits for its next attempt loses its place": [
        (Attempts, "_wait", "life.targets.enter(now, task)", "life.targets.set_aside(now, task)"),
    ],
    "a target is free while a host may still work": [
        (Grants, "end", "life.targets.stop(lease)", "pass"),
    ],
    "the word of a host that it stopped is not heard": [
        (Reports, "stopped", "self._life.grants.has_stopped(now, lease)", "pass"),
    ],
    "a host that comes back and knows nothing of a task may still run it": [
        (Streams, "_adopt", "life.grants.has_stopped(now, lease)", "pass"),
    ],
    "a task that blocks its target is forgotten with time": [
        (Lifecycle, "finish", "if not blocks or self.retention.takes_blockers:", "if True:"),
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
        (Lifecycle, "pause", "task.deadline = None", "pass"),
    ],
    "a failure that is taken back still counts": [
        (Lifecycle, "_reopen", "self.counters.reopened += 1", "pass"),
    ],
    "a held task goes when it is due": [
        (Pending, "add", " and not is_held", ""),
    ],
    "a task within its budget fails": [
        (Attempts, "is_over_budget", "> limit", ">= limit"),
    ],
    "an attempt has used what the one before it used": [
        (Grants, "grant", "history.tokens_used or 0", "0"),
    ],
    "a lease without an acknowledged start keeps its target": [
        (Grants, "end", "may_run and ", ""),
    ],
    "a lease with an acknowledged start frees its target at once": [
        (Grants, "end", "or lease.begun_at != inf", ""),
    ],
    "a lease of a call without a start frees its target at once": [
        (Grants, "end", "lease.stream is None or ", ""),
    ],
    "a failure counts as a start": [
        (
            Reports,
            "fail",
            "self._life.attempts.fail(",
            "task.state is ASSIGNED and self._life.grants.begin(now, task, is_over=True); self._life.attempts.fail(",
        ),
    ],
    "a task over its budget is resumed without a new limit": [
        (Scheduler, "resume", "elif self._life.attempts.is_over_budget(task):", "elif False:"),
    ],
    "a new limit may be one that was reached": [
        (Scheduler, "resume", "token_limit <= used", "False"),
    ],
    "a new limit is forgotten": [
        (Scheduler, "resume", "task.history._replace(token_limit=token_limit)", "task.history"),
    ],
    "tokens of a heartbeat are not counted": [
        (Streams, "beat", "self._life.attempts.report_tokens(now, lease.task, used)", "pass"),
    ],
    "tokens of a heartbeat count under any token of the lease": [
        (Streams, "beat", "lease is not None and lease.token == token", "lease is not None"),
    ],
    "tokens of a heartbeat count before the start": [
        (Attempts, "report_tokens", "task.state is not RUNNING", "False"),
    ],
    "a heartbeat over the budget does not fail the task": [
        (Attempts, "report_tokens", "if over:", "if False:"),
    ],
    "a heartbeat that changes no count has an event": [
        (Attempts, "report_tokens", "task.history.tokens_used != before", "True"),
    ],
    "the host of a task over its budget is not told to stop": [
        (Attempts, "fail_over_budget", ", StopReason.TOKEN_LIMIT_EXCEEDED", ""),
    ],
    "a host whose stream broke is online": [
        (Streams, "disconnect", "host.lost_at = None, now", "host.lost_at = None, None")
    ],
    "a lost host that is heard of stays lost": [(Liveness, "heard", "host.lost_at = None", "pass")],
    "a host with a stream or a waiting claim is forgotten": [
        (Liveness, "_check_vanished", "host.leases or host.offers", "host.leases"),
    ],
    "a host that was heard of is forgotten": [
        (Liveness, "_check_vanished", "now - host.last_heartbeat_at < forget_secs", "False"),
    ],
    "a forgotten host still counts as online": [
        (Liveness, "removed", "self._heard_at = max(", "self._heard_at = self._heard_at or max("),
    ],
    "a stream keeps its silence limit when the time-outs change": [
        (Streams, "timeouts_changed", "if host.stream is not None", "if False"),
    ],
    "a task that expired again and again is reopened but once": [
        (Lifecycle, "_reopen", "self.counters.expired_reopened += task.expired", "pass"),
    ],
    "a failure of any kind is reopened as an expired one": [
        (Lifecycle, "_reopen", "self.counters.expired_reopened += task.expired", "self.counters.expired_reopened += 1"),
    ],
    "a drain ends and nothing is paused": [
        (Liveness, "_end_drain", "self._life.pause(now, lease.task)", "pass"),
    ],
}


def mutate(monkeypatch: pytest.MonkeyPatch, owner: type | ModuleType, name: str, words: str, instead: str) -> None:
    """Replace one method by itself with other words in it."""
    function: Callable[..., object] = getattr(owner, name)
    source = dedent(inspect.getsource(function))
    assert source.count(words) == 1, f"{owner.__name__}.{name} has no {words!r} any more"
    code = compile(source.replace(words, instead), f"<mutated {name}>", "exec", annotations.compiler_flag)
    namespace: dict[str, object] = {}
    exec(code, function.__globals__, namespace)
    monkeypatch.setattr(owner, name, namespace[name])


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
    assert HISTORIES.play() == len(SEEDS) * STEPS


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
