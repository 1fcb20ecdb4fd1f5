"""The figures of agents are encoded as protobuf does it."""

from taskyard.v1 import stats_pb2 as pb
from taskyard_server.conversion.agent_figures import AgentFields
from taskyard_server.core.stats import AgentStats

NONE = AgentStats(0, 0, 0, 0, 0, 0, 0, 0)
AGENTS = [
    ("ann", AgentStats(1, 2, 3, 4, 5, 6, 7, 8)),
    ("bär", NONE),
    ("cy" * 100, NONE._replace(queued=2**40, tokens_used=1)),
    ("dan", NONE._replace(inflight=9, rejected=10)),
]


def test_each_agent_has_its_figures_and_those_with_queued_tasks_a_count():
    fields = AgentFields()
    fields.add(AGENTS[:1])
    fields.add(AGENTS[1:])
    assert pb.QueueStats.FromString(fields.queued()).agent_counts == {"ann": 1, "cy" * 100: 2**40}
    shown = {
        name: pb.AgentMetrics(
            submitted=each.submitted,
            completed=each.completed,
            failed=each.failed,
            cancelled=each.cancelled,
            rejected=each.rejected,
            tokens_used=each.tokens_used or None,
        )
        for name, each in AGENTS
    }
    assert pb.SchedulerMetrics.FromString(fields.metrics()) == pb.SchedulerMetrics(agents=shown)
