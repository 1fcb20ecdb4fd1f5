"""The one timer of an engine. It knows when the process stood still, and then rings a little later.

What arrived during a stall, heartbeats above all, is so read before anything expires.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from taskyard_server.engine.clock import Clock

STALL_SECS: Final = 0.1
"""A ring that is so late means that the process stood still."""
CATCH_UP_SECS: Final = 0.25
CATCH_UP_SECS_PER_STREAM: Final = 0.0005
"""What a stall is followed by, and for each stream that there is."""


class Alarm:
    """Calls `ring` at the time that was set. `streams` tells how many may have something to be read."""

    def __init__(self, clock: Clock, ring: Callable[[], None], streams: Callable[[], int]) -> None:
        self._clock = clock
        self._ring = ring
        self._streams = streams
        self._timer: asyncio.TimerHandle | None = None
        self._at: float | None = None
        self._rings_at = 0.0
        self._catching_up = False

    def set(self, at: float | None) -> None:
        """Ring at that time by the engine's clock; None is never. The last call counts."""
        if self._catching_up or at == self._at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        if at is not None:
            secs = max(0.0, at - self._clock())
            # By the machine's own clock, whatever the engine's is: it tells whether the process stood still.
            self._rings_at = time.monotonic() + secs
            self._timer = asyncio.get_running_loop().call_later(secs, self._on_time)

    def _on_time(self) -> None:
        self._at = None
        if not self._catching_up and time.monotonic() - self._rings_at > STALL_SECS:
            self._catching_up = True
            secs = CATCH_UP_SECS + self._streams() * CATCH_UP_SECS_PER_STREAM
            self._timer = asyncio.get_running_loop().call_later(secs, self._on_time)
            return
        self._catching_up = False
        self._ring()
