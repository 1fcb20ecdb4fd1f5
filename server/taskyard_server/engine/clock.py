"""The one clock of an engine: wall time at its start, and monotonic time from then on.

A jump of the system clock therefore expires nothing (DESIGN, Time).
"""

import time
from collections.abc import Callable
from typing import TypeAlias

Clock: TypeAlias = Callable[[], float]
"""Seconds since the epoch, never going back."""


def steady_clock() -> Clock:
    """A clock that starts at the present wall time."""
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()
