"""The simulation finds what it is for, of what comes due: rules are broken one by one, and each breach is caught."""

from __future__ import annotations

import pytest

from taskyard_server.core.deadlines import Deadlines
from taskyard_server.core.grants import Grants
from taskyard_server.core.queue.lane_order import LaneOrder
from taskyard_server.core.timers import Looks

from .breach_histories import Histories
from .simulator import Mismatch, Simulation
from .test_mutations import Edit, mutate

# They rewrite the core.
pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

STEPS = 600
SEEDS = range(4)
HISTORIES = Histories(Simulation, SEEDS, STEPS, {"recount_every": 20})

MUTATIONS: dict[str, list[Edit]] = {
    "what has ended may expire": [
        (Deadlines, "_first", "task.state in TIMED", "True"),
        (Deadlines, "_pass", "task.state in TIMED", "True"),
    ],
    "only the deadline that a page had first counts": [
        (Deadlines, "add", "task.due_at < page.look_at", "page.look_at == inf"),
    ],
    "a page is looked at once": [
        (Looks, "_look_again", "at != inf", "False"),
    ],
    "a host is looked at for the end of the lease that it got first": [
        (Grants, "grant", "due < host.look_at", "host.look_at == inf"),
    ],
    "a lease that was renewed in the instant of its end never ends": [
        (Grants, "_look_again", "if lease.task.lease is lease:", "if False:"),
    ],
    "a lane stands before those that it comes after": [
        (LaneOrder, "_block_of", "blocks[high][-1].entry > entry", "False"),
        (LaneOrder, "_insert", "block[-1].entry > entry", "True"),
    ],
}


@pytest.mark.parametrize("breach", MUTATIONS)
def test_a_broken_rule_is_caught(monkeypatch, breach):
    for edit in MUTATIONS[breach]:
        mutate(monkeypatch, *edit)
    with pytest.raises((Mismatch, AssertionError)):
        HISTORIES.play(breach)


def test_the_same_histories_pass_with_no_rule_broken():
    HISTORIES.play()
