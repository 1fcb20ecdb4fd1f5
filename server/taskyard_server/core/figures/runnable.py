"""How many tasks are runnable, by agent: found by lanes and strands, never by tasks.

The keys of tasks are shared: where a key has three places, three tasks of all that wait for it are runnable.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import TYPE_CHECKING

from taskyard_server.core.queue.strands import Strand

if TYPE_CHECKING:
    from taskyard_server.core.agents import Agent
    from taskyard_server.core.queue.bucket import Bucket
    from taskyard_server.core.queue.keys import Key, Keys
    from taskyard_server.core.queue.lane import Rows


class Room:
    """Places and tokens of keys that are left, while tasks are counted that would take them."""

    __slots__ = ("_keys", "_left")

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._left: dict[Key, float] = {}

    def take(self, rows: Rows, most: int) -> int:
        """How many of `most` tasks of one lane or strand may go on together; their places are taken then."""
        if not isinstance(rows, Strand):
            return most
        room = float(most)
        for key in rows.keys:
            left = self._left.get(key)
            if left is None:
                left = self._left[key] = self._keys.room(key)
            room = min(room, left)
        count = int(room)
        for key in rows.keys:
            self._left[key] -= count
        return count


class Waiting:
    """The runnable tasks of each agent, as far as agents' limits let them run; and since when the first is queued."""

    __slots__ = ("by_agent", "since")

    def __init__(self) -> None:
        self.by_agent: dict[Agent, int] = {}
        self.since = inf

    def add(self, buckets: Iterable[Bucket], max_per_agent: int, room: Room, beside: dict[Agent, int]) -> None:
        """Count those of these buckets; `beside` counts others of the same agents that go first."""
        for bucket in buckets:
            for rows in bucket.rows():
                agent = rows.agent
                counted = self.by_agent.get(agent, 0)
                left = max_per_agent - agent.inflight - beside.get(agent, 0) - counted
                count = room.take(rows, min(left, rows.size)) if left > 0 else 0
                if count > 0:
                    self.by_agent[agent] = counted + count
                if count > 0 or (left <= 0 and agent.inflight < max_per_agent and not isinstance(rows, Strand)):
                    self.since = min(self.since, rows.queued_since())
