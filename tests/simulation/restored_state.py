"""What was loaded from a store against what was there; and the watchers of a history, as of what was loaded."""

from __future__ import annotations

from dataclasses import fields
from math import isclose
from typing import Any

from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.stats import Counters
from taskyard_server.core.task import TASK_FIELDS, Task
from tests.core.records import names

from .counter_watch import Watch
from .indexes import ENDED, FLYING, in_line, same
from .ledger import Ledger
from .target_indexes import has_failed_and_blocks
from .target_ledger import TargetLedger

OF_A_TASK = tuple(name for name in TASK_FIELDS if name not in ("agent", "lease", "lane", "due_at"))


def same_state(was: Scheduler, loaded: Scheduler, now: float) -> None:
    """Raise AssertionError, naming the field, if anything that is kept differs. `now` is when it was loaded."""
    tasks = [task for task in was.tasks_after(0) if task.state != "rejected"]
    found = list(loaded.tasks_after(0))
    same("tasks", [task.id for task in found], [task.id for task in tasks])
    absent = {lease.task.id for lease in loaded.left_behind}
    for one, other in zip(found, tasks, strict=True):
        _same_task(one, other, now, one.id in absent)
    _same_agents(loaded, was)
    _same_targets(loaded, was)
    one, other = loaded._life, was._life
    for name in ("queued", "inflight", "paused", "parked"):
        same(name, getattr(one.counts, name), getattr(other.counts, name))
    same("last token", one.grants.last_token, other.grants.last_token)
    same("triggered in flight", one.triggered.inflight, other.triggered.inflight)
    same("stood still", one.deadlines.stood_still_secs, other.deadlines.stood_still_secs)
    for each in fields(Counters):
        same(each.name, getattr(one.counters, each.name), getattr(other.counters, each.name))
    same("last order", one.tasks.last_seq, other.tasks.last_seq)
    same("last host", loaded.hosts.last_number, was.hosts.last_number)
    same("served", (one.ready._served, one.ready._triggered_held), (other.ready._served, other.ready._triggered_held))
    same(
        "followers",
        *[
            {task.id: [each.id for each in its] for task, its in each.predecessors._waiting.items()}
            for each in (one, other)
        ],
    )
    same(
        "what times parked tasks have",
        *[
            {tick: sorted(task.id for task in its) for tick, its in each.parks._timers._due.items()}
            for each in (one, other)
        ],
    )
    same("events", *[_events(each) for each in (one, other)])
    same(
        "unique keys",
        *[
            {key: sorted(task.id for task in its) for key, its in each.unique_keys._live.items()}
            for each in (one, other)
        ],
    )
    keys = {key: task.id for key, task in other.tasks.by_key.items()}
    same("keys", {key: task.id for key, task in one.tasks.by_key.items()}, keys)
    ends = [(task.completed_at, task.id) for task in (*in_line(other.retention.ended), *other.retention.aside)]
    same("ended", [(task.completed_at, task.id) for task in in_line(one.retention.ended)], sorted(ends))
    batches = {batch.id: _batch(batch) for batch in other.tasks.batches._batches.values() if _batch(batch)[2]}
    same("batches", {batch.id: _batch(batch) for batch in one.tasks.batches._batches.values()}, batches)
    hosts = [(host.id, host.number, host.registered_at, host.kept()) for host in was.hosts if not host.built_in]
    same("hosts", [(host.id, host.number, host.registered_at, host.kept()) for host in loaded.hosts], hosts)


def _same_task(one: Task, other: Task, now: float, is_absent: bool) -> None:
    for name in OF_A_TASK:
        same(f"{name} of {one.id}", getattr(one, name), getattr(other, name))
    if one.deadline is None or other.deadline is None:
        same(f"deadline of {one.id}", one.deadline, other.deadline)
    else:
        same(f"deadline of {one.id}", isclose(one.deadline, other.deadline, abs_tol=1e-4, rel_tol=0), True)
    same(f"place of {one.id}", one.lane is not None, other.lane is not None)
    lease, its = one.lease, other.lease
    if lease is None or its is None:
        same(f"lease of {one.id}", lease, its)
        return
    found = (lease.host.id, lease.token, lease.secs, lease.claimed_at, lease.started_at, lease.stream is not None)
    same(f"claim id of the lease of {one.id}", lease.claim_id, its.claim_id)
    same(
        f"lease of {one.id}",
        found,
        (its.host.id, its.token, its.secs, its.claimed_at, its.started_at, its.stream is not None),
    )
    same(f"end of the lease of {one.id}", lease.expires_at, now + its.secs)
    same(f"whether the host of {one.id} is gone", is_absent, its.host.built_in)


