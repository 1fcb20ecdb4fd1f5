"""How soon one message with a few tasks follows another to the same host, so that more tasks share a message.

A message costs both sides as much as several tasks. Where a server or a host is behind, what it is sent stands in line
behind what came before, and small messages make the line longer. How long it is shows in how long a host takes to
report on a message, beyond the shortest time that it ever took. While there is no line nothing waits.
"""

from __future__ import annotations

from math import inf
from typing import Final

from taskyard_server.core.leases import Lease

UNNOTICED_SECS: Final = 0.002
"""A line up to here is taken as none."""
TIMES_THE_LINE: Final = 8
MAX_SECS_BETWEEN: Final = 0.03


class HandOutPace:
    """When one stream was sent tasks, and how long its host takes to report on them."""

    def __init__(self) -> None:
        self._sent_at = -inf
        self._timed: Lease | None = None
        self._timed_at = 0.0
        self._shortest = inf
        self._secs_between = 0.0

    def sent(self, now: float, lease: Lease) -> None:
        """Note that a message was sent, with this lease first."""
        self._sent_at = now
        if self._timed is None:
            self._timed, self._timed_at = lease, now

    def reported(self, now: float) -> None:
        """Note that the host has reported on something."""
        timed = self._timed
        # A lease that ends without a report tells nothing, but keeps its task in memory.
        if timed is None or (timed.started_at is None and timed.task.lease is timed):
            return
        self._timed = None
        took = now - self._timed_at
        self._shortest = min(self._shortest, took)
        line = took - self._shortest - UNNOTICED_SECS
        self._secs_between = min(max(TIMES_THE_LINE * line, 0.0), MAX_SECS_BETWEEN)

    def wait_secs(self, now: float) -> float:
        """How much later a message with few tasks is to be sent; 0 or less if it may be sent now."""
        return self._sent_at + self._secs_between - now
