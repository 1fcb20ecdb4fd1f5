"""Which due times of a schedule have been dealt with, so that none is again, wherever the clock goes. Plain values."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

# Not Final, which would compile it in: tests change it.
MAX_RUNS = 32
"""So many runs are kept apart. Of more the two nearest become one: what lies between never comes."""


class Run(NamedTuple):
    """Due times that follow one another: from the first of them until before the first that is another one's."""

    first: float
    until: float


def with_one_more(runs: tuple[Run, ...], due: float, following: float | None) -> tuple[Run, ...]:
    """A due time is dealt with; `following` is the next one of the cadence, None after the last."""
    until = inf if following is None else following
    if runs and runs[-1].until == due:
        return (*runs[:-1], Run(runs[-1].first, until))
    before = [run for run in runs if run.until < due]
    beside = [run for run in runs if run.until >= due and run.first <= until]
    after = [run for run in runs if run.first > until]
    joined = Run(min([due, *[run.first for run in beside]]), max([until, *[run.until for run in beside]]))
    found = [*before, joined, *after]
    if len(found) > MAX_RUNS:
        nearest = min(range(len(found) - 1), key=lambda index: found[index + 1].first - found[index].until)
        found[nearest : nearest + 2] = [Run(found[nearest].first, found[nearest + 1].until)]
    return tuple(found)


def skip(runs: tuple[Run, ...], due: float | None) -> float | None:
    """The first due time from this one on that has not been dealt with, None if there is none."""
    for run in runs:
        if due is not None and run.first <= due < run.until:
            due = None if run.until == inf else run.until
    return due
