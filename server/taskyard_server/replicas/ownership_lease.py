"""How long this replica may be believed to own what it owns.

Others may take its namespaces once its renewal is old. It stops well before: an answer, a message of a stream, a task
for a host are checked as they are written, so that a process that was stopped and woken says nothing. See
docs/operate/scaling.md, Trust.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


def boot_time() -> float:
    """Seconds since the machine started, also those in which it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class OwnershipLease:
    """Trust for `secs` after each renewal was sent. `life` counts the deaths of this replica.

    What was begun in one life is told to nobody in the next one.
    """

    def __init__(self, secs: float, clock: Callable[[], float] = boot_time) -> None:
        self.life = 0
        self.pauses = 0
        """How often the trust ended, and came back without a death."""
        self.paused_secs = 0.0
        self._secs = secs
        self._clock = clock
        self._until = 0.0
        self._waits: dict[asyncio.Future[bool], None] = {}

    @property
    def holds(self) -> bool:
        """True if it is trusted at this moment."""
        return self._clock() < self._until

    @property
    def left_secs(self) -> float:
        """How many seconds it still is."""
        return max(0.0, self._until - self._clock())

    def now(self) -> float:
        """The time of its clock, to be noted before a renewal is sent."""
        return self._clock()

    def renewed(self, sent_at: float) -> None:
        """A renewal that was sent then has succeeded."""
        if self._until and not self.holds and sent_at + self._secs > self._clock():
            self.pauses += 1
            self.paused_secs += self._clock() - self._until
        self._until = max(self._until, sent_at + self._secs)
        if self.holds:
            self._answer(True)

    def die(self) -> None:
        """It was found dead: others may own what it owned. Anyone who waits is told so."""
        self.life += 1
        self._until = 0.0
        self._answer(False)

    async def regained(self) -> bool:
        """Wait until it is trusted again. False if it was found dead instead."""
        # The process may have been stopped between the renewal and here, so it is looked at again.
        while not self.holds:
            wait: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._waits[wait] = None
            try:
                if not await wait:
                    return False
            finally:
                del self._waits[wait]
        return True

    def _answer(self, holds: bool) -> None:
        for wait in self._waits:
            if not wait.done():
                wait.set_result(holds)
