"""Weights of agents, and where they put an agent among the others (docs/rules.md, Weights).

While no pattern gives another weight than 1, `ready_queue.py` ranks agents without this file. Otherwise an agent ranks
by what it has in flight for its weight; then by its *pass*, which grows by `1 / weight` with each hand-out and so
shares what one agent after the other gets; then by when it was served last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from taskyard_server.core.patterns import PatternTable

if TYPE_CHECKING:
    from taskyard_server.core.agents import Agent

MAX_WEIGHT: Final = 1000

SHARE_BITS: Final = 21
"""Two different numbers in flight / weight differ by 1 / 1,000,000 at least: so many bits tell them apart."""
PASS_UNIT: Final = 1 << 32
TIE_BREAK_BITS: Final = 48
TIE_BREAK_MASK: Final = (1 << TIE_BREAK_BITS) - 1
PASS_BITS: Final = 96
"""More than hand-outs can ever fill."""
AT_LIMIT: Final = 1 << 224
"""Above all else in the rank of an agent that has as many tasks in flight as it may: it comes after all others."""


class Weights:
    """The weights in force. It owns each agent's `weight` and `passed`, the latter in units of 2^-32.

    `in_force` is false while every agent has the weight 1: then nothing else here counts. `front` is the
    most that an agent had passed before it was served.
    """

    __slots__ = ("_table", "front", "in_force", "max_per_agent")

    def __init__(self) -> None:
        self.in_force = False
        self.max_per_agent = 0
        self._table: PatternTable[int] = PatternTable({})
        self.front = 0

    def replace(self, weights: Mapping[str, int], agents: Iterable[Agent]) -> None:
        """Put weights by pattern in force, 1 to 1,000. Passes begin equal when weights come into use."""
        self._table = PatternTable(weights)
        were_in_force = self.in_force
        self.in_force = max(weights.values(), default=1) > 1
        for agent in agents:
            agent.weight = self.of(agent.id)
            if not were_in_force:
                agent.passed = 0

    def of(self, agent_id: str) -> int:
        """The weight of an agent."""
        found = self._table.match(agent_id)
        return 1 if found is None else found[1]

    def serve(self, agent: Agent) -> None:
        """An agent is handed a task: its pass grows. What it lags behind the others is forgotten but for one round.

        Without any lag an agent would lose what others are handed while its own task holds the place that is due to it.
        """
        passed = agent.passed
        if passed < self.front - PASS_UNIT:
            passed = self.front - PASS_UNIT
        if passed > self.front:
            self.front = passed
        agent.passed = passed + PASS_UNIT // agent.weight

    def rank(self, agent: Agent, tie_break: int) -> int:
        """The rank of an agent; `tie_break` orders those that are equal but for that."""
        share = (agent.inflight << SHARE_BITS) // agent.weight
        rank = (share << PASS_BITS | agent.passed) << TIE_BREAK_BITS | tie_break
        return rank if agent.inflight < self.max_per_agent else rank | AT_LIMIT
