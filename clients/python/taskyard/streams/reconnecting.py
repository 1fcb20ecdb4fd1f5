"""When a host opens its next stream: soon while it may be that another server takes over, later and later after that.

There is no clock here: times are passed in, in seconds of a monotonic clock.
"""

import random
from typing import Final

from taskyard.errors import CallCancelled, TaskyardError, Unavailable

QUICK_SECS: Final = 2.0
"""A namespace changes its owner, or a server its process, well within this time."""
QUICK_DELAYS_SECS: Final = (0.05, 0.1)
FIRST_DELAY_SECS: Final = 0.1
MAX_DELAY_SECS: Final = 5.0
MAX_DELAY_WITH_LEASES_SECS: Final = 1.0
"""Leases outlive a break for seconds only."""
MAX_DELAY_AT_FIRST_SECS: Final = 2.0
FAILOVER_SECS: Final = 15.0
"""Namespaces of a replica that died are another's well within this time."""
STEADY_SECS: Final = 5.0
"""A stream that lived this long resets the delays between tries."""


class Reconnecting:
    """The delays of one host between its streams."""

    def __init__(self) -> None:
        self._since: float | None = None
        """When the last stream that worked has ended, or the first has not worked."""
        self._tries = 0
        self._came_at_once = False

    def delay(self, error: TaskyardError, was_told: bool, holds_leases: bool, began: float, now: float) -> float:
        """Choose how long to wait before the next stream.

        Args:
            error: Why the last one has ended.
            was_told: Whether its server has said that the host shall reconnect.
            holds_leases: Whether the host holds leases.
            began: When the last one was opened, in seconds.
            now: The time in seconds.

        Returns:
            The delay in seconds.
        """
        lived = now - began
        if self._since is None or lived > STEADY_SECS or (was_told and lived > QUICK_SECS / 2):
            self._since, self._tries, self._came_at_once = now, 0, False
        if was_told and not self._came_at_once:
            self._came_at_once = True
            return 0.0
        is_quick = now - self._since < QUICK_SECS and (was_told or isinstance(error, Unavailable | CallCancelled))
        if is_quick and (self._tries or self._came_at_once):
            return random.uniform(*QUICK_DELAYS_SECS)
        # All hosts have lost the same server in the same moment: even the first delay is by chance.
        limit = MAX_DELAY_AT_FIRST_SECS if now - self._since < FAILOVER_SECS else MAX_DELAY_SECS
        if holds_leases:
            limit = MAX_DELAY_WITH_LEASES_SECS
        delay = random.uniform(0, min(limit, FIRST_DELAY_SECS * 2 ** min(self._tries, 10)))
        self._tries += 1
        return delay
