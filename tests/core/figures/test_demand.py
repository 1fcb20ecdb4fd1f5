"""What pools of hosts have to do (docs/rules.md, Demand)."""

from __future__ import annotations

from random import Random

import pytest

from taskyard_server.core.figures.demand import Demand, Pool, demand_of
from taskyard_server.core.history import Wait
from taskyard_server.core.queue.keys import KeyLimit
from taskyard_server.core.task_options import TaskExtras
from tests.cases import every_case

EVERY_HOST = Pool("all")


def demand(yard, pool=EVERY_HOST) -> Demand:
    return demand_of(yard.scheduler, yard.now, pool)


def test_a_pool_counts_the_tasks_that_a_host_as_it_describes_could_be_handed(yard):
    yard.submit(action="crawl")
    yard.submit(action="crawl", requires=frozenset({"gpu"}))
    yard.submit(action="index", project="shop")
    assert demand(yard).runnable == 2, "no host of the pool need have a gpu"
    assert demand(yard, Pool("gpu", capabilities=frozenset({"gpu", "x"}))).runnable == 3
    assert demand(yard, Pool("crawl", actions=frozenset({"crawl"}))).runnable == 1
    assert demand(yard, Pool("shop", project="shop")).runnable == 1


@pytest.mark.parametrize(
    ("pool", "belongs"),
    [
        (Pool("all"), True),
        (Pool("labels", labels=frozenset({("zone", "a")})), True),
        (Pool("other label", labels=frozenset({("zone", "b")})), False),
        (Pool("fewer", capabilities=frozenset({"gpu"})), True),
        (Pool("more", capabilities=frozenset({"gpu", "big"})), False),
        (Pool("its project", project="shop"), True),
        (Pool("another project", project="blog"), False),
        (Pool("one of its actions", actions=frozenset({"crawl", "sleep"})), True),
        (Pool("other actions", actions=frozenset({"sleep"})), False),
    ],
    ids=lambda each: each.name if isinstance(each, Pool) else "",
)
def test_a_host_belongs_to_a_pool_by_labels_capabilities_project_and_actions(yard, pool, belongs):
    host = yard.register("host", "gpu", "tall", project="shop", actions=frozenset({"crawl", "index"}))
    host.labels = (("zone", "a"), ("rack", "7"))
    assert demand(yard, pool).hosts == belongs


def test_a_host_that_names_no_project_and_no_actions_belongs_to_pools_that_do(yard):
    yard.register("host")
    assert demand(yard, Pool("shop", project="shop", actions=frozenset({"crawl"}))).hosts == 1


def test_the_built_in_executor_belongs_to_no_pool(yard):
    yard.register("taskyard:tab-executor", built_in=True)
    yard.submit(tab_id="tab")
    yard.claim("taskyard:tab-executor")
    assert demand(yard) == Demand("all")


def test_all_that_hosts_of_the_pool_hold_is_in_flight_also_while_they_are_offline_or_drain(yard):
    yard.register("host")
    yard.submit(action="crawl")
    yard.submit(action="index", deadline=yard.now + 1000)
    yard.claim(count=2)
    pool = Pool("crawl", actions=frozenset({"crawl"}))
    assert demand(yard, pool).inflight == 2, "a host is not to be ended under what it runs for others"
    yard.scheduler.drain_host("host")
    yard.now += 61
    assert demand(yard, pool) == Demand("crawl", inflight=2)


def test_credit_is_that_of_streams_and_waiting_claims_of_live_hosts_that_may_be_handed_tasks(yard):
    yard.connect("streamed", credit=3)
    yard.register("claims")
    yard.scheduler.offer(yard.now, "claims", 1)
    yard.connect("drained", credit=5)
    yard.scheduler.drain_host("drained")
    assert demand(yard)[1:] == (0, 0, None, 4, 3)
    yard.now += 30
    yard.scheduler.heartbeat(yard.now, "claims")
    yard.now += 31
    assert demand(yard)[1:] == (0, 0, None, 1, 1)


