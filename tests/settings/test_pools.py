"""Pools of hosts in the configuration (docs/rules.md, Demand)."""

import json

import pytest

from taskyard_server.core.figures.demand import Pool
from taskyard_server.settings.config import ConfigError


def test_a_pool_says_what_its_hosts_have(settings):
    gpu = {"labels": {"zone": "a"}, "capabilities": ["gpu"], "project": "shop", "actions": ["crawl"]}
    assert settings(json.dumps({"scheduler": {"pools": {"gpu": gpu, "all": {}}}})).pools() == (
        Pool("all"),
        Pool("gpu", frozenset({("zone", "a")}), frozenset({"gpu"}), "shop", frozenset({"crawl"})),
    )


@pytest.mark.parametrize(
    ("pools", "message"),
    [
        ({"gpu": {"capability": ["gpu"]}}, "scheduler.pools.gpu.capability: unknown key, did you mean capabilities?"),
        ({"gpu": {"actions": []}}, "scheduler.pools.gpu.actions: "),
        ({"gpu": {"project": ""}}, "scheduler.pools.gpu.project: "),
        ({"two words": {}}, "scheduler.pools.two words"),
        ({f"pool-{number}": {} for number in range(101)}, "scheduler.pools: "),
    ],
)
def test_a_wrong_pool_is_named_by_its_key(settings, pools, message):
    with pytest.raises(ConfigError) as raised:
        settings(json.dumps({"scheduler": {"pools": pools}}))
    assert str(raised.value).startswith(message)
