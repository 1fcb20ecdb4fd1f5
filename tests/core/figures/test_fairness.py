"""What agents are entitled to by their weights, and what they received lately (docs/rules.md, Weights)."""

import pytest

from taskyard_server.core.figures.fairness import shares_of
from taskyard_server.core.slot_time import SlotTime


def shares(yard):
    scheduler = yard.scheduler
    return {each.agent_id: each for each in shares_of(scheduler, yard.now)}


def test_an_agent_is_entitled_to_no_more_than_it_could_use(yard):
    yard.scheduler.set_weights({"big": 8})
    yard.register()
    for agent, tasks in (("big", 2), ("one", 10), ("two", 10)):
        for _ in range(tasks):
            yard.submit(agent)
    yard.claim(count=10)
    found = shares(yard)
    assert {name: each.entitled for name, each in found.items()} == pytest.approx({"big": 0.2, "one": 0.4, "two": 0.4})
    assert {name: each.inflight for name, each in found.items()} == {"big": 2, "one": 4, "two": 4}


def test_with_nothing_in_flight_weights_alone_count(yard):
    yard.scheduler.set_weights({"ann": 3})
    yard.submit("ann")
    yard.submit("bob")
    assert {name: each.entitled for name, each in shares(yard).items()} == {"ann": 0.75, "bob": 0.25}


def test_an_agent_at_its_limit_has_nothing_runnable(make_yard):
    yard = make_yard(max_per_agent_inflight=1)
    yard.register()
    yard.submit("ann")
    yard.submit("ann")
    yard.claim(count=2)
    assert (shares(yard)["ann"].inflight, shares(yard)["ann"].runnable) == (1, 0)


def test_what_was_received_is_the_time_in_flight_of_ended_and_of_live_leases(yard):
    yard.register()
    for agent in ("ann", "bob", "cy"):
        yard.submit(agent)
    ann, bob = yard.claim(count=2, lease_secs=3600)
    yard.now += 30
    yard.complete(ann)
    yard.now += 60
    assert {name: each.received for name, each in shares(yard).items()} == {"ann": 0.25, "bob": 0.75, "cy": 0.0}
    yard.complete(bob)
    yard.now += 700
    assert {name: each.received for name, each in shares(yard).items()} == {"cy": 0.0}


def test_slot_time_is_that_of_the_last_ten_minutes():
    start = 6_000.0
    times = SlotTime()
    times.add_time(start - 5_000, start + 30)
    assert times.total(start + 30) == 630
    times.add_time(start + 40, start + 100)
    assert times.total(start + 100) == 690 - 60
    times.add_time(start + 10, start + 110)
    assert times.total(start + 110) == 630 + 100
    assert times.total(start + 600) == 30 + 20 + 50 + 40 + 50
    assert times.total(start + 660) == 40 + 50
    assert times.total(start + 100_000) == 0
