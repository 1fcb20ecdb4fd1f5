"""The scheduler's figures: the counters that it keeps, and the snapshot that it hands out.

Counters follow docs/rules.md, Figures: submitted = completed + failed + cancelled +
live, always; `expired` and `evicted` tasks are counted elsewhere too.
"""

from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple, Self

from .agents import Agent, AgentFigures
from .limits import Limits
from .queue.keys import KeyWaits


class Noticed(NamedTuple):
    """How many queued tasks no live host may run, how many there are of each notice, and how many are in a deadlock."""

    waiting: int
    notices: dict[str, int]
    deadlocked: int = 0


NOTHING_NOTICED: Final = Noticed(0, {})
_new_tuple: Final[Any] = tuple.__new__
"""There may be ten thousand agents, and the constructor of a named tuple is Python."""


class _Addable:
    """Counts that can be summed over namespaces, name by name."""

    def add(self, other: Self) -> None:
        """Add another scheduler's counts to these."""
        for each in fields(self):  # type: ignore[arg-type]
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


@dataclass(slots=True)
class TriggerCounters(_Addable):
    """Counts of triggers since the start: those that fired, how they ended, and how often one was deferred."""

    fired: int = 0
    completed: int = 0
    failed: int = 0
    skipped: int = 0
    deferred: int = 0


class Counts:
    """How many tasks are pending or queued, how many are assigned or running, paused, parked."""

    __slots__ = ("inflight", "parked", "paused", "queued")

    def __init__(self) -> None:
        self.queued = 0
        self.inflight = 0
        self.paused = 0
        self.parked = 0


@dataclass(slots=True)
class Counters(_Addable):
    """Counts of tasks since the start, and the sum behind the average dispatch latency."""

    submitted: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    rejected: int = 0
    expired: int = 0
    dispatched: int = 0
    dispatch_latency_secs: float = 0.0
    late_reports: int = 0
    evicted: int = 0
    reopened: int = 0
    expired_reopened: int = 0
    retried: int = 0
    leases_expired: int = 0


@dataclass(slots=True)
class Totals:
    """The figures of all namespaces together."""

    queued: int = 0
    inflight: int = 0
    paused: int = 0
    parked: int = 0
    blocked_targets: int = 0
    after_others: int = 0
    retained: int = 0
    operations: int = 0
    events: int = 0
    noticed: int = 0
    deadlocked: int = 0
    namespaces: int = 0
    schedules: int = 0
    triggers_pending: int = 0
    triggers_executing: int = 0
    triggers: TriggerCounters = field(default_factory=TriggerCounters)
    counters: Counters = field(default_factory=Counters)


class AgentStats(NamedTuple):
    """One agent's share: tasks waiting and in flight now, and its counters."""

    queued: int
    inflight: int
    submitted: int
    completed: int
    failed: int
    cancelled: int
    rejected: int
    tokens_used: int


def agent_stats(figures: AgentFigures, agent: Agent | None) -> AgentStats:
    """The figures of an agent at this moment; `agent` is None for one that has no task."""
    queued, inflight = (0, 0) if agent is None else (agent.queued, agent.inflight)
    counts = (figures.submitted, figures.completed, figures.failed, figures.cancelled, figures.rejected)
    made: AgentStats = _new_tuple(AgentStats, (queued, inflight, *counts, figures.tokens_used))
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """The figures of one moment.

    `after_others` are tasks that wait for others to end, `operations` those at work, `key_waits` tasks that wait for
    concurrency keys. `limited_by` names the configuration key that tasks wait for while hosts are free.
    """

    queued: int
    inflight: int
    paused: int
    parked: int
    after_others: int
    operations: int
    limited_by: str | None
    noticed: Noticed
    key_waits: KeyWaits
    counters: Counters
    limits: Limits
    agents: dict[str, AgentStats]

    @property
    def avg_dispatch_latency_ms(self) -> float:
        """Milliseconds from queue entry to hand-out, averaged over all hand-outs; 0 before the first."""
        dispatched = self.counters.dispatched
        return self.counters.dispatch_latency_secs / dispatched * 1000 if dispatched else 0.0
