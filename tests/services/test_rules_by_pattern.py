"""LimitService, AgentService and GetFairness (docs/rules.md, Concurrency keys, Weights)."""

import pytest

from taskyard.v1 import agent_pb2, agent_pb2_grpc, limit_pb2, limit_pb2_grpc, stats_pb2, stats_pb2_grpc
from taskyard_server.core.queue.keys import KeyLimit
from taskyard_server.core.rules import ConfiguredRules
from tests.cases import every_case


@pytest.fixture
def limits(api):
    return limit_pb2_grpc.LimitServiceStub(api.channel)


@pytest.fixture
def agents(api):
    return agent_pb2_grpc.AgentServiceStub(api.channel)


def put_limit(limits, pattern, **fields):
    return limits.PutLimit(limit_pb2.PutLimitRequest(pattern=pattern, **fields))


def put_weight(agents, pattern, weight):
    return agents.PutAgentWeight(agent_pb2.PutAgentWeightRequest(pattern=pattern, weight=weight))


async def limits_of(limits):
    return list((await limits.ListLimits(limit_pb2.ListLimitsRequest())).limits)


async def weights_of(agents):
    return list((await agents.ListAgentWeights(agent_pb2.ListAgentWeightsRequest())).weights)


async def test_a_limit_is_set_replaced_listed_and_deleted(limits):
    put = (await put_limit(limits, "site:*", max_inflight=3)).limit
    assert put == limit_pb2.Limit(pattern="site:*", max_inflight=3)
    await put_limit(limits, "gpu", per_second=2.5)
    await put_limit(limits, "site:*", max_inflight=0, per_second=5, burst=10)
    assert await limits_of(limits) == [
        limit_pb2.Limit(pattern="gpu", per_second=2.5, burst=2),
        limit_pb2.Limit(pattern="site:*", max_inflight=0, per_second=5, burst=10),
    ]
    left = await limits.DeleteLimit(limit_pb2.DeleteLimitRequest(pattern="site:*"))
    assert not left.HasField("limit")
    assert [each.pattern for each in await limits_of(limits)] == ["gpu"]


async def test_what_is_set_stands_over_the_configuration_until_it_is_deleted(api, limits, agents):
    configured = ConfiguredRules({"site:*": KeyLimit(2)}, {"ann": 3})
    api.engine.admin.set_rules(configured)
    assert await limits_of(limits) == [limit_pb2.Limit(pattern="site:*", max_inflight=2, configured=True)]
    assert await weights_of(agents) == [agent_pb2.AgentWeight(pattern="ann", weight=3, configured=True)]
    await put_limit(limits, "site:*", max_inflight=5)
    await put_weight(agents, "ann", 7)
    api.engine.admin.set_rules(ConfiguredRules({"site:*": KeyLimit(4)}, {"ann": 4, "bob": 2}))
    assert await limits_of(limits) == [limit_pb2.Limit(pattern="site:*", max_inflight=5)]
    assert [(each.pattern, each.weight) for each in await weights_of(agents)] == [("ann", 7), ("bob", 2)]
    left = await limits.DeleteLimit(limit_pb2.DeleteLimitRequest(pattern="site:*"))
    assert left.limit == limit_pb2.Limit(pattern="site:*", max_inflight=4, configured=True)
    left = await agents.DeleteAgentWeight(agent_pb2.DeleteAgentWeightRequest(pattern="ann"))
    assert left.weight == agent_pb2.AgentWeight(pattern="ann", weight=4, configured=True)


async def test_what_was_not_set_cannot_be_deleted(api, limits, agents, refused):
    await api.submit()
    answer = await refused(limits.DeleteLimit(limit_pb2.DeleteLimitRequest(pattern="site:*")))
    assert (answer.code, answer.message) == ("not_found", "no limit was set for site:*")
    answer = await refused(agents.DeleteAgentWeight(agent_pb2.DeleteAgentWeightRequest(pattern="ann")))
    assert (answer.code, answer.message) == ("not_found", "no weight was set for ann")


