"""When a host's next heartbeat is due on its stream, and whether the server still answers them.

A heartbeat rides with reports that are written in the last quarter of its interval, so that a busy host writes no
message for it.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from .watch import Watch

DEFAULT_SECS: Final = 20.0
"""The interval where the server names none."""
MIN_SECS: Final = 0.01
RIDES_FROM: Final = 0.75
"""The part of the interval after which a heartbeat rides with reports."""


class StreamBroken(Exception):
    """The stream is of no use any more, although gRPC reports no error."""


class Heart:
    """The heartbeats of a host. All times are those of the event loop, in seconds.

    Attributes:
        acknowledged_at: When the server last answered a heartbeat, or a Hello was sent that it has answered.
        is_due: Whether a heartbeat is to be written now.

    Args:
        watch: Knows whether the process stalls.
        wake: Called when a heartbeat is due.
    """

    def __init__(self, watch: Watch, wake: Callable[[], None]) -> None:
        self.acknowledged_at = 0.0
        self.is_due = False
        self._watch = watch
        self._wake = wake
        self._secs = 0.0
        self._sent_at = 0.0
        """When the last heartbeat was written, or fell due."""
        self._has_changed = asyncio.Event()

    def begin(self, interval_ms: int, now: float) -> None:
        """Begin a stream.

        Args:
            interval_ms: The interval in milliseconds, 0 for the default.
            now: The time.
        """
        self.is_due = False
        self._secs = _interval_secs(interval_ms, DEFAULT_SECS)
        self._sent_at = now
        self._has_changed.clear()

    def change_interval(self, interval_ms: int) -> None:
        """Beat at another interval, for the first time at once.

        Args:
            interval_ms: The interval in milliseconds, 0 for the present one.
        """
        self._secs = _interval_secs(interval_ms, self._secs)
        self._has_changed.set()

    def may_ride(self, now: float) -> bool:
        """Say whether it is late enough for a heartbeat that comes with reports.

        Args:
            now: The time.

        Returns:
            Whether it is.
        """
        return now - self._sent_at >= self._secs * RIDES_FROM

    def sent(self, now: float) -> None:
        """Note that a heartbeat is written: the next is due an interval later.

        Args:
            now: The time.
        """
        self.is_due = False
        self._sent_at = now

    async def beat(self, silence_secs: float) -> None:
        """Have a heartbeat written each interval, and at once when the interval changes.

        Args:
            silence_secs: How long the server may owe an answer after an interval.

        Raises:
            StreamBroken: No heartbeat was answered for this long.
        """
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._sent_at + self._secs):
                    await self._has_changed.wait()
            now = self._watch.look()
            silence = now - self.acknowledged_at - self._watch.stalled_secs(self.acknowledged_at)
            if silence > self._secs + silence_secs:
                raise StreamBroken(f"no heartbeat was answered for {silence:.1f} s")
            # Where one has gone with reports meanwhile, the next is not due yet.
            if self._has_changed.is_set() or now >= self._sent_at + self._secs:
                self._has_changed.clear()
                self._sent_at = now
                self.is_due = True
                self._wake()


def _interval_secs(ms: int, default_secs: float) -> float:
    return max(ms / 1000, MIN_SECS) if ms else default_secs
