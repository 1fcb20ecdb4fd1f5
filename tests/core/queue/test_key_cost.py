"""What concurrency keys cost a cycle of submit, claim and complete, by instructions: `key_load.py` says of what.

The bounds are above what was measured by a tenth; docs/operate/performance.md has times.
"""

import pytest

from taskyard_server.core.queue.keys import KeyLimit
from tests.core.queue.key_load import KeyLoad

# The tests count instructions of the interpreter.
pytestmark = [pytest.mark.gate("counts the instructions and the memory of large queues"), pytest.mark.python_core]

CYCLES = 300
SITES = 10_000


def no_keys(_):
    return ()


def site(number):
    return (f"site:{number * 7919 % SITES}",)


def one_key(_):
    return ("all",)


def shared_and_site(number):
    return ("all", *site(number))


@pytest.fixture
def cycle(instructions):
    """The instructions of one cycle under a load."""

    def cycle(keys, limits, **load):
        its = KeyLoad(keys, limits, **load)
        its.cycles(CYCLES)
        return instructions(lambda: its.cycles(CYCLES)) / CYCLES

    return cycle


def test_ten_thousand_keys_in_use_cost_at_most_three_tenths_of_a_cycle(cycle):
    without = cycle(no_keys, {}, queued=12_000)
    assert cycle(site, {"site:*": KeyLimit(max_inflight=1)}, queued=12_000) < without * 1.3
    assert cycle(site, {"site:*": KeyLimit(max_inflight=1)}, queued=12_000, agents=1) < without * 1.3


def test_ten_thousand_keys_cost_as_much_as_a_hundred(cycle):
    few = cycle(lambda number: (f"site:{number % 300}",), {"site:*": KeyLimit(max_inflight=1)}, queued=12_000)
    assert cycle(site, {"site:*": KeyLimit(max_inflight=1)}, queued=12_000) < few * 1.1


def test_one_key_of_all_tasks_is_cheap_however_many_agents_wait_for_it(cycle):
    """A place of it comes free at a time, and goes to the agent whose turn it is."""
    without = cycle(no_keys, {}, agents=50)
    limit = {"all": KeyLimit(max_inflight=10)}
    assert cycle(one_key, limit, agents=50) < without * 1.4
    assert cycle(one_key, limit, agents=1_500) < without * 1.5


def test_a_full_key_of_all_tasks_beside_ten_thousand_others_costs_about_half_a_cycle(cycle):
    without = cycle(no_keys, {}, queued=12_000)
    limits = {"all": KeyLimit(max_inflight=10), "site:*": KeyLimit(max_inflight=1)}
    assert cycle(shared_and_site, limits, queued=12_000) < without * 1.7


def test_what_waits_at_full_keys_costs_other_tasks_nothing(cycle):
    """Half of the tasks wait for a key that has no place, and more come."""

    def half_shared(number):
        return ("all",) if number % 2 else ()

    few = cycle(half_shared, {"all": KeyLimit(max_inflight=0)}, queued=1_500)
    many = cycle(half_shared, {"all": KeyLimit(max_inflight=0)}, queued=15_000)
    assert many < few * 1.1


def test_tasks_without_keys_cost_the_same_beside_limits(cycle):
    assert cycle(no_keys, {"site:*": KeyLimit(1), "all": KeyLimit(3)}) < cycle(no_keys, {}) * 1.005


def test_a_change_of_limits_costs_by_the_keys_in_use_and_not_by_tasks(instructions):
    taken = []
    for queued in (2_000, 20_000):
        load = KeyLoad(lambda number: (f"site:{number % 100}",), {"site:*": KeyLimit(1)}, queued=queued)
        load.cycles(50)
        taken.append(
            instructions(lambda load=load: load.scheduler.keys.set_limits(load.now, {"site:*": KeyLimit(2, 5.0, 5)}))
        )
    few, many = taken
    assert many < few * 1.1
