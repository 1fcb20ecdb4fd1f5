"""The present time by which spans become points in time: that of this machine, or of the yard of a test."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime


def now() -> datetime:
    """Tell the present time.

    Returns:
        The time, in UTC.
    """
    return datetime.fromtimestamp(_clocks[-1](), UTC)


def go_by(clock: Callable[[], float]) -> Callable[[], None]:
    """Let all clients and hosts of this process go by another clock.

    Args:
        clock: Tells the time in seconds since the epoch.

    Returns:
        What ends it.
    """
    _clocks.append(clock)
    return lambda: _clocks.remove(clock)


_clocks: list[Callable[[], float]] = [time.time]