def _same_agents(loaded: Scheduler, was: Scheduler) -> None:
    """Tie-breaks and figures; an agent of which rejected tasks alone are left comes anew."""
    owners = {task.agent.id for task in was.tasks_after(0) if task.state != "rejected"}
    agents = {name: agent for name, agent in was._life.agents.by_id.items() if name in owners}
    tie_breaks = {name: was._life.ready.tie_break_of(agent) for name, agent in agents.items()}
    found = {name: loaded._life.ready.tie_break_of(agent) for name, agent in loaded._life.agents.by_id.items()}
    same("tie-breaks of agents", found, tie_breaks)
    expected = {name: _figures(each) for name, each in was._life.agents.figures}
    same("figures", {name: _figures(each) for name, each in loaded._life.agents.figures}, expected)
    same("last figures", loaded._life.agents.figures.last_number, was._life.agents.figures.last_number)


def _same_targets(loaded: Scheduler, was: Scheduler) -> None:
    same("targets", sorted(loaded.targets._targets), sorted(was.targets._targets))
    for name, target in was.targets._targets.items():
        other = loaded.targets._targets.get(name)
        assert other is not None, f"target {name} is gone"
        same(f"blockers of {name}", sorted(other.blockers), sorted(target.blockers))
        for kind in ("waiting", "aside"):
            ids = sorted(task.id for task in getattr(target, kind))
            same(f"{kind} of {name}", sorted(task.id for task in getattr(other, kind)), ids)
        same(f"running of {name}", other.running and other.running.id, target.running and target.running.id)
        same(f"head of {name}", other.head and other.head.id, target.head and target.head.id)
        leases = [(lease.task.id, lease.token, lease.secs, lease.host.id) for lease in target.stopping]
        found = [(lease.task.id, lease.token, lease.secs, lease.host.id) for lease in other.stopping]
        same(f"stopping of {name}", found, leases)
        streamed = [lease.stream is not None for lease in target.stopping]
        same(f"streams of the stopping of {name}", [lease.stream is not None for lease in other.stopping], streamed)
        same(f"how {name} stands", other.standing[0], target.standing[0])
        if target.standing[0] in ("running", "blocked") and len(target.blockers) < 2:
            same(f"what {name} stands for", other.standing[1] and other.standing[1].id, target.standing[1].id)


def _events(life: Any) -> tuple[object, ...]:
    """What is kept of events, and who waits for which."""
    events = life.parks.events
    kept = [(each.number, *each.key, each.payload, each.at, each.until, each.by, each.waited) for each in events.all()]
    due = {event.number: [task.id for task in event.due] for event in events._due}
    waiting = {name: {task.id for task in its} for name, its in events._waiting.items()}
    return (events.last_number, sorted(kept), due, waiting)


def _figures(figures: Any) -> tuple[object, ...]:
    return tuple(getattr(figures, name) for name in sorted(names(type(figures))) if not name.startswith("_"))


def _batch(batch: Any) -> tuple[object, ...]:
    return (batch.agent_id, batch.created_at, [task.id for task in batch.tasks.values() if task.state != "rejected"])


def prime_watch(core: Scheduler) -> Watch:
    """A watch that has seen what led to this."""
    watch, counters = Watch(), core._life.counters
    for task in core.tasks_after(0):
        watch._states[task.id] = str(task.state)
        watch._queued_at[task.id] = task.queued_at
        watch._failed[task.id] = task.history.failed
        if task.state in ENDED:
            watch._over.add(task.id)
    for name in ("submitted", "failed", "cancelled", "rejected", "expired", "dispatched", "reopened", "retried"):
        watch._counts[name] = getattr(counters, name)
    watch._counts["done"] = counters.completed
    watch._latency = counters.dispatch_latency_secs
    return watch


def prime_ledger(core: Scheduler) -> Ledger:
    """A ledger of the leases that were loaded."""
    ledger = Ledger()
    ledger._last_token = core.view.last_token
    for task in core.tasks_after(0):
        if task.lease is not None:
            ledger._live[task.id, task.lease.token] = task.lease.stream is not None
    return ledger


def prime_targets(core: Scheduler) -> TargetLedger:
    """A ledger of the targets that were loaded."""
    ledger = TargetLedger()
    ledger.given([task.lease for task in core.tasks_after(0) if task.lease is not None])
    for task in core.tasks_after(0):
        name = task.options.target
        if name is None:
            continue
        if task.keeps_target:
            ledger._keepers[name] = task.id
        if task.state in FLYING:
            ledger._flying[name] = task.id
        elif task.state == "queued" or (task.state == "pending" and task.token):
            ledger._waiting.setdefault(name, {})[task.id] = task.seq
        elif task.state == "paused" or has_failed_and_blocks(task):
            ledger._blockers.setdefault(name, set()).add(task.id)
    for target in core.targets._targets.values():
        for lease in target.stopping:
            ledger._stopping.setdefault(target.name, {})[lease.task.id, lease.token] = lease
    return ledger
