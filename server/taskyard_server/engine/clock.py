"""The clock of an engine: wall time at its start, advanced by monotonic time.

A jump of the system clock therefore expires nothing (docs/rules.md, Time).
"""

import time
from collections.abc import Callable
from typing import TypeAlias

Clock: TypeAlias = Callable[[], float]
"""Returns seconds since the epoch; never goes back."""


def steady_clock() -> Clock:
    """A clock that starts at the current wall time."""
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()
