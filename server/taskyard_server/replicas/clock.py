"""The clock that all replicas of a store share: the store's time at the last renewal, and what has passed since.

The machines' own clocks may be apart by minutes. Small differences are levelled out slowly, so that nothing expires by
a step of the store's clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from taskyard_server.engine.clock import SteadyClock

SLEW: Final = 0.005
"""The seconds by which the clock may follow the store's in each second."""


class SharedClock(SteadyClock):
    """An engine's clock, which never goes back. `steady` is the machine's monotonic one."""

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        super().__init__(steady)
        self._is_set = False
        self._store_offset = self._machine_offset = self._offset
        # What is still to be levelled out, and since when.
        self._behind = 0.0
        self._since = 0.0

    def __call__(self) -> float:
        steady = self._steady()
        return self._offset + self._levelled(steady) + steady

    def wall(self) -> float:
        """The store's time, which may jump."""
        return self._store_offset + self._steady()

    def start_at(self, at: float) -> None:
        """See `SteadyClock`."""
        self._settle()
        super().start_at(at)
        self._behind = self._store_offset - self._offset

    def follow(self, at: float, sent_at: float, received_at: float) -> None:
        """The store showed `at` between two readings of the steady clock."""
        self._store_offset = at - (sent_at + received_at) / 2
        if abs(self._store_offset - self._machine_offset) <= (received_at - sent_at) / 2:
            # As far as can be told the store shows the machine's own time, which is read without such errors.
            self._store_offset = self._machine_offset
        self._settle()
        if not self._is_set:
            self._is_set = True
            self._offset = self._store_offset
        self._behind = self._store_offset - self._offset

    def _settle(self) -> None:
        """Let what was levelled out so far be a part of the offset."""
        now = self._steady()
        self._offset += self._levelled(now)
        self._since = now
        self._behind = 0.0

    def _levelled(self, steady: float) -> float:
        most = SLEW * (steady - self._since)
        return max(-most, min(most, self._behind))
