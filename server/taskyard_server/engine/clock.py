"""The clock of an engine: wall time at its start, advanced by monotonic time.

A jump of the system clock therefore expires nothing (docs/rules.md, Time).
"""

import time
from collections.abc import Callable
from typing import TypeAlias

Clock: TypeAlias = Callable[[], float]
"""Returns seconds since the epoch; never goes back."""


class SteadyClock:
    """A clock that starts at the current wall time. `steady` is the machine's monotonic one."""

    def __init__(self, steady: Clock = time.monotonic) -> None:
        self._steady = steady
        self._offset = time.time() - steady()

    def __call__(self) -> float:
        return self._offset + self._steady()

    def start_at(self, at: float) -> None:
        """Show `at` now, where that is later than what it shows: a store has seen that time already."""
        self._offset = max(self._offset, at - self._steady())
