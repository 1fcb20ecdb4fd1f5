"""The figures of one namespace at one moment, read from its scheduler."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Final

from taskyard_server.core.stats import Stats, agent_stats

if TYPE_CHECKING:
    from taskyard_server.core.scheduler import Scheduler
    from taskyard_server.core.stats import Totals

MAX_KEY_WAITS: Final = 100
"""The keys of which the stats say how many tasks wait there."""


def stats_of(scheduler: Scheduler) -> Stats:
    """The figures of this moment (docs/rules.md, Figures)."""
    life = scheduler.life
    return Stats(
        queued=life.counts.queued,
        inflight=life.counts.inflight,
        paused=life.counts.paused,
        parked=life.counts.parked,
        after_others=len(life.predecessors),
        operations=scheduler.operations.live,
        limited_by=scheduler.limited_by,
        noticed=scheduler.dispatcher.notices.noticed(life.agents),
        key_waits=life.ready.keys.waits(life.ready.keys.now, MAX_KEY_WAITS),
        counters=replace(life.counters),
        limits=life.limits,
        agents={name: agent_stats(figures, life.agents.by_id.get(name)) for name, figures in life.agents.figures},
    )


def add_to_totals(totals: Totals, scheduler: Scheduler) -> None:
    """Add the figures of a namespace to `totals`."""
    life = scheduler.life
    totals.queued += life.counts.queued
    totals.inflight += life.counts.inflight
    totals.paused += life.counts.paused
    totals.parked += life.counts.parked
    totals.blocked_targets += life.targets.blocked
    noticed = scheduler.dispatcher.notices.noticed(life.agents)
    totals.noticed += noticed.waiting
    totals.deadlocked += noticed.deadlocked
    totals.after_others += len(life.predecessors)
    totals.retained += len(life.retention)
    totals.namespaces += 1
    totals.counters.add(life.counters)
    totals.operations += scheduler.operations.live
    totals.events += len(scheduler.parks.events)
    scheduler.schedules.add_to(totals)


def queued_since(scheduler: Scheduler) -> float | None:
    """Since when the task is queued that has waited longest for nothing but a host and its hand-out; None if none does.

    Found by lanes, never by tasks: of each priority the first one is looked at.
    """
    since = inf
    for bucket in scheduler.life.ready:
        for rows in bucket.rows():
            since = min(since, rows.queued_since())
    return None if since == inf else since