@every_case(
    ("pattern", "fields", "message"),
    [
        ("", {}, "pattern: is required"),
        ("a*b", {}, "pattern: may hold a * only at its end"),
        ("a\n", {}, "pattern: must not hold control characters"),
        ("a" * 1025, {}, "pattern: must be at most 1024 characters"),
        ("a", {"max_inflight": 1_000_001}, "maxInflight: must be from 0 to 1,000,000"),
        ("a", {"per_second": 0}, "perSecond: must be from 0.000001 to 1,000,000"),
        ("a", {"per_second": -1}, "perSecond: must be from 0.000001 to 1,000,000"),
        ("a", {"per_second": float("nan")}, "perSecond: must be from 0.000001 to 1,000,000"),
        ("a", {"per_second": float("inf")}, "perSecond: must be from 0.000001 to 1,000,000"),
        ("a", {"per_second": 1, "burst": 0}, "burst: must be from 1 to 1,000,000"),
        ("a", {"burst": 3}, "burst: is for perSecond, which is not set"),
    ],
)
async def test_a_wrong_limit_is_refused_by_its_field(limits, refused, pattern, fields, message):
    answer = await refused(put_limit(limits, pattern, **fields))
    assert (answer.code, answer.message) == ("bad_request", message)
    assert await limits_of(limits) == []


@pytest.mark.parametrize(
    ("pattern", "weight", "message"),
    [
        ("", 1, "pattern: is required"),
        ("ann", 0, "weight: is required, from 1 to 1,000"),
        ("ann", 1_001, "weight: must be from 1 to 1,000"),
        ("*ann", 1, "pattern: may hold a * only at its end"),
    ],
)
async def test_a_wrong_weight_is_refused_by_its_field(agents, refused, pattern, weight, message):
    answer = await refused(put_weight(agents, pattern, weight))
    assert (answer.code, answer.message) == ("bad_request", message)
    assert await weights_of(agents) == []


async def test_a_thousand_patterns_may_be_set_and_these_may_be_set_again(api, agents, limits, refused):
    for number in range(1_000):
        await api.engine.rules.put_weight("default", f"agent-{number}", 2)
    answer = await refused(put_weight(agents, "one more", 2))
    assert (answer.code, answer.message) == ("bad_request", "pattern: at most 1,000 may be set")
    assert (await put_weight(agents, "agent-7", 3)).weight.weight == 3
    await put_limit(limits, "a", max_inflight=1)


async def test_a_weight_holds_at_once(api, agents):
    for agent in ("ann", "bob") * 4:
        await api.submit(agent_id=agent)
    await put_weight(agents, "ann*", 3)
    leases = await api.claim(4)
    assert sorted(lease.task.agent_id for lease in leases) == ["ann", "ann", "ann", "bob"]


async def test_rules_are_those_of_one_namespace(limits):
    red = (("taskyard-namespace", "red"),)
    await put_limit(limits, "a", max_inflight=1)
    assert not (await limits.ListLimits(limit_pb2.ListLimitsRequest(), metadata=red)).limits


async def test_keys_in_use_are_listed_with_their_usage_page_by_page(api, limits):
    await put_limit(limits, "site:*", max_inflight=1)
    for number in range(3):
        for _ in range(2):
            await api.submit(concurrency_keys=[f"site:{number}"])
    await api.claim(6)
    first = await limits.ListLimits(limit_pb2.ListLimitsRequest(page_size=2))
    assert [(each.key, each.pattern, each.inflight, each.waiting) for each in first.keys] == [
        ("site:0", "site:*", 1, 1),
        ("site:1", "site:*", 1, 1),
    ]
    rest = await limits.ListLimits(limit_pb2.ListLimitsRequest(page_size=2, page_token=first.next_page_token))
    assert ([each.key for each in rest.keys], rest.next_page_token) == (["site:2"], "")


async def test_fairness_shows_what_agents_are_entitled_to_and_get(api, agents):
    stub = stats_pb2_grpc.StatsServiceStub(api.channel)
    await put_weight(agents, "ann", 3)
    for agent in ("ann", "bob") * 5:
        await api.submit(agent_id=agent)
    await api.claim(4)
    answer = await stub.GetFairness(stats_pb2.GetFairnessRequest(page_size=1))
    (ann,) = answer.agents
    assert (ann.agent_id, ann.weight, ann.inflight, ann.runnable, ann.entitled) == ("ann", 3, 3, 2, 0.75)
    answer = await stub.GetFairness(stats_pb2.GetFairnessRequest(page_token=answer.next_page_token))
    (bob,) = answer.agents
    assert (bob.agent_id, bob.weight, bob.inflight, bob.runnable, bob.entitled) == ("bob", 1, 1, 4, 0.25)
    assert not answer.next_page_token
