"""Agents: one record for each submitter that has a task, and the figures of those that had one.

An agent needs no registration. Its record is made by its first task and dropped with its last retained one. Its figures
outlive the record, up to a number of agents, so that callers who make up names cannot grow memory without end.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """The figures of all agents that have tasks, and of those that had one last; the rest are summed under `OTHERS`.

    An agent that has this very name shares its figures with the rest.
    """

    def __init__(self) -> None:
        self._present: dict[str, AgentFigures] = {}
        self._past: OrderedDict[str, AgentFigures] = OrderedDict()
        self._others: AgentFigures | None = None

    def of(self, agent_id: str, most: int) -> AgentFigures:
        """The figures of an agent that has a task from now on. Those of `most` agents are kept."""
        if agent_id == OTHERS:
            return self._sum_of_others()
        figures = self._past.pop(agent_id, None) or AgentFigures()
        self._present[agent_id] = figures
        self._trim(most)
        return figures

    def leave(self, agent_id: str, most: int) -> None:
        """The agent has no task any more. Figures of `most` agents are kept."""
        figures = self._present.pop(agent_id, None)
        if figures is not None:
            self._past[agent_id] = figures
            self._trim(most)

    def _trim(self, most: int) -> None:
        while self._past and len(self._past) + len(self._present) > most:
            _, figures = self._past.popitem(last=False)
            self._sum_of_others().add(figures)

    def _sum_of_others(self) -> AgentFigures:
        if self._others is None:
            self._others = AgentFigures()
        return self._others

    def __iter__(self) -> Iterator[tuple[str, AgentFigures]]:
        yield from self._present.items()
        yield from self._past.items()
        if self._others is not None:
            yield OTHERS, self._others
