"""The due times of a schedule that were processed, as plain values, so that none fires twice when the clock jumps."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

# Not Final: mypyc would compile the value in, and tests change it.
MAX_RANGES = 32
"""Maximum ranges of one schedule. Beyond it the two nearest are joined, and the due times between them never fire."""


class TimeRange(NamedTuple):
    """Consecutive due times: from `first`, inclusive, until `until`, exclusive."""

    first: float
    until: float


def add(ranges: tuple[TimeRange, ...], due: float, following: float | None) -> tuple[TimeRange, ...]:
    """The ranges with one more processed time, `due`; `following` is the cadence's next one, None after the last."""
    until = inf if following is None else following
    if ranges and ranges[-1].until == due:
        return (*ranges[:-1], TimeRange(ranges[-1].first, until))
    before = [each for each in ranges if each.until < due]
    beside = [each for each in ranges if each.until >= due and each.first <= until]
    after = [each for each in ranges if each.first > until]
    joined = TimeRange(min([due, *[each.first for each in beside]]), max([until, *[each.until for each in beside]]))
    found = [*before, joined, *after]
    if len(found) > MAX_RANGES:
        nearest = min(range(len(found) - 1), key=lambda index: found[index + 1].first - found[index].until)
        found[nearest : nearest + 2] = [TimeRange(found[nearest].first, found[nearest + 1].until)]
    return tuple(found)


def first_unprocessed(ranges: tuple[TimeRange, ...], due: float | None) -> float | None:
    """The first unprocessed due time from `due` on, None if there is none. `due` is itself a due time, or None."""
    for each in ranges:
        if due is not None and each.first <= due < each.until:
            due = None if each.until == inf else each.until
    return due
