"""The weights of the model's agents, written from docs/rules.md alone (Weights)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from .model_records import Agent

Turn = tuple[Fraction, int, bool, int]


class Weights:
    """Whose turn it is, with what each agent has passed, in units of 2^-32."""

    def __init__(self) -> None:
        self._by_pattern: dict[str, int] = {}
        self._passed: dict[int, int] = {}
        """By when the agent came: one that comes anew has passed nothing."""
        self._front = 0

    def put(self, weights: Mapping[str, int]) -> None:
        """All agents begin equal once one may weigh more than 1."""
        if not self._matter():
            self.begin_equal()
        self._by_pattern = dict(weights)

    def begin_equal(self) -> None:
        self._passed.clear()
        self._front = 0

    def turn(self, name: str, agent: Agent, load: int) -> Turn:
        """The least is served next."""
        passed = self._passed.get(agent.came, 0) if self._matter() else 0
        last = agent.came if agent.served is None else agent.served
        return Fraction(load, self._of(name)), passed, agent.served is not None, last

    def serve(self, name: str, agent: Agent) -> None:
        """What it lags behind is forgotten but for one round."""
        passed = max(self._passed.get(agent.came, 0), self._front - 2**32)
        self._front = max(self._front, passed)
        self._passed[agent.came] = passed + 2**32 // self._of(name)

    def _matter(self) -> bool:
        return any(weight > 1 for weight in self._by_pattern.values())

    def _of(self, name: str) -> int:
        """That of the name itself, else of its longest beginning."""
        if name in self._by_pattern:
            return self._by_pattern[name]
        beginnings = [name[:length] + "*" for length in range(len(name), -1, -1)]
        return next((self._by_pattern[each] for each in beginnings if each in self._by_pattern), 1)
