"""A choice among many lines of the log: a hundred a second are written, and one that counts the rest."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog

log = structlog.get_logger(__name__)

MAX_LINES_PER_SEC: Final = 100


class Throttle:
    """Admits a hundred lines per second, counts the others by kind, and logs the counts when the second is over."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._clock = clock
        self._second = -1
        self._seen = 0
        self._counts: dict[str, int] = {}

    def admits(self, kind: str) -> bool:
        """True if this event is to be logged."""
        if not self._is_full():
            return bool(self.admits_of((kind,)))
        # Of a busy server nearly all are only counted.
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return False

    def admits_of(self, kinds: Sequence[str]) -> int:
        """How many of these events to log; the first ones are admitted."""
        admitted = 0
        if not self._is_full():
            admitted = min(MAX_LINES_PER_SEC - self._seen, len(kinds))
            self._seen += admitted
            if admitted == len(kinds):
                return admitted
            second = self._second
            asyncio.get_running_loop().call_later(1, lambda: self._flush_if_still(second))
        counts = self._counts
        for kind in kinds[admitted:]:
            counts[kind] = counts.get(kind, 0) + 1
        return admitted

    def _is_full(self) -> bool:
        """True if this second has its lines, and counts the rest."""
        second = int(self._clock())
        if second != self._second:
            self.flush()
            self._second, self._seen = second, 0
        return bool(self._counts)

    def _flush_if_still(self, second: int) -> None:
        """Log the counts of that second, unless a later event has done so."""
        if self._second == second:
            self.flush()

    def flush(self) -> None:
        """Log the counts."""
        if self._counts:
            counts, self._counts = self._counts, {}
            log.info(f"{self._what}_counted", count=sum(counts.values()), by_kind=counts)
