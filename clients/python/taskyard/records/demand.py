"""The demand on the configured pools of hosts (docs/rules.md, Demand)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from taskyard.v1 import stats_pb2 as pb


@dataclass(frozen=True, slots=True)
class PoolDemand:
    """The demand on one pool of hosts, as it was when the server answered.

    Attributes:
        pool: The name of the pool.
        runnable: Tasks of the pool that could be handed out at once if its hosts had room for all.
        inflight: All that hosts of the pool hold, also while they drain or are offline.
        free_credit: How many tasks the live hosts of the pool could be handed at once.
        hosts: Live hosts of the pool.
        oldest: For how long the oldest of the runnable tasks has been queued. None while there is none.
    """

    pool: str
    runnable: int
    inflight: int
    free_credit: int
    hosts: int
    oldest: timedelta | None = None

    @classmethod
    def from_message(cls, message: pb.PoolDemand) -> PoolDemand:
        """Convert a message.

        Args:
            message: The demand as the server sends it.

        Returns:
            The demand.
        """
        return cls(
            pool=message.pool,
            runnable=message.runnable,
            inflight=message.inflight,
            free_credit=message.free_credit,
            hosts=message.hosts,
            oldest=timedelta(seconds=message.oldest_secs) if message.HasField("oldest_secs") else None,
        )
