"""Agents: one record for each submitter that still has a task, with its place in the fair order and its counters.

An agent needs no registration. Its record is made by its first task and dropped with its last retained one, so that
callers who make up names cannot grow memory for longer than the results' TTL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .lane import Lane
    from .ready_queue import Bucket


class Agent:
    """What the scheduler knows of one agent. `rank` orders agents for claims and belongs to `ReadyQueue`."""

    __slots__ = (
        "cancelled",
        "completed",
        "failed",
        "id",
        "inflight",
        "lanes",
        "queued",
        "rank",
        "rejected",
        "submitted",
        "tasks",
        "tokens_used",
    )

    def __init__(self, agent_id: str, rank: int) -> None:
        self.id = agent_id
        self.rank = rank
        self.lanes: dict[Bucket, Lane] = {}
        self.tasks = 0
        self.queued = 0
        self.inflight = 0
        self.submitted = 0
        self.completed = 0
        self.failed = 0
        self.cancelled = 0
        self.rejected = 0
        self.tokens_used = 0
