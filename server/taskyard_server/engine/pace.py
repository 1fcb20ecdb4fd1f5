"""How soon one small message follows another on the same stream, so that more tasks or events share a message.

A message costs both sides as much as several tasks. While the server has time to spare, nothing waits for company. Once
it is at work nearly all of the time, whatever it is sent stands in line, and small messages would make the line longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from typing import Final

BUSY_SHARE = 0.85
"""The server is busy where it was at work for more than this share of the time."""
WINDOW_SECS: Final = 0.1
"""The least time over which that is looked at."""


class Busyness:
    """Whether the thread of the event loop is at work nearly all of the time.

    `clock` and `worked` give seconds that only grow. The threads of grpc do not count: they have the other cores.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, worked: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock, self._worked = clock, worked
        self._looked_at, self._worked_then = clock(), worked()
        self._is_busy = False

    def is_busy(self) -> bool:
        """Whether it was, in the last while."""
        passed = self._clock() - self._looked_at
        if passed >= WINDOW_SECS:
            worked = self._worked()
            self._is_busy = worked - self._worked_then > BUSY_SHARE * passed
            self._looked_at += passed
            self._worked_then = worked
        return self._is_busy


class Pace:
    """When one stream was sent a message. While the server is busy, small ones are at least `secs` apart."""

    def __init__(self, busyness: Busyness, secs: float) -> None:
        self._busyness = busyness
        self._secs = secs
        self._sent_at = -inf

    def sent(self, now: float) -> None:
        """Note that a message was sent."""
        self._sent_at = now

    def wait_secs(self, now: float) -> float:
        """How much later a small message is to be sent; 0 or less if it may be sent now."""
        left = self._sent_at + self._secs - now
        return left if left > 0 and self._busyness.is_busy() else 0.0
