"""Which due times of a schedule have been dealt with, so that none is again, wherever the clock goes. Plain values."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

# Not Final, which would compile it in: tests change it.
MAX_RANGES = 32
"""So many ranges are kept apart. Of more the two nearest become one: what lies between never comes."""


class TimeRange(NamedTuple):
    """Due times that follow one another: from the first of them until before the first that is another one's."""

    first: float
    until: float


def add(ranges: tuple[TimeRange, ...], due: float, following: float | None) -> tuple[TimeRange, ...]:
    """A due time is dealt with; `following` is the next one of the cadence, None after the last."""
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
    """The first due time from this one on that has not been dealt with, None if there is none."""
    for each in ranges:
        if due is not None and each.first <= due < each.until:
            due = None if each.until == inf else each.until
    return due
