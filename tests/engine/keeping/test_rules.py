"""Limits of keys and weights that calls have set survive the process (docs/rules.md, Weights, Concurrency keys)."""

from taskyard_server.core.limits import Limits
from taskyard_server.core.queue.keys import KeyLimit
from taskyard_server.core.rules import ConfiguredRules, LimitInForce, WeightInForce
from taskyard_server.engine.engine import Engine

NS = "default"


async def test_what_was_set_is_there_after_a_restart_and_what_was_deleted_is_not(engine, store, clock):
    rules = engine.rules
    await rules.put_limit(NS, "site:*", KeyLimit(3, 0.5, 10))
    await rules.put_limit(NS, "gpu", KeyLimit(1))
    await rules.put_weight(NS, "ann", 3)
    await rules.put_weight(NS, "bob", 2)
    await rules.put_weight(NS, "ann", 5)
    await rules.delete_limit(NS, "gpu")
    await rules.delete_weight(NS, "bob")
    kept = store.copy()
    again = Engine(Limits(), clock, store=kept)
    again.admin.set_rules(ConfiguredRules({"site:*": KeyLimit(9)}, {"bob": 7}))
    clock.now += 1
    await again.open()
    found = await again.rules.list_limits(NS, "", 10)
    assert found.limits == [LimitInForce("site:*", KeyLimit(3, 0.5, 10), False)]
    assert await again.rules.list_weights(NS) == [WeightInForce("ann", 5, False), WeightInForce("bob", 7, True)]
    assert again.rules._namespaces.here(NS).scheduler.life.ready.weights.of("ann") == 5
    await again.rules.put_weight(NS, "cy", 4)
    third = Engine(Limits(), clock, store=kept.copy())
    await third.open()
    assert [each.pattern for each in await third.rules.list_weights(NS)] == ["ann", "cy"]
    for each in (again, third):
        await each.admin.close()
