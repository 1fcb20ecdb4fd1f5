"""When schedules are due: cron expressions, intervals and single times (docs/rules.md, Cron, Intervals).

cronsim knows the calendar but no time zones; this module makes instants of its local times. All times are seconds
since the epoch. Cadences are values: equal ones are due at the same times.
"""

import math
import re
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache, lru_cache
from importlib.resources import files
from json import dumps
from typing import ClassVar, Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from taskyard_server.core.errors import BadRequest

MAX_CRON_CHARS: Final = 256
MAX_QUOTED_CHARS: Final = 64
MIN_INTERVAL_SECS: Final = 1
MAX_INTERVAL_SECS: Final = 3650 * 86_400
YEAR_10000: Final = 253_402_300_800.0
UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
INTERVAL: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd])")
TERM: Final = re.compile(r"(?:\*|([0-9A-Za-z]{1,3})(?:-([0-9A-Za-z]{1,3}))?)(?:/([0-9]{1,2}))?")
SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression in a time zone, made by `parse_cron`.

    A day matches if the day of the month or the day of the week does; if one of these fields begins with `*`, both must
    match.

    Changes of the local time follow the rules of Debian's cron. If neither minute nor hour begins with `*`, a time that
    the clock skips is due at the first instant after the gap, and a time that comes twice is due the first time. All
    other expressions are due whenever the local clock shows a matching time: not in a gap, and twice in an hour that
    repeats.
    """

    expression: str
    zone: str
    by_wall: ClassVar[bool] = True

    def next_after(self, at: float, since: float) -> float | None:  # noqa: ARG002
        """The first due time after `at`, None if there is none before the year 10000. `since` is ignored."""
        return _due(self.expression, self.zone, math.floor(at), False) if abs(at) < YEAR_10000 else None

    def last_until(self, at: float, since: float) -> float | None:  # noqa: ARG002
        """The latest due time that is not after `at`, None if there is none. `since` is ignored."""
        return _due(self.expression, self.zone, math.floor(at), True) if abs(at) < YEAR_10000 else None


@dataclass(frozen=True, slots=True)
class Every:
    """Each whole multiple of `secs` after the start of the schedule, made by `parse_interval` from `text`."""

    text: str
    secs: float
    by_wall: ClassVar[bool] = False

    def next_after(self, at: float, since: float) -> float | None:
        """The first `since` + n * `secs`, n >= 1, after `at`, None if there is none before the year 10000."""
        if not abs(at) < YEAR_10000:
            return None
        # The division may round to the wrong n when `at` is a due time or next to one. The sum decides.
        n = max(1, int((at - since) // self.secs))
        while since + n * self.secs <= at:
            n += 1
        due = since + n * self.secs
        return due if due < YEAR_10000 else None

    def last_until(self, at: float, since: float) -> float | None:
        """The latest `since` + n * `secs`, n >= 1, that is not after `at`, None before the first."""
        if not abs(at) < YEAR_10000:
            return None
        n = int((at - since) // self.secs) + 1
        while n >= 1 and since + n * self.secs > at:
            n -= 1
        return since + n * self.secs if n >= 1 else None


@dataclass(frozen=True, slots=True)
class Once:
    """One instant."""

    at: float
    by_wall: ClassVar[bool] = True

    def next_after(self, at: float, since: float) -> float | None:  # noqa: ARG002
        """The instant if it is after `at`, else None. `since` is ignored."""
        return self.at if self.at > at else None

    def last_until(self, at: float, since: float) -> float | None:  # noqa: ARG002
        """The instant if it is not after `at`, else None. `since` is ignored."""
        return self.at if self.at <= at else None


def parse_cron(expression: str, zone: str) -> Cron:
    """Parse five fields separated by spaces or tabs, in the IANA time zone of this name.

    Each field is a list of `*`, values and ranges. `*` and ranges may have a step, at most the field's largest value.
    Months and days of the week may be names. The cadence keeps the expression with single spaces between its fields.

    Raises `BadRequest` for a malformed field, an expression that is never due, and an unknown time zone.
    """
    if len(expression) > MAX_CRON_CHARS:
        raise BadRequest(f"cron: must be at most {MAX_CRON_CHARS} characters")
    given = re.split("[ \t]+", expression.strip(" \t"))
    if len(given) != len(FIELDS):
        names = ", ".join(field.name for field in FIELDS)
        raise BadRequest(f"cron: must be five fields ({names}), got {_quoted(expression)}")
    for field, text in zip(FIELDS, given, strict=True):
        if not all(field.takes(term) for term in text.split(",")):
            raise BadRequest(
                f"cron: the {field.name} must be {field.legend} with *, lists, ranges and steps, got {_quoted(text)}"
            )
    check_zone(zone)
    cron = Cron(" ".join(given), zone)
    try:
        _calendar(cron.expression)
    except CronSimError:
        raise BadRequest("cron: never comes: none of its months has such a day of the month") from None
    return cron


def check_zone(name: str) -> None:
    """Raises `BadRequest` unless this is the name of an IANA time zone."""
    if name not in _zones():
        raise BadRequest(f"timeZone: unknown time zone {_quoted(name)}")


def parse_interval(text: str) -> Every:
    """Parse a number and its unit (docs/rules.md, Intervals). Raises `BadRequest`."""
    match = INTERVAL.fullmatch(text)
    secs = Decimal(match[1]) * UNITS[match[2]] if match else Decimal(0)
    if not MIN_INTERVAL_SECS <= secs <= MAX_INTERVAL_SECS:
        raise BadRequest(f"interval: must be from 1s to 3650d, such as 30s, 10m, 1.5h or 1d, got {_quoted(text)}")
    return Every(text, float(secs))


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    legend: str
    values: Mapping[str, int]
    max_step: int

    def takes(self, term: str) -> bool:
        """True if one element of a list is well-formed. cronsim and some other crons are less strict."""
        match = TERM.fullmatch(term)
        if match is None or (match[3] is not None and not 1 <= int(match[3]) <= self.max_step):
            return False
        if match[1] is None:
            return True
        low = self.values.get(match[1].upper())
        if match[2] is None:
            return low is not None and match[3] is None
        high = self.values.get(match[2].upper())
        # cronsim would read a step from a single value as open-ended.
        return low is not None and high is not None and (low < high or (low == high and match[3] is None))


def _field(name: str, least: int, most: int, names: str = "") -> _Field:
    values = {numeral: value for value in range(least, most + 1) for numeral in (str(value), f"{value:02}")}
    words = names.split()
    values |= {word: value for value, word in enumerate(words, least)}
    legend = f"{least} to {most}" + (f" or {words[0]} to {words[-1]}" if words else "")
    return _Field(name, legend, values, most)


FIELDS: Final = (
    _field("minute", 0, 59),
    _field("hour", 0, 23),
    _field("day of the month", 1, 31),
    _field("month", 1, 12, "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"),
    _field("day of the week", 0, 7, "SUN MON TUE WED THU FRI SAT"),
)


def _quoted(text: str) -> str:
    return dumps(text[:MAX_QUOTED_CHARS])


@cache
def _zones() -> frozenset[str]:
    # The package lists the names of zones only; the system's folder also has files such as `localtime`.
    return frozenset(files("tzdata").joinpath("zones").read_text().split())


@cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


@lru_cache(maxsize=1024)
def _calendar(expression: str) -> CronSim:
    # Parsing takes half of the time of a look-up. Callers copy the result, because iteration changes it.
    return CronSim(expression, datetime.min)


@lru_cache(maxsize=1024)
def _due(expression: str, zone_name: str, at: int, back: bool) -> float | None:
    """The first due time after `at`, or with `back` the last one that is not after it."""
    # Cached, because many schedules are due at the same full hour and each needs its next due time.
    zone = _zone(zone_name)
    minute, hour = expression.split(" ", 2)[:2]
    wildcard = minute.startswith("*") or hour.startswith("*")
    found: list[float] = []
    try:
        here = datetime.fromtimestamp(at, zone).replace(tzinfo=None, fold=0)
        first, second = _readings(here, zone)
        # In an hour that repeats, a matching local time may come before or after the current one.
        repeated = timedelta(seconds=max(0.0, second - first))
        walk = copy(_calendar(expression))
        walk.dt = here + repeated + SECOND if back else here - repeated
        walk.tick_direction = -1 if back else 1
        for local in walk:
            found += [due for due in _instants(local, zone, wildcard) if (due <= at if back else due > at)]
            if found and (local <= here if back else local > here):
                break
    except (OverflowError, ValueError):
        # The calendar ends before the due time.
        pass
    return (max if back else min)(found, default=None)


def _instants(local: datetime, zone: ZoneInfo, wildcard: bool) -> tuple[float, ...]:
    """The instants at which `local`, a matching local time, is due."""
    first, second = _readings(local, zone)
    if first == second:
        return (first,)
    if first < second:
        return (first, second) if wildcard else (first,)
    return () if wildcard else (_gap_end(int(second), int(first), zone),)


def _readings(local: datetime, zone: ZoneInfo) -> tuple[float, float]:
    """The instants when the clock shows `local`: equal, or rising if it does so twice, or falling in a gap."""
    return local.replace(tzinfo=zone).timestamp(), local.replace(tzinfo=zone, fold=1).timestamp()


def _gap_end(before: int, after: int, zone: ZoneInfo) -> float:
    """The instant between these two at which the offset changes."""
    offset = datetime.fromtimestamp(after, zone).utcoffset()
    while after - before > 1:
        middle = (before + after) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == offset:
            after = middle
        else:
            before = middle
    return float(after)
