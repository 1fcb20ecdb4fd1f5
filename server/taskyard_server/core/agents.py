"""Agents: one record for each submitter that has a task, and the figures of those that had one.

An agent needs no registration. Its first task makes its record, and the record goes with its last retained task. Its
figures outlive the record, but only those of the newest agents: made-up names must not fill the memory.

This file does not know the order of agents; `ready_queue.py` does.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from .slot_time import SlotTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .queue.bucket import Bucket
    from .queue.lane import Lane
    from .queue.ready_queue import ReadyQueue

OTHERS: Final = "(others)"
"""The name under which the figures of forgotten agents are summed."""


class AgentFigures(SlotTime):
    """Counts of one agent's tasks since the start, the tokens that they have used, and their time in flight.

    `number` tells them apart in a store; it is 0 once they were added to those of the others. The time is in no store.
    What changes with each task comes first, so that it lies together.
    """

    __slots__ = (
        "cancelled",
        "completed",
        "failed",
        "name",
        "number",
        "rejected",
        "submitted",
        "tokens_used",
    )

    def __init__(self, name: str, number: int) -> None:
        super().__init__()
        self.submitted = 0
        self.completed = 0
        self.name = name
        self.number = number
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

    Most agents have one `lane`; those that have several have the others in `more_lanes`. `rank`, the lanes and
    `inflight` belong to `ReadyQueue`, `weight` and `passed` to `Weights`. What each step of a task reads comes first.
    """

    __slots__ = ("figures", "id", "inflight", "lane", "more_lanes", "passed", "queued", "rank", "tasks", "weight")

    def __init__(self, agent_id: str, rank: int, weight: int = 1) -> None:
        self.rank = rank
        self.inflight = 0
        self.queued = 0
        self.tasks = 0
        self.lane: Lane | None = None
        self.figures: AgentFigures
        self.id = agent_id
        self.more_lanes: dict[Bucket, Lane] | None = None
        self.weight = weight
        self.passed = 0

    @property
    def lanes(self) -> list[Lane]:
        """Where its tasks stand that are in the ready queue, or stood."""
        if self.lane is None:
            return []
        return [self.lane] if self.more_lanes is None else [self.lane, *self.more_lanes.values()]

    def lane_in(self, bucket: Bucket) -> Lane | None:
        """The lane that it has in a bucket, if any."""
        lane = self.lane
        if lane is None or lane.bucket is bucket:
            return lane
        return None if self.more_lanes is None else self.more_lanes.get(bucket)

    def add_lane(self, lane: Lane) -> None:
        """It has a lane in a bucket where it had none."""
        if self.lane is None:
            self.lane = lane
        elif self.more_lanes is None:
            self.more_lanes = {lane.bucket: lane}
        else:
            self.more_lanes[lane.bucket] = lane

    def forget_lane(self, lane: Lane) -> None:
        """It has this lane no longer."""
        more = self.more_lanes
        if self.lane is not lane:
            assert more is not None
            del more[lane.bucket]
        else:
            self.lane = None if more is None else more.popitem()[1]
        if not more:
            self.more_lanes = None


class FiguresByAgent:
    """The figures of all agents that have tasks, and of those that had one last; the rest are summed under `OTHERS`.

    An agent that has this very name shares its figures with the rest. `on_forgotten` is told of figures that were added
    to those of the rest, and of the latter.
    """

    def __init__(self) -> None:
        self.on_forgotten: Callable[[AgentFigures, AgentFigures], None] | None = None
        self.last_number = 0
        self._present: dict[str, AgentFigures] = {}
        self._past: OrderedDict[str, AgentFigures] = OrderedDict()
        self._others: AgentFigures | None = None

    def of(self, agent_id: str, max_agents: int) -> AgentFigures:
        """The figures of an agent that has its first task. Those of `max_agents` agents are retained."""
        if agent_id == OTHERS:
            return self._sum_of_others()
        figures = self._past.pop(agent_id, None) or self._new(agent_id)
        self._present[agent_id] = figures
        self._trim(max_agents)
        return figures

    def leave(self, agent_id: str, max_agents: int) -> None:
        """Count an agent as one without tasks. The figures of `max_agents` agents are retained."""
        figures = self._present.pop(agent_id, None)
        if figures is not None:
            self._past[agent_id] = figures
            self._trim(max_agents)

    def _trim(self, max_agents: int) -> None:
        while self._past and len(self._past) + len(self._present) > max_agents:
            _, figures = self._past.popitem(last=False)
            others = self._sum_of_others()
            others.add(figures)
            if self.on_forgotten is not None:
                self.on_forgotten(figures, others)

    def _sum_of_others(self) -> AgentFigures:
        if self._others is None:
            self._others = self._new(OTHERS)
        return self._others

    def _new(self, name: str) -> AgentFigures:
        self.last_number += 1
        return AgentFigures(name, self.last_number)

    def restore(self, figures: AgentFigures) -> None:
        """Add stored figures, at first as those of an agent without tasks."""
        self.last_number = max(self.last_number, figures.number)
        if figures.name == OTHERS:
            self._others = figures
        else:
            self._past[figures.name] = figures

    def of_restored(self, agent_id: str) -> AgentFigures:
        """The figures of an agent of which a task is restored."""
        if agent_id == OTHERS:
            return self._sum_of_others()
        known = self._past.pop(agent_id, None)
        figures = self._present[agent_id] = known or self._new(agent_id)
        return figures

    def take_back(self, figures: AgentFigures, tokens_used: int) -> AgentFigures | None:
        """Give an agent a failed task back, if its figures were added to those of the others; returns the latter."""
        others = self._others
        if figures.failed > 0 or others is None or figures is others:
            return None
        figures.submitted += 1
        figures.failed += 1
        figures.tokens_used += tokens_used
        others.submitted = max(0, others.submitted - 1)
        others.failed = max(0, others.failed - 1)
        others.tokens_used = max(0, others.tokens_used - tokens_used)
        return others

    def __iter__(self) -> Iterator[tuple[str, AgentFigures]]:
        yield from self._present.items()
        yield from self._past.items()
        if self._others is not None:
            yield OTHERS, self._others


class Agents:
    """The agents that have a task, `by_id`, and all `figures`. `ready` makes the records, since it ranks agents."""

    def __init__(self, ready: ReadyQueue) -> None:
        self._ready = ready
        self.by_id: dict[str, Agent] = {}
        self.figures = FiguresByAgent()

    def add(self, agent_id: str, max_figures: int) -> Agent:
        """Make the record of an agent that has none; the figures of `max_figures` agents are retained."""
        agent = self.by_id[agent_id] = self._ready.new_agent(agent_id)
        agent.figures = self.figures.of(agent_id, max_figures)
        return agent

    def remove(self, agent: Agent, max_figures: int) -> None:
        """Drop the record of an agent whose last task is gone; the figures of `max_figures` agents are retained."""
        del self.by_id[agent.id]
        self.figures.leave(agent.id, max_figures)
