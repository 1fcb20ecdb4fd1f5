"""The figures of agents in an answer of stats, encoded: there may be thousands, and dashboards ask all the time."""

from __future__ import annotations

from typing import Final

from taskyard.v1 import stats_pb2 as pb
from taskyard_server.core.stats import AgentStats

from .wire import add_double, add_nested, add_text, tag

QUEUED: Final = tag(pb.QueueStats, "agent_counts")
QUEUED_AGENT: Final = tag(pb.QueueStats.AgentCountsEntry, "key")
QUEUED_COUNT: Final = tag(pb.QueueStats.AgentCountsEntry, "value")
METRICS: Final = tag(pb.SchedulerMetrics, "agents")
METRICS_AGENT: Final = tag(pb.SchedulerMetrics.AgentsEntry, "key")
METRICS_OF_AGENT: Final = tag(pb.SchedulerMetrics.AgentsEntry, "value")
SUBMITTED: Final = tag(pb.AgentMetrics, "submitted")
COMPLETED: Final = tag(pb.AgentMetrics, "completed")
FAILED: Final = tag(pb.AgentMetrics, "failed")
CANCELLED: Final = tag(pb.AgentMetrics, "cancelled")
REJECTED: Final = tag(pb.AgentMetrics, "rejected")
TOKENS_USED: Final = tag(pb.AgentMetrics, "tokens_used")


class AgentFields:
    """The fields of `QueueStats` and of `SchedulerMetrics` that have an entry for each agent."""

    def __init__(self) -> None:
        self._queued: list[bytes] = []
        self._metrics: list[bytes] = []

    def add(self, agents: list[tuple[str, AgentStats]]) -> None:
        """Add these agents. One without queued tasks has no entry in the first field."""
        for name, figures in agents:
            if figures.queued:
                entry: list[bytes] = []
                add_text(entry, QUEUED_AGENT, name)
                add_double(entry, QUEUED_COUNT, figures.queued)
                add_nested(self._queued, QUEUED, b"".join(entry))
            counts: list[bytes] = []
            _add_count(counts, SUBMITTED, figures.submitted)
            _add_count(counts, COMPLETED, figures.completed)
            _add_count(counts, FAILED, figures.failed)
            _add_count(counts, CANCELLED, figures.cancelled)
            _add_count(counts, REJECTED, figures.rejected)
            _add_count(counts, TOKENS_USED, figures.tokens_used)
            entry = []
            add_text(entry, METRICS_AGENT, name)
            add_nested(entry, METRICS_OF_AGENT, b"".join(counts))
            add_nested(self._metrics, METRICS, b"".join(entry))

    def queued(self) -> bytes:
        """The field of `QueueStats`."""
        return b"".join(self._queued)

    def metrics(self) -> bytes:
        """The field of `SchedulerMetrics`."""
        return b"".join(self._metrics)


def _add_count(parts: list[bytes], field: bytes, count: int) -> None:
    if count:
        add_double(parts, field, count)
