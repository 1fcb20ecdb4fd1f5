"""Brute force and the simulation find what they are for, of concurrency keys: each breach of a rule is caught."""

from __future__ import annotations

from random import Random

import pytest

from taskyard_server.core.grants import Grants
from taskyard_server.core.queue.keys import Keys
from taskyard_server.core.queue.ready_queue import ReadyQueue
from taskyard_server.core.queue.strands import Node, Stand, Strands
from taskyard_server.core.queue.token_bucket import TokenBucket
from taskyard_server.core.restoring import Restoring
from tests.core.queue.test_ready_queue import ABLE, MIXES, take_a_step
from tests.core.twin_schedulers import TwinSchedulers

from .breach_histories import Histories
from .restarts import RestartingSimulation
from .simulator import Simulation
from .test_mutations import Edit, mutate

# They rewrite the core.
pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

STEPS = 600
SEEDS = range(0, 60, 5)
"""Only these histories have keys."""
HISTORIES = Histories(Simulation, SEEDS, STEPS)
WITH_RESTARTS = Histories(RestartingSimulation, SEEDS, STEPS)

MUTATIONS: dict[str, list[Edit]] = {
    "a task that leaves flight keeps its places": [
        (Grants, "end", "life.ready.keys.release(now, task.options.extras.concurrency_keys)", "pass"),
    ],
    "a hand-out takes no place": [(Keys, "took", "key.inflight += 1", "pass")],
    "a hand-out takes no token": [(Keys, "took", "key.tokens.take(self.now)", "pass")],
    "one place more than the limit": [
        (Keys, "_settle", "key.inflight >= key.max_inflight", "key.inflight > key.max_inflight"),
        (Keys, "took", "key.inflight >= key.max_inflight", "key.inflight > key.max_inflight"),
    ],
    "only the first key of a task counts": [
        (Keys, "full_key", "for key in strand.keys:", "for key in strand.keys[:1]:")
    ],
    "a key that has room again wakes nobody": [(Strands, "_open", "self._wake(bucket)", "pass")],
    "a key that has room again opens no node": [(Strands, "_open", "bucket.open_nodes[node] = None", "pass")],
    "tokens that come open nothing": [(Keys, "look", "self._open_or_note(key)", "pass")],
    "who waits at an open node is the last choice": [
        (Strands, "_best_of_node", "best.agent.rank < lane.agent.rank", "True"),
    ],
    "who waits at an open node is the first choice": [
        (Strands, "_best_of_node", "best.agent.rank < lane.agent.rank", "False"),
    ],
    "an agent that moves ahead stays where it is in nodes": [
        (ReadyQueue, "release_slot", "self._keyed.advances.add(agent)", "pass"),
    ],
    "a node that catches up leaves out who moved ahead": [(Node, "front", "self.enter(ahead)", "pass")],
    "a strand is not moved on to its other full key": [
        (Strands, "_front_of_node", "key = self._keys.full_key(strand)", "key = None"),
    ],
    "a better head leaves its strand where it was": [(Strands, "add", "stand.enter(strand)", "pass")],
    "strands stand by the heads that they had": [
        (Stand, "first", "if order == entry:", "if True:"),
    ],
    "tasks without keys go before those with keys": [
        (Strands, "front", "comes_before(plain, strand.head())", "True"),
    ],
    "a burst is one token more": [
        (TokenBucket, "__init__", "if burst is None else burst", "if burst is None else burst + 1")
    ],
    "a bucket fills twice as fast": [(TokenBucket, "_fill", "self._per_unit * (at", "2 * self._per_unit * (at")],
    "a bucket keeps what is above its burst": [
        (
            TokenBucket,
            "_fill",
            "min(self._full, self._credit + self._per_unit * (at - self._at))",
            "self._credit + self._per_unit * (at - self._at)",
        ),
    ],
    "another limit gives a key a full bucket": [(Keys, "_apply", "key.tokens.fill_from(self.now, tokens)", "pass")],
    "another limit begins full": [(Keys, "_rule", "idle.fill_from(self.now, known[1].idle)", "pass")],
    "other limits open nothing": [
        (Keys, "set_limits", "if key.nodes:", "if False:"),
    ],
}
RESTARTS: dict[str, list[Edit]] = {
    "a restart forgets who holds a place": [
        (Restoring, "live", "life.ready.keys.restore(task.options.extras.concurrency_keys)", "pass"),
    ],
    "buckets are full after a restart": [(Restoring, "finish", "life.ready.keys.begin_empty(now)", "pass")],
}


def run(breach: str | None = None) -> int:
    """A few short histories, of claims beside brute force and of all commands beside the model; how many steps."""
    for name, mix in MIXES.items():
        if mix.keys:
            draw = Random(name)
            twins = TwinSchedulers(mix.max_inflight, mix.max_per_agent_inflight, mix.ttl_secs)
            twins.register("host-0", ABLE)
            for _ in range(STEPS):
                take_a_step(twins, draw, mix)
            twins.compare_keys()
    return HISTORIES.play(breach)


@pytest.mark.parametrize("breach", MUTATIONS)
def test_a_broken_rule_is_caught(monkeypatch, breach):
    for edit in MUTATIONS[breach]:
        mutate(monkeypatch, *edit)
    with pytest.raises(AssertionError):
        run(breach)


@pytest.mark.parametrize("breach", RESTARTS)
def test_a_rule_of_restarts_that_is_broken_is_caught(monkeypatch, breach):
    for edit in RESTARTS[breach]:
        mutate(monkeypatch, *edit)
    with pytest.raises(AssertionError):
        WITH_RESTARTS.play(breach)


@pytest.mark.timeout(300)
def test_the_same_histories_pass_with_no_rule_broken(monkeypatch):
    every = MUTATIONS | RESTARTS
    for (owner, name), words in {edit[:2]: edit[2] for edits in every.values() for edit in edits}.items():
        mutate(monkeypatch, owner, name, words, words)
    assert run() == len(SEEDS) * STEPS
