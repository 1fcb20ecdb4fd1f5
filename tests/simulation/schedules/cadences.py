"""Cadences that are plain arithmetic, for the core and the model alike: cron knows nothing that these do not show.

A due time is `secs * k + offset` for whole numbers `k`, from the epoch or from when the schedule took the cadence up,
without those whose `k` falls into a hole.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Final

MOST_TIMES: Final = 400
"""Of a span of many due times so many are looked at, at each end of it."""


@dataclass(frozen=True)
class Beats:
    """Every `secs` of the wall clock, as cron, or of the steady one, as an interval; never after `until`.

    Where `k` modulo `cycle` is in `holes`, there is none.
    """

    secs: float
    offset: float = 0.0
    by_wall: bool = True
    cycle: int = 1
    holes: frozenset[int] = frozenset()
    until: float | None = None

    def next_after(self, at: float, since: float) -> float | None:
        k = self._last(at, since) + 1
        if not self.by_wall:
            k = max(1, k)
        while k % self.cycle in self.holes:
            k += 1
        due = self._at(k, since)
        return None if self.until is not None and due > self.until else due

    def last_until(self, at: float, since: float) -> float | None:
        if self.until is not None:
            at = min(at, self.until)
        k = self._last(at, since)
        while k % self.cycle in self.holes:
            k -= 1
        due = self._at(k, since)
        return due if due > since or self.by_wall else None

    def _at(self, k: int, since: float) -> float:
        return (self.offset if self.by_wall else since) + k * self.secs

    def _last(self, at: float, since: float) -> int:
        """The last `k` whose time is not after `at`."""
        k = floor((at - (self.offset if self.by_wall else since)) / self.secs)
        while self._at(k, since) > at:
            k -= 1
        while self._at(k + 1, since) <= at:
            k += 1
        return k


@dataclass(frozen=True)
class Once:
    """One time on the wall clock."""

    at: float
    by_wall: bool = True

    def next_after(self, at: float, since: float) -> float | None:  # noqa: ARG002
        return self.at if self.at > at else None

    def last_until(self, at: float, since: float) -> float | None:  # noqa: ARG002
        return self.at if self.at <= at else None


Cadence = Beats | Once


def times(cadence: Cadence, since: float, first: float, until: float) -> list[float | None]:
    """The due times from `first` on that are not after `until`; of many those at both ends, with None between."""
    if isinstance(cadence, Once):
        return [cadence.at] if first <= cadence.at <= until else []
    start = cadence.offset if cadence.by_wall else since
    end = until if cadence.until is None else min(until, cadence.until)
    low, high = floor((first - start) / cadence.secs) - 1, floor((end - start) / cadence.secs) + 1
    wanted = range(low, high + 1)
    ends = [wanted] if len(wanted) <= 2 * MOST_TIMES else [wanted[:MOST_TIMES], wanted[-MOST_TIMES:]]
    found: list[float | None] = []
    for ks in ends:
        dues = [(k, start + k * cadence.secs) for k in ks if k % cadence.cycle not in cadence.holes]
        found += [None, *(due for k, due in dues if first <= due <= end and (cadence.by_wall or k > 0))]
    return found[1:]