def test_runnable_are_only_as_many_as_the_limits_leave_room_for(make_yard):
    yard = make_yard(max_inflight=5, max_per_agent_inflight=2)
    yard.register()
    for agent in ("ann", "ann", "ann", "bob"):
        yard.submit(agent)
    assert demand(yard).runnable == 3, "two of ann, one of bob"
    yard.claim(count=2)
    assert demand(yard).runnable == 1, "one of ann"
    for agent in ("cy", "dan", "eve", "flo"):
        yard.submit(agent)
    assert demand(yard).runnable == 3
    yard.claim(count=3)
    assert demand(yard).runnable == 0, "no host helps where maxInflight is reached"


def test_tasks_that_wait_for_anything_but_a_host_are_not_runnable(yard):
    yard.submit(hold=True)
    yard.submit(not_before=yard.now + 10)
    yard.submit(target="site")
    yard.submit(target="site")
    assert demand(yard).runnable == 1, "the head of the target"


def test_a_parked_task_asks_for_no_host_until_it_is_queued_again(yard):
    yard.register()
    task = yard.submit()
    yard.park(yard.claim_one(), Wait("answer", "go"))
    assert (demand(yard).runnable, demand(yard).inflight, demand(yard).oldest_secs) == (0, 0, None)
    yard.answer(task, "go")
    assert demand(yard).runnable == 1


def test_the_oldest_is_the_one_that_has_been_queued_for_longest(yard):
    assert demand(yard).oldest_secs is None
    late = yard.submit(priority=5, not_before=yard.now + 8, deadline=yard.now + 1000)
    yard.now += 10
    yard.scheduler.advance(yard.now)
    yard.submit("bob", deadline=yard.now + 1000)
    yard.now += 3
    yard.submit(priority=1, deadline=yard.now + 1000)
    assert demand(yard).oldest_secs == 3
    assert late.queued_at == yard.now - 3
    yard.cancel(late)
    yard.now += 1
    assert demand(yard).oldest_secs == 4


def test_a_drain_of_the_server_hides_nothing(yard):
    yard.submit()
    yard.scheduler.drain()
    assert demand(yard).runnable == 1, "the next server goes on with it"


@every_case("seed", range(20))
def test_so_many_tasks_are_runnable_as_a_host_of_the_pool_with_room_for_all_is_handed(make_yard, seed):
    chances = Random(seed)
    yard = make_yard(max_inflight=chances.choice([4, 12, 1000]), max_per_agent_inflight=chances.choice([1, 3, 1000]))
    pools = [
        EVERY_HOST,
        Pool("gpu", capabilities=frozenset({"gpu"})),
        Pool("crawl", actions=frozenset({"crawl"})),
        Pool("shop", project="shop", capabilities=frozenset({"gpu"})),
    ]
    tasks = []
    for _ in range(60):
        fields = {"requires": frozenset({"gpu"})} if chances.random() < 0.3 else {}
        tasks.append(
            yard.submit(
                chances.choice("abcde"),
                chances.choice(["crawl", "index"]),
                project=chances.choice([None, "shop"]),
                priority=chances.randrange(3),
                target=chances.choice([None, None, "one", "two"]),
                **fields,
            )
        )
        if chances.random() < 0.2:
            yard.cancel(tasks.pop(chances.randrange(len(tasks))))
    yard.register("busy", "gpu")
    yard.claim("busy", chances.randrange(4))
    pool = chances.choice(pools)
    expected = demand(yard, pool).runnable
    yard.register("pool", *pool.capabilities, project=pool.project, actions=pool.actions)
    assert len(yard.claim("pool", 1000)) == expected


def test_of_tasks_that_wait_for_a_key_as_many_are_runnable_as_it_has_room_for(yard):
    yard.scheduler.keys.set_limits(yard.now, {"site:*": KeyLimit(3), "rate": KeyLimit(per_second=1, burst=2)})
    for _ in range(10):
        yard.submit(extras=TaskExtras(concurrency_keys=("site:a",)))
        yard.submit("bob", extras=TaskExtras(concurrency_keys=("site:b",)))
        yard.submit("bob", extras=TaskExtras(concurrency_keys=("rate",)))
    assert demand(yard).runnable == 3 + 3 + 2
    yard.register()
    assert len(yard.claim(count=100)) == 8
    assert demand(yard).runnable == 0
    assert demand(yard).oldest_secs is None
