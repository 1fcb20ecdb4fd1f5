"""StatsService: the figures of the caller's namespace (scheduler-reference, Scheduler Stats)."""

from __future__ import annotations

from typing import Any

import grpc

from taskyard.v1 import stats_pb2 as pb
from taskyard.v1.stats_pb2_grpc import StatsServiceServicer
from taskyard_server.core.stats import Stats
from taskyard_server.engine.port import Engine
from taskyard_server.interceptors.calls import current_call

from .responses import go_duration


class StatsService(StatsServiceServicer):
    """Serves `taskyard.v1.StatsService`; what it does not define answers `unimplemented`."""

    def __init__(self, engine: Engine, strategy: str, worker_count: int) -> None:
        self._engine = engine
        self._strategy = strategy
        self._worker_count = worker_count

    async def GetStats(  # noqa: N802
        self, request: pb.GetStatsRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.GetStatsResponse:
        del request, context
        stats = await self._engine.stats(current_call().namespace)
        limits = stats.limits
        return pb.GetStatsResponse(
            queue=pb.QueueStats(
                total_queued=stats.queued,
                total_inflight=stats.inflight,
                agent_counts={name: agent.queued for name, agent in stats.agents.items() if agent.queued},
                limited_by=stats.limited_by,
            ),
            metrics=_metrics(stats),
            config=pb.SchedulerConfig(
                strategy=self._strategy,
                max_queue_size=limits.max_queue_size,
                max_per_agent=limits.max_per_agent,
                max_inflight=limits.max_inflight,
                max_per_agent_flight=limits.max_per_agent_inflight,
                worker_count=self._worker_count,
                result_ttl=go_duration(limits.result_ttl_secs),
            ),
        )


def _metrics(stats: Stats) -> pb.SchedulerMetrics:
    counters = stats.counters
    return pb.SchedulerMetrics(
        tasks_submitted=counters.submitted,
        tasks_completed=counters.completed,
        tasks_failed=counters.failed,
        tasks_cancelled=counters.cancelled,
        tasks_rejected=counters.rejected,
        tasks_expired=counters.expired,
        dispatch_count=counters.dispatched,
        avg_dispatch_latency_ms=stats.avg_dispatch_latency_ms,
        tasks_evicted=counters.evicted or None,
        late_reports=counters.late_reports or None,
        agents={
            name: pb.AgentMetrics(
                submitted=agent.submitted,
                completed=agent.completed,
                failed=agent.failed,
                cancelled=agent.cancelled,
                rejected=agent.rejected,
            )
            for name, agent in stats.agents.items()
        },
    )
