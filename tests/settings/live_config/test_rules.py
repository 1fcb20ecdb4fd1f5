"""Limits of keys and weights of agents in the file: what they mean, and what is refused by its key."""

import pytest

from taskyard_server.core.queue.keys import KeyLimit
from taskyard_server.core.task_options import OnTargetFailure
from taskyard_server.settings.config import ConfigError
from tests.cases import every_case


def test_limits_and_weights_are_read_by_pattern(config_file):
    live = config_file.start(
        {
            "scheduler": {
                "limits": {"site:*": {"maxInflight": 3, "perSecond": 0.5, "burst": 10}, "gpu": {"maxInflight": 0}},
                "agents": {"team-a/*": {"weight": 3}},
            }
        }
    )
    rules = live.settings.rules()
    assert rules.limits == {"site:*": KeyLimit(3, 0.5, 10), "gpu": KeyLimit(0)}
    assert rules.weights == {"team-a/*": 3}


def test_what_targets_do_after_a_failure_is_read_by_pattern(config_file):
    live = config_file.start({"scheduler": {"targets": {"shop-*": {"onFailure": "continue"}, "shop-1": {}}}})
    policies = live.settings.limits().on_target_failure
    assert policies.match("shop-2") == ("shop-*", OnTargetFailure.CONTINUE)
    assert policies.match("shop-1") == ("shop-1", OnTargetFailure.BLOCK)
    assert policies.match("door") is None


@every_case(
    ("section", "problem"),
    [
        ({"limits": {"a": {"maxInflights": 1}}}, "scheduler.limits.a.maxInflights: unknown key"),
        ({"limits": {"a": {"maxInflight": -1}}}, "scheduler.limits.a.maxInflight: "),
        ({"limits": {"a": {"maxInflight": 1_000_001}}}, "scheduler.limits.a.maxInflight: "),
        ({"limits": {"a": {"perSecond": 0}}}, "scheduler.limits.a.perSecond: "),
        ({"limits": {"a": {"perSecond": "fast"}}}, "scheduler.limits.a.perSecond: "),
        ({"limits": {"a": {"perSecond": 1, "burst": 0}}}, "scheduler.limits.a.burst: "),
        ({"limits": {"a": {"burst": 2}}}, "scheduler.limits.a: burst is for perSecond, which is not set"),
        ({"limits": {"a*b": {}}}, "scheduler.limits: the pattern 'a*b' may hold a * only at its end"),
        ({"limits": {"": {}}}, "scheduler.limits: the pattern '' must be a name"),
        ({"agents": {"a": {"weight": 0}}}, "scheduler.agents.a.weight: "),
        ({"agents": {"a": {"weight": 1_001}}}, "scheduler.agents.a.weight: "),
        ({"agents": {"a": {"weight": 1.5}}}, "scheduler.agents.a.weight: "),
        ({"agents": {"a": 3}}, "scheduler.agents.a: "),
        ({"targets": {"a": {"onFailure": "stop"}}}, "scheduler.targets.a.onFailure: "),
        ({"targets": {"a*b": {}}}, "scheduler.targets: the pattern 'a*b' may hold a * only at its end"),
        ({"maxBlockedTargets": -1}, "scheduler.maxBlockedTargets: "),
        ({"maxBatchSize": 501}, "scheduler.maxBatchSize: "),
        ({"agents": {f"a{n}": {} for n in range(1_001)}}, "scheduler.agents: at most 1,000 patterns"),
    ],
)
def test_a_wrong_rule_is_refused_by_its_key(config_file, section, problem):
    with pytest.raises(ConfigError) as refused:
        config_file.start({"scheduler": section})
    assert str(refused.value).startswith(problem)
