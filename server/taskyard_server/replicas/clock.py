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
"""By how many seconds a second the clock may follow the store's."""


class SharedClock(SteadyClock):
    """An engine's clock. `steady` is the machine's monotonic one."""

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        super().__init__(steady)
        self._is_set = False
        self._last = 0.0
        self._followed_at = 0.0
        self._store_offset = self._offset

    def __call__(self) -> float:
        # While it is led back it stands still.
        self._last = max(self._last, self._offset + self._steady())
        return self._last

    def wall(self) -> float:
        """The store's time, which may jump."""
        return self._store_offset + self._steady()

    def follow(self, at: float, sent_at: float, received_at: float) -> None:
        """The store showed `at` between two readings of the steady clock."""
        self._store_offset = at - (sent_at + received_at) / 2
        if not self._is_set:
            self._is_set = True
            self._offset = self._store_offset
        else:
            most = SLEW * max(0.0, received_at - self._followed_at)
            self._offset += max(-most, min(most, self._store_offset - self._offset))
        self._followed_at = received_at
