"""The figures of one namespace at one moment, read from its `Lifecycle`."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Final

from taskyard_server.core.stats import Stats, agent_stats

if TYPE_CHECKING:
    from taskyard_server.core.lifecycle import Lifecycle
    from taskyard_server.core.stats import Noticed, Totals

MAX_KEY_WAITS: Final = 100
"""The keys of which the stats say how many tasks wait there."""


def stats_of(life: Lifecycle, limited_by: str | None, noticed: Noticed, operations: int) -> Stats:
    """The figures of this moment; `limited_by` and `operations` as in `Stats`."""
    return Stats(
        queued=life.queued,
        inflight=life.inflight,
        paused=life.paused,
        after_others=len(life.predecessors),
        operations=operations,
        limited_by=limited_by,
        noticed=noticed,
        key_waits=life.ready.keys.waits(life.ready.keys.now, MAX_KEY_WAITS),
        counters=replace(life.counters),
        limits=life.limits,
        agents={name: agent_stats(figures, life.agents.by_id.get(name)) for name, figures in life.agents.figures},
    )


def add_to_totals(totals: Totals, life: Lifecycle, noticed: Noticed) -> None:
    """Add the figures of a namespace to `totals`."""
    totals.queued += life.queued
    totals.inflight += life.inflight
    totals.paused += life.paused
    totals.blocked_targets += life.targets.blocked
    totals.noticed += noticed.waiting
    totals.after_others += len(life.predecessors)
    totals.retained += len(life.retention)
    totals.namespaces += 1
    totals.counters.add(life.counters)


def queued_since(life: Lifecycle) -> float | None:
    """Since when the task is queued that has waited longest for nothing but a host and its turn; None if none does.

    Found by lanes, never by tasks: of each priority the first one is looked at.
    """
    since = inf
    for bucket in life.ready:
        for rows in bucket.rows():
            since = min(since, rows.queued_since())
    return None if since == inf else since
