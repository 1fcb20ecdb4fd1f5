"""Agents: one record for each submitter that has a task, and the figures of those that had one.

An agent needs no registration. Its record is made by its first task and dropped with its last retained one. Its figures
outlive the record, up to a number of agents, so that callers who make up names cannot grow memory without end.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from .lane import Lane
    from .ready_queue import Bucket

OTHERS: Final = "(others)"
"""The name under which the figures of forgotten agents are summed."""


class AgentFigures:
    """Counts of one agent's tasks since the start, and the tokens that they used."""

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
    """What the scheduler knows of an agent that has a task. `rank` orders agents for claims, for `ReadyQueue` alone."""

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
    """The figures of the agents that were seen last; the rest are summed under `OTHERS`."""

    def __init__(self) -> None:
        self._figures: OrderedDict[str, AgentFigures] = OrderedDict()
        self._others: AgentFigures | None = None

    def of(self, agent_id: str) -> AgentFigures:
        """The figures of an agent that is seen now."""
        figures = self._figures.pop(agent_id, None) or AgentFigures()
        self._figures[agent_id] = figures
        return figures

    def trim(self, most: int, in_use: Container[str]) -> None:
        """Keep the figures of `most` agents, and of all that are `in_use`."""
        for _ in range(len(self._figures)):
            if len(self._figures) <= most:
                return
            agent_id, figures = self._figures.popitem(last=False)
            if agent_id in in_use:
                # It has tasks, so it counts as seen.
                self._figures[agent_id] = figures
                continue
            if self._others is None:
                self._others = AgentFigures()
            self._others.add(figures)

    def __iter__(self) -> Iterator[tuple[str, AgentFigures]]:
        yield from self._figures.items()
        if self._others is not None:
            yield OTHERS, self._others
