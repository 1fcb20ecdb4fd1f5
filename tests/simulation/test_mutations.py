"""The simulation finds what it is for: rules of the core are broken one by one, and each breach is caught.

A mutation replaces a few words in the source of core functions, for the length of a test. The indexes are not recounted
here: what the core answers must betray it. If the core is rewritten so that the words are gone, the test says so; put
the same breach into the new words.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from textwrap import dedent

import pytest

from taskyard_server.core.lifecycle import Lifecycle
from taskyard_server.core.ready_queue import ReadyQueue
from taskyard_server.core.scheduler import Scheduler

from .simulator import Mismatch, Simulation

SEEDS, STEPS = range(1000, 1030), 500
"""A breach must be seen within 15,000 steps."""

NEVER = sys.maxsize

Edit = tuple[type, str, str, str]
"""The class, its method, the words there, and what stands there instead."""

MUTATIONS: dict[str, list[Edit]] = {
    "the fair order ignores what is in flight": [
        (ReadyQueue, "take", "agent.inflight * ONE_IN_FLIGHT + SERVED", "SERVED"),
        (ReadyQueue, "landed", "agent.rank - ONE_IN_FLIGHT", "agent.rank"),
    ],
    "an agent whose task lands does not move ahead at once": [
        (ReadyQueue, "landed", "if lane.size and rank < lane.entries[-1]", "if False"),
    ],
    "a report needs no valid token": [
        (Scheduler, "_leased", "lease.token != token or ", ""),
    ],
    "a lease may expire more than max_deliveries times": [
        (Lifecycle, "lease_expired", "task.deliveries < self.limits.max_deliveries", "True"),
    ],
    "the deadline of an ended task stays in the timers": [
        (Lifecycle, "finish", "self.deadlines.remove(task.deadline, task)", "pass"),
    ],
    "a task that is handed out still counts as queued by its agent": [
        (Lifecycle, "grant", "task.agent.queued -= 1", "pass"),
    ],
    "the higher priority number goes first": [
        (ReadyQueue, "add", "(task.priority, task.seq, task)", "(-task.priority, task.seq, task)"),
    ],
    "an agent that was never served goes last": [
        (ReadyQueue, "new_agent", "Agent(agent_id, self._turns)", "Agent(agent_id, SERVED + self._turns)"),
    ],
    "an agent gets one more than its limit": [
        (ReadyQueue, "first", "best.agent.inflight >= max_per_agent", "best.agent.inflight > max_per_agent"),
    ],
    "a lease that ends with the deadline goes before it": [
        (Lifecycle, "advance", "deadline <= lease_end", "deadline < lease_end"),
    ],
    "a task is handed out in the instant of its deadline": [
        (Scheduler, "claim", "lane.head().deadline <= now", "lane.head().deadline < now"),
    ],
    "a released task counts as delivered": [
        (Scheduler, "release", "task.deliveries -= 1", "pass"),
    ],
}


def mutate(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, words: str, instead: str) -> None:
    """Replace one method by itself with other words in it."""
    function: Callable[..., object] = getattr(owner, name)
    source = dedent(inspect.getsource(function))
    assert source.count(words) == 1, f"{owner.__name__}.{name} has no {words!r} any more"
    code = compile(source.replace(words, instead), f"<mutated {name}>", "exec", annotations.compiler_flag)
    namespace: dict[str, object] = {}
    exec(code, function.__globals__, namespace)
    monkeypatch.setattr(owner, name, namespace[name])


def run() -> int:
    """A few short histories; how many steps that were."""
    steps = 0
    for seed in SEEDS:
        simulation = Simulation(seed, recount_every=NEVER)
        try:
            simulation.run(STEPS)
        except Mismatch as mismatch:
            mismatch.add_note(f"caught after {steps + simulation.steps} steps")
            raise
        steps += simulation.steps
    return steps


@pytest.mark.parametrize("breach", MUTATIONS)
def test_a_broken_rule_is_caught(monkeypatch, breach):
    for edit in MUTATIONS[breach]:
        mutate(monkeypatch, *edit)
    with pytest.raises(Mismatch) as caught:
        run()
    print(caught.value.__notes__[0], caught.value.why)


def test_the_same_histories_pass_with_no_rule_broken(monkeypatch):
    rewritten = {(owner, name): words for edits in MUTATIONS.values() for owner, name, words, _ in edits}
    for (owner, name), words in rewritten.items():
        mutate(monkeypatch, owner, name, words, words)
    assert run() == len(SEEDS) * STEPS


def test_a_breach_is_reported_with_seed_step_and_the_last_commands(monkeypatch):
    first, second = (Simulation(1000, recount_every=NEVER) for _ in range(2))
    first.run(100)
    second.run(100)
    mutate(monkeypatch, *MUTATIONS["a report needs no valid token"][0])
    with pytest.raises(Mismatch) as caught:
        first.run(5000)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"seed 1000, step {first.steps}: {caught.value.why}"
    assert lines[1] == "last commands:"
    assert lines[21].startswith(f"  {first.steps} at ")
    assert lines[22:] == [f"to see it again: SEED=1000 STEPS={first.steps} pytest tests/simulation/test_simulation.py"]
    with pytest.raises(Mismatch) as again:
        second.run(5000)
    assert str(again.value) == str(caught.value)
