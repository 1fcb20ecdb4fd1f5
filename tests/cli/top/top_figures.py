"""Figures of a made-up namespace, as servers answer them."""

from datetime import UTC, datetime

from taskyard.v1 import runtime_host_pb2, sample_pb2, stats_pb2
from taskyard_server.cli.top.figures import TopFigures

NOW = datetime(2026, 11, 23, 14, 3, 12, tzinfo=UTC)
Host = runtime_host_pb2.RuntimeHost


def share(agent, inflight, received, **rest):
    return stats_pb2.AgentShare(agent_id=agent, weight=1, inflight=inflight, entitled=0.5, received=received, **rest)


def host(name, leases, slots, **rest):
    found = Host(id=name, status=Host.busy, leases=leases, slots=slots, online=True, **rest)
    found.last_heartbeat_at.GetCurrentTime()
    return found


def sample(number, **counts):
    """The sample of a time, ten seconds after the one before."""
    found = sample_pb2.Sample(**counts)
    found.at.FromSeconds(1_700_000_000 + 10 * number)
    return found


def stats(**queue):
    """Stats of 12 queued tasks and 8 in flight, but for what is given otherwise."""
    return stats_pb2.GetStatsResponse(
        queue=stats_pb2.QueueStats(
            **{"total_queued": 12, "total_inflight": 8, "agent_counts": {"ann": 10, "bob": 2}, **queue}
        ),
        metrics=stats_pb2.SchedulerMetrics(
            tasks_submitted=120,
            tasks_completed=90,
            tasks_failed=10,
            dispatch_count=100,
            avg_dispatch_latency_ms=3.25,
            agents={
                "ann": stats_pb2.AgentMetrics(completed=60, failed=10),
                "bob": stats_pb2.AgentMetrics(completed=30),
            },
        ),
        config=stats_pb2.SchedulerConfig(max_inflight=20),
        hosts=stats_pb2.HostStats(registered=2, online=2),
    )


def figures(**given):
    """Two agents and two hosts, and three samples."""
    samples = [sample(at, queued=4 * at, inflight=8, submitted=50 * at, oldest_queued_secs=7.0) for at in range(3)]
    return TopFigures(
        **{
            "namespace": "acme",
            "stats": stats(),
            "samples": samples,
            "agents": [share("ann", 6, 0.75), share("bob", 2, 0.25)],
            "hosts": [host("crawler-1", 2, 8), host("crawler-2", 6, 6)],
            "rates": {"submitted": 12.0, "dispatched": 11.0, "completed": 10.5, "failed": 0.5},
            "names": ["acme", "umbrella"],
            **given,
        }
    )
