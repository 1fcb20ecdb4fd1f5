"""Agents: one record for each submitter that has a task, and the figures of those that had one.

An agent needs no registration. Its first task makes its record, and the record goes with its last retained task. Its
figures outlive the record, but only those of the newest agents: made-up names must not fill the memory.

This file does not know the order of agents; `ready_queue.py` does.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from .lane import Lane
    from .ready_queue import Bucket, ReadyQueue

OTHERS: Final = "(others)"
"""The name under which the figures of forgotten agents are summed."""


class AgentFigures:
    """Counts of one agent's tasks since the start, and the tokens that they have used."""

    __slots__ = ("cancelled", "completed", "failed", "rejected", "submitted", "tokens_used")

    def __init__(self) -> None:
        self.submitted = 0
        self.completed = 0
        self.failed = 0
        self.cancelled = 0
        self.rejected = 0
        self.tokens_used = 0

    def add(self, other: AgentFigures) -> None:
        """Add another agent's figures to these."""
        self.submitted += other.submitted
        self.completed += other.completed
        self.failed += other.failed
        self.cancelled += other.cancelled
        self.rejected += other.rejected
        self.tokens_used += other.tokens_used


class Agent:
    """An agent that has a task. `tasks` counts all that are retained, `queued` and `inflight` those in these states.

    `rank`, `lanes` and `inflight` belong to `ReadyQueue`.
    """

    __slots__ = ("figures", "id", "inflight", "lanes", "queued", "rank", "tasks")

    def __init__(self, agent_id: str, rank: int) -> None:
        self.id = agent_id
        self.rank = rank
        self.lanes: dict[Bucket, Lane] = {}
        self.tasks = 0
        self.queued = 0
        self.inflight = 0
        self.figures = AgentFigures()


class FiguresByAgent:
    """The figures of the agents that were added last; the rest are summed under `OTHERS`."""

    def __init__(self) -> None:
        self._figures: OrderedDict[str, AgentFigures] = OrderedDict()
        self._others: AgentFigures | None = None

    def of(self, agent_id: str) -> AgentFigures:
        """The figures of an agent, which becomes the newest one."""
        figures = self._figures.pop(agent_id, None) or AgentFigures()
        self._figures[agent_id] = figures
        return figures

    def trim(self, max_agents: int, in_use: Container[str]) -> None:
        """Keep the figures of the newest `max_agents` agents, and of all that are `in_use`."""
        for _ in range(len(self._figures)):
            if len(self._figures) <= max_agents:
                return
            agent_id, figures = self._figures.popitem(last=False)
            if agent_id in in_use:
                # It has tasks, so it becomes the newest one.
                self._figures[agent_id] = figures
                continue
            if self._others is None:
                self._others = AgentFigures()
            self._others.add(figures)

    def __iter__(self) -> Iterator[tuple[str, AgentFigures]]:
        yield from self._figures.items()
        if self._others is not None:
            yield OTHERS, self._others


class Agents:
    """The agents that have a task, `by_id`, and all `figures`. `ready` makes the records, since it ranks agents."""

    def __init__(self, ready: ReadyQueue) -> None:
        self._ready = ready
        self.by_id: dict[str, Agent] = {}
        self.figures = FiguresByAgent()

    def add(self, agent_id: str, max_figures: int) -> Agent:
        """Make the record of an agent that has none; the figures of `max_figures` agents are kept."""
        agent = self.by_id[agent_id] = self._ready.new_agent(agent_id)
        agent.figures = self.figures.of(agent_id)
        self.figures.trim(max_figures, self.by_id)
        return agent

    def remove(self, agent: Agent) -> None:
        """Drop the record of an agent whose last task is gone; its figures stay."""
        del self.by_id[agent.id]
