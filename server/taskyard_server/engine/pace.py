"""How soon one small message follows another on the same stream, so that more tasks or events share a message.

A message costs both sides as much as several tasks. While the server has time to spare, nothing waits for company.
Once it is at work half of the time, what comes alone and at its own time often finds it at work; once nearly all of the
time, whatever it is sent stands in line. Small messages would make that worse, so they wait: a little, or longer.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

BUSY_SHARE = 0.85
"""The server is busy where it was at work for more than this share of the time."""
HALF_SHARE = 0.45
"""Above this share it is half busy."""
WINDOW_SECS: Final = 0.1
"""The least time over which that is looked at."""


class Busyness:
    """The share of the time for which the thread of the event loop is at work.

    `clock` and `worked` give seconds that only grow. The threads of grpc do not count: they have the other cores.
    """

    def __init__(self, clock: Callable[[], float], worked: Callable[[], float]) -> None:
        self._clock, self._worked = clock, worked
        self._looked_at, self._worked_then = clock(), worked()
        self._share = 0.0

    def share(self) -> float:
        """The share of the last while."""
        passed = self._clock() - self._looked_at
        if passed >= WINDOW_SECS:
            worked = self._worked()
            self._share = (worked - self._worked_then) / passed
            self._looked_at += passed
            self._worked_then = worked
        return self._share


class Pace:
    """When one stream was sent a message.

    While the server is busy, small ones are at least `secs` apart. While it is half busy, they wait for that at most
    `short_secs`.
    """

    def __init__(self, busyness: Busyness, secs: float, short_secs: float) -> None:
        self._busyness = busyness
        self._secs, self._short_secs = secs, short_secs
        self._sent_at = -inf

    def sent(self, now: float) -> None:
        """Note that a message was sent."""
        self._sent_at = now

    def wait_secs(self, now: float) -> float:
        """How much later a small message is to be sent; 0 or less if it may be sent now."""
        left = self._sent_at + self._secs - now
        if left <= 0:
            return 0.0
        share = self._busyness.share()
        if share > BUSY_SHARE:
            return left
        return min(left, self._short_secs) if share > HALF_SHARE else 0.0
