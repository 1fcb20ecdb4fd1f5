"""Due times of cron expressions by croniter and the written rules, without the code under test.

croniter lists the local times of an expression. A table of the zone's offsets, made from instants alone, turns them
into instants.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from croniter import croniter

EPOCH = datetime(1970, 1, 1)
DAY = 86_400


def seconds(moment: datetime) -> int:
    """Seconds since the epoch of a naive time, read as UTC."""
    return (moment - EPOCH) // timedelta(seconds=1)


def local_times(expression: str, start: datetime, end: datetime) -> list[int]:
    """The matching local times from `start` until before `end`, as `seconds`, by the rules of Debian's cron."""
    walk = croniter(expression, start - timedelta(seconds=1), ret_type=datetime, implement_cron_bug=True)
    found = []
    while (moment := walk.get_next()) < end:
        found.append(seconds(moment))
    return found


@dataclass(frozen=True)
class Period:
    """Instants from `begin` until before `end` with one offset from UTC."""

    begin: int
    end: int
    offset: int


@cache
def periods(zone: str, start: int, end: int) -> list[Period]:
    """The periods that cover these instants. Two changes within one hour would be missed."""
    info = ZoneInfo(zone)

    def offset(instant: int) -> int:
        seen = datetime.fromtimestamp(instant, info).utcoffset()
        assert seen is not None
        return int(seen.total_seconds())

    changes = [start]
    of_hours = [offset(hour) for hour in range(start, end + 3600, 3600)]
    for hour, (before, after) in zip(range(start, end, 3600), pairwise(of_hours), strict=True):
        if before != after:
            changes.append(next(second for second in range(hour, hour + 3601) if offset(second) != before))
    return [Period(begin, until, offset(begin)) for begin, until in pairwise([*changes, end])]


def due_times(expression: str, local: list[int], zone: list[Period]) -> list[int]:
    """The sorted instants within the periods at which these sorted local times of the expression are due."""
    minute, hour = expression.split()[:2]
    if minute.startswith("*") or hour.startswith("*"):
        return sorted(_shown(local, zone))
    return sorted(set(_once_each(local, zone)))


def _shown(local: list[int], zone: list[Period]) -> Iterator[int]:
    """All instants when the clock shows one of these local times."""
    for period in zone:
        first = bisect_left(local, period.begin + period.offset)
        behind = bisect_left(local, period.end + period.offset)
        yield from (moment - period.offset for moment in local[first:behind])


def _once_each(local: list[int], zone: list[Period]) -> Iterator[int]:
    """The instants when the clock first shows each of these local times, or has skipped it."""
    first_end = zone[0].begin + zone[0].offset
    for period in zone:
        # Local times that an earlier period has shown are done; skipped ones are due when this period begins.
        first = bisect_left(local, first_end)
        behind = bisect_left(local, period.end + period.offset)
        yield from (max(period.begin, moment - period.offset) for moment in local[first:behind])
        first_end = max(first_end, period.end + period.offset)


def neighbours(times: list[int], at: float) -> tuple[int | None, int | None]:
    """The latest of the sorted `times` that is not after `at`, and the first after it."""
    place = bisect_right(times, at)
    return (times[place - 1] if place else None), (times[place] if place < len(times) else None)
