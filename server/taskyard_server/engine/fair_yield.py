"""Slices of large work: who may do the next one, so that what is small and alone waits for little of it.

Everything shares one event loop. A message with fifty tasks takes as long as several lone ones, and a lone one needs
several passes of the loop, from the call to the hand-out. So large work is done in slices: one a pass, in the order of
asking, and none while a call that has just come is on its way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from .pace import Busyness

SMALL: Final = 8
"""Up to this many tasks or reports in a message are small: they wait for nobody."""
SLICE: Final = 25
"""How much is done in a pass while small work comes, in tasks to submit, of which each takes some 20 us."""
A_REPORT: Final = 0.5
A_CHUNK: Final = 0.25
AN_ASSIGNMENT: Final = 0.5
A_DELIVERY: Final = 2
"""The work of a report, of a chunk of output, of sending an assignment, and of sending events to a watcher, in the same
measure."""
WHOLE: Final = 100
"""How much is done in a pass while none comes: every pass has its price."""
SHARED_SECS: Final = 0.25
"""So long after something small has come, more may come."""
ARRIVAL_PASSES: Final = 3
"""From the bytes of a call until it is noticed."""
PASSES: Final = 3
"""From the command of a call until its hand-out is written."""
MAX_WAIT_SECS: Final = 0.001
"""Large work waits for small work no longer than this before each pass, so that it goes on beside any amount."""


class FairYield:
    """Permits slices: `await take(...)` comes back when the caller may do one. `clock` gives seconds that only grow.

    It belongs to one event loop. `busyness` says whether that has time to spare.
    """

    def __init__(self, clock: Callable[[], float], busyness: Busyness) -> None:
        self.busyness = busyness
        self._clock = clock
        self._waiting: deque[tuple[asyncio.Future[None], float]] = deque()
        self._left = 0.0
        self._is_running = False
        self._small_at = float("-inf")
        self._arriving = 0
        self._passes = 0
        self._since: float | None = None

    def call_comes(self) -> None:
        """A call has come, whose message is still to be read."""
        self._small_at = self._clock()
        self._arriving += 1

    def call_came(self) -> None:
        """A call that had come is served in this pass."""
        if self._arriving:
            self._arriving -= 1
        self._passes = PASSES

    def small_came(self) -> None:
        """Something small has come on an open stream, and is done in this pass."""
        self._small_at = self._clock()
        self._passes = PASSES

    @property
    def is_shared(self) -> bool:
        """True if something small has come lately: then nothing small should wait for company."""
        return self._clock() - self._small_at < SHARED_SECS

    @property
    def slice_size(self) -> int:
        """How many tasks or reports make a slice now."""
        return SLICE if self.is_shared else WHOLE

    async def take(self, work: float) -> None:
        """Wait until this much work may be done (see `SLICE`), which is then done without a further wait."""
        if not self._is_running:
            self._is_running = True
            self._left = float(self.slice_size)
            asyncio.get_running_loop().call_soon(self._pass)
        if self._left > 0 and not (self._waiting or self._arriving or self._passes):
            self._left -= work
            return
        permit: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((permit, work))
        await permit

    def _pass(self) -> None:
        """Permit the slices of the next pass, unless small work is on its way."""
        is_shared = self.is_shared
        size = SLICE if is_shared else WHOLE
        if is_shared and self._left < size:
            # What came during the last slices is noticed only some passes later.
            self._passes = max(self._passes, ARRIVAL_PASSES)
            self._left = float(size)
        if self._arriving or self._passes:
            now = self._clock()
            if self._since is None:
                self._since = now
            if now - self._since < MAX_WAIT_SECS:
                self._passes = max(0, self._passes - 1)
                asyncio.get_running_loop().call_soon(self._pass)
                return
            # A call that has ended before it was served counts no longer, either.
            self._arriving = self._passes = 0
        self._since, self._left = None, float(size)
        while self._waiting and self._left > 0:
            permit, work = self._waiting.popleft()
            if not permit.done():
                permit.set_result(None)
                self._left -= work
        if self._left < size:
            asyncio.get_running_loop().call_soon(self._pass)
        else:
            self._is_running = False
