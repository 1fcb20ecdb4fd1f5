"""The timer of an engine. It detects stalls of the process, and then rings a little later.

The delay lets the process read what arrived during the stall, mainly heartbeats, before anything expires.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from .clock import Clock

STALL_SECS: Final = 0.1
"""A timer that fires later than this means that the process was stalled."""
CATCH_UP_SECS: Final = 0.25
CATCH_UP_SECS_PER_STREAM: Final = 0.0005
"""The delay after a stall: a constant plus a part for each open stream."""
MAX_CATCH_UPS: Final = 20
"""Maximum delays in a row, so that things come due also in a process that is always late."""


class Alarm:
    """Calls `ring` at the time that was set. `count_streams` returns how many streams may have unread input.

    Stalls are detected by `monotonic`, that of the machine, since the engine's clock may be a test's, or be slewed.

    A timer fires `STALL_SECS` ahead of a ring. A stall that began earlier makes this timer late, also where it ended
    just before the ring was due, or just after; and the process had at least that long to read before it rings.
    """

    def __init__(
        self,
        clock: Clock,
        ring: Callable[[], None],
        count_streams: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._ring = ring
        self._count_streams = count_streams
        self._monotonic = monotonic
        self._timer: asyncio.TimerHandle | None = None
        self._at: float | None = None
        self._fires_at = 0.0
        self._is_ahead = False
        self._catch_ups = 0

    def set(self, at: float | None) -> None:
        """Ring at this time of the engine's clock, or never for None. Replaces the time set before."""
        if self._catch_ups or at == self._at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        if at is not None:
            secs = max(0.0, at - self._clock())
            is_ahead = secs > STALL_SECS
            self._fire_after(secs - STALL_SECS if is_ahead else secs, is_ahead)

    def catch_up(self) -> None:
        """Ring after the delay that follows a stall, whatever was set."""
        if self._timer is not None:
            self._timer.cancel()
        self._at = None
        self._catch_ups = max(1, self._catch_ups)
        self._fire_after(self._catch_up_secs())

    @property
    def is_catching_up(self) -> bool:
        """True if a stall was noticed and the delay after it is not over."""
        return self._catch_ups > 0

    def _catch_up_secs(self) -> float:
        return CATCH_UP_SECS + self._count_streams() * CATCH_UP_SECS_PER_STREAM

    def _fire_after(self, secs: float, is_ahead: bool = False) -> None:
        self._is_ahead = is_ahead
        self._fires_at = self._monotonic() + secs
        self._timer = asyncio.get_running_loop().call_later(secs, self._on_time)

    def _on_time(self) -> None:
        if self._monotonic() - self._fires_at > STALL_SECS and self._catch_ups < MAX_CATCH_UPS:
            # Also after a delay: the process may have been stalled again meanwhile.
            self._at = None
            self._catch_ups += 1
            self._fire_after(self._catch_up_secs())
        elif self._is_ahead and self._at is not None and self._clock() < self._at:
            self._fire_after(STALL_SECS)
        else:
            self._at = None
            self._catch_ups = 0
            self._ring()
