"""Weights: what agents get, who waits at a limit, and what changes with other weights (docs/rules.md, Weights)."""

from collections import Counter
from heapq import heappop, heappush
from itertools import count
from random import Random

import pytest

from taskyard_server.core.limits import Limits


def shares(yard, weights, slots, handouts, seconds):
    """The share of the hand-outs that each agent gets while all of them have tasks; `seconds` is a task's length."""
    yard.scheduler.set_weights(weights)
    yard.register()
    for _ in range(3):
        for agent in weights:
            yard.submit(agent, deadline=yard.now + 1e9)
    got, ends, numbers = Counter(), [], count()
    for _ in range(handouts):
        if len(ends) == slots:
            yard.now, _, lease = heappop(ends)
            yard.complete(lease)
        lease = yard.claim_one(lease_secs=3600)
        agent = lease.task.agent_id
        yard.submit(agent, deadline=yard.now + 1e9)
        got[agent] += 1
        heappush(ends, (yard.now + seconds(), next(numbers), lease))
    return {agent: got[agent] / got.total() for agent in weights}


def entitled(weights):
    return {agent: weight / sum(weights.values()) for agent, weight in weights.items()}


FOUR = {"one": 1, "two": 2, "three": 3, "four": 4}
HUNDRED = {f"agent-{number}": number % 4 + 1 for number in range(100)}


@pytest.mark.parametrize(
    ("weights", "slots"),
    [
        (FOUR, 1),
        (FOUR, 2),
        (FOUR, 10),
        (FOUR, 20),
        ({"a": 1, "b": 1, "c": 2, "d": 3}, 2),
        ({**dict.fromkeys("abcdefghi", 1), "j": 9}, 2),
        (HUNDRED, 60),
        pytest.param(HUNDRED, 10, marks=pytest.mark.gate("more of a kind")),
        pytest.param(HUNDRED, 250, marks=pytest.mark.gate("more of a kind")),
    ],
)
def test_shares_follow_weights_also_with_fewer_slots_than_agents(make_yard, weights, slots):
    handouts = 80 * sum(weights.values())
    found = shares(make_yard(result_ttl_secs=0.1), weights, slots, handouts, lambda: 1.0)
    assert found == pytest.approx(entitled(weights), rel=0.02)


@pytest.mark.parametrize(
    ("weights", "slots"),
    [
        (FOUR, 2),
        *(pytest.param(*case, marks=pytest.mark.gate("more of a kind")) for case in ((FOUR, 1), (HUNDRED, 10))),
    ],
)
def test_shares_follow_weights_also_where_tasks_differ_in_length(make_yard, weights, slots):
    draw = Random(1)
    found = shares(make_yard(result_ttl_secs=0.1), weights, slots, 20_000, lambda: draw.choice([0.1, 0.5, 1.0, 2.0]))
    assert found == pytest.approx(entitled(weights), rel=0.02)


def test_an_agent_gets_no_second_place_before_each_other_has_its_first(make_yard):
    """So one that is entitled to more than one place gets less, while there are fewer places than agents."""
    weights = {"big": 100, **{f"small-{number}": 1 for number in range(10)}}
    found = shares(make_yard(result_ttl_secs=0.1), weights, 5, 5_000, lambda: 1.0)
    assert found["big"] == pytest.approx(1 / 5, rel=0.02)


def test_with_whole_places_for_all_each_agent_has_just_its_own(yard):
    yard.scheduler.set_weights(FOUR)
    yard.register()
    for agent in FOUR:
        for _ in range(20):
            yard.submit(agent)
    assert Counter(lease.task.agent_id for lease in yard.claim(count=20)) == {"one": 2, "two": 4, "three": 6, "four": 8}


def test_an_agent_at_its_limit_holds_up_no_other(make_yard):
    yard = make_yard(max_per_agent_inflight=2)
    yard.scheduler.set_weights({"big": 1000})
    yard.register()
    for agent in ("big",) * 5 + ("small",) * 4:
        yard.submit(agent)
    assert Counter(lease.task.agent_id for lease in yard.claim(count=9)) == {"big": 2, "small": 2}
    yard.scheduler.reconfigure(Limits(max_per_agent_inflight=3))
    assert [lease.task.agent_id for lease in yard.claim(count=9)] == ["big", "small"]


def test_an_agent_that_was_away_catches_up_on_one_round(yard):
    yard.scheduler.set_weights({"ann": 2, "bob": 3})
    yard.register()
    for _ in range(100):
        yard.submit("ann")
        yard.complete(yard.claim_one())
    for _ in range(30):
        yard.submit("bob")
        yard.submit("ann")
    got = []
    for _ in range(24):
        lease = yard.claim_one()
        got.append(lease.task.agent_id)
        yard.complete(lease)
    first = got.index("ann")
    assert 3 <= first <= 5
    assert Counter(got[first : first + 15]) == {"bob": 9, "ann": 6}


def test_other_weights_hold_at_once_and_tasks_in_flight_stay(yard):
    yard.register()
    for agent in ("ann", "bob"):
        for _ in range(10):
            yard.submit(agent)
    assert Counter(lease.task.agent_id for lease in yard.claim(count=4)) == {"ann": 2, "bob": 2}
    yard.scheduler.set_weights({"ann": 3})
    assert [lease.task.agent_id for lease in yard.claim(count=4)] == ["ann"] * 4
    yard.scheduler.set_weights({})
    assert [lease.task.agent_id for lease in yard.claim(count=4)] == ["bob"] * 4
