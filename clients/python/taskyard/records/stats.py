"""The figures of the scheduler as plain Python (docs/rules.md, Figures)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from taskyard.renamed import old_milliseconds
from taskyard.v1 import stats_pb2 as pb


@dataclass(frozen=True, slots=True)
class QueueStats:
    """Tasks that wait and tasks that run.

    Attributes:
        total_queued: Tasks that count as queued: queued, pending, and waiting for a target or a retry.
        total_inflight: Tasks that are assigned or running.
        total_paused: Paused tasks.
        agent_counts: Tasks that count as queued, by agent.
        limited_by: The configuration key that holds tasks back while hosts have free credit, None if none does.
        waiting_for_target: Tasks that wait only for their target.
        targets: What each target waits for, a text for people; at most 100 targets.
        waiting_for_keys: Tasks that wait for a place or a token of a concurrency key.
        keys: How many tasks wait at each key; at most 100 keys, those where most wait.
        without_host: Queued tasks that no live host could run.
        notices: How many of those there are by `Task.notice`; at most 100 notices, those of most tasks.
        after_others: Tasks that wait for others to end.
        operations: Operations on many tasks that are at work.
        total_parked: Parked tasks.
    """

    total_queued: int
    total_inflight: int
    total_paused: int
    agent_counts: dict[str, int]
    limited_by: str | None = None
    waiting_for_target: int = 0
    targets: dict[str, str] = field(default_factory=dict)
    waiting_for_keys: int = 0
    keys: dict[str, int] = field(default_factory=dict)
    without_host: int = 0
    notices: dict[str, int] = field(default_factory=dict)
    after_others: int = 0
    operations: int = 0
    total_parked: int = 0


@dataclass(frozen=True, slots=True)
class AgentMetrics:
    """The counters of one agent.

    Attributes:
        submitted: Tasks accepted.
        completed: Tasks that ended as done.
        failed: Tasks that ended with an error.
        cancelled: Tasks ended by cancel calls.
        rejected: Tasks refused at admission.
        tokens_used: Tokens that its tasks have used, as hosts reported.
    """

    submitted: int
    completed: int
    failed: int
    cancelled: int
    rejected: int
    tokens_used: int


@dataclass(frozen=True, slots=True)
class SchedulerMetrics:
    """Counters since the start of the server.

    Attributes:
        tasks_submitted: Tasks accepted.
        tasks_completed: Tasks that ended as done.
        tasks_failed: Tasks that ended with an error, expired ones included.
        tasks_cancelled: Tasks ended by cancel calls.
        tasks_rejected: Tasks refused at admission.
        tasks_expired: Tasks whose deadline passed.
        dispatch_count: How often a task was assigned to a host.
        avg_dispatch_latency: Average time in the queue before an assignment.
        agents: The counters of each agent.
        tasks_evicted: Ended tasks dropped early because too many were retained.
        late_reports: Reports refused because their lease had ended.
        leases_expired: Leases that ended by their time, with their host, or after a break.
        tasks_retried: Attempts that failed and were repeated.
        webhooks_delivered: Webhooks delivered.
        webhooks_failed: Webhooks given up after their last try.
    """

    tasks_submitted: int
    tasks_completed: int
    tasks_failed: int
    tasks_cancelled: int
    tasks_rejected: int
    tasks_expired: int
    dispatch_count: int
    avg_dispatch_latency: timedelta
    agents: dict[str, AgentMetrics]
    tasks_evicted: int
    late_reports: int
    leases_expired: int
    tasks_retried: int
    webhooks_delivered: int
    webhooks_failed: int

    avg_dispatch_latency_ms = old_milliseconds(
        "SchedulerMetrics.avg_dispatch_latency_ms", "avg_dispatch_latency", False
    )


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """The settings in force that the stats show.

    Attributes:
        strategy: How tasks are chosen.
        max_queue_size: The most queued tasks.
        max_per_agent: The most queued tasks of an agent.
        max_inflight: The most tasks in flight.
        max_per_agent_flight: The most tasks in flight of an agent.
        worker_count: The slots of the tab executor.
        result_ttl: How long ended tasks are retained, as Go prints a duration: `5m0s`.
    """

    strategy: str
    max_queue_size: int
    max_per_agent: int
    max_inflight: int
    max_per_agent_flight: int
    worker_count: int
    result_ttl: str


@dataclass(frozen=True, slots=True)
class HostStats:
    """The registered hosts.

    Attributes:
        registered: Hosts that are registered.
        online: Hosts that are online.
        free_credit: How many tasks the connected hosts could be assigned at once.
    """

    registered: int
    online: int
    free_credit: int


@dataclass(frozen=True, slots=True)
class Stats:
    """The figures of the client's namespace at one moment.

    Attributes:
        queue: What waits and what runs.
        metrics: Counters since the start of the server.
        config: The settings in force.
        hosts: The hosts, None while none is registered.
    """

    queue: QueueStats
    metrics: SchedulerMetrics
    config: SchedulerConfig
    hosts: HostStats | None = None

    @classmethod
    def from_message(cls, message: pb.GetStatsResponse) -> Stats:
        """Convert a message. Its counts are doubles, so that they are numbers in JSON.

        Args:
            message: The figures as the server sends them.

        Returns:
            The figures.
        """
        return cls(
            _queue(message.queue),
            _metrics(message.metrics),
            _config(message.config),
            _hosts(message.hosts) if message.HasField("hosts") else None,
        )


def _queue(queue: pb.QueueStats) -> QueueStats:
    return QueueStats(
        total_queued=int(queue.total_queued),
        total_inflight=int(queue.total_inflight),
        total_paused=int(queue.total_paused),
        agent_counts={agent: int(count) for agent, count in queue.agent_counts.items()},
        limited_by=queue.limited_by or None,
        waiting_for_target=int(queue.targets.waiting),
        targets=dict(queue.targets.waits_for),
        waiting_for_keys=int(queue.keys.waiting),
        keys={key: int(count) for key, count in queue.keys.keys.items()},
        without_host=int(queue.noticed.waiting),
        notices={notice: int(count) for notice, count in queue.noticed.notices.items()},
        after_others=int(queue.after_others),
        operations=int(queue.operations),
        total_parked=int(queue.total_parked),
    )


def _metrics(metrics: pb.SchedulerMetrics) -> SchedulerMetrics:
    return SchedulerMetrics(
        tasks_submitted=int(metrics.tasks_submitted),
        tasks_completed=int(metrics.tasks_completed),
        tasks_failed=int(metrics.tasks_failed),
        tasks_cancelled=int(metrics.tasks_cancelled),
        tasks_rejected=int(metrics.tasks_rejected),
        tasks_expired=int(metrics.tasks_expired),
        dispatch_count=int(metrics.dispatch_count),
        avg_dispatch_latency=timedelta(milliseconds=metrics.avg_dispatch_latency_ms),
        agents={name: _agent(agent) for name, agent in metrics.agents.items()},
        tasks_evicted=int(metrics.tasks_evicted),
        late_reports=int(metrics.late_reports),
        leases_expired=int(metrics.leases_expired),
        tasks_retried=int(metrics.tasks_retried),
        webhooks_delivered=int(metrics.webhooks_delivered),
        webhooks_failed=int(metrics.webhooks_failed),
    )


def _agent(agent: pb.AgentMetrics) -> AgentMetrics:
    return AgentMetrics(
        submitted=int(agent.submitted),
        completed=int(agent.completed),
        failed=int(agent.failed),
        cancelled=int(agent.cancelled),
        rejected=int(agent.rejected),
        tokens_used=int(agent.tokens_used),
    )


def _config(config: pb.SchedulerConfig) -> SchedulerConfig:
    return SchedulerConfig(
        strategy=config.strategy,
        max_queue_size=config.max_queue_size,
        max_per_agent=config.max_per_agent,
        max_inflight=config.max_inflight,
        max_per_agent_flight=config.max_per_agent_flight,
        worker_count=config.worker_count,
        result_ttl=config.result_ttl,
    )


def _hosts(hosts: pb.HostStats) -> HostStats:
    return HostStats(int(hosts.registered), int(hosts.online), int(hosts.free_credit))
