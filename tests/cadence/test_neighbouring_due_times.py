"""The next and the last due time agree for any cadence and instant: none repeats, and none is missed."""

from datetime import datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from taskyard_server.cadence import UNITS, Every, Once, parse_cron, parse_interval
from tests.cadence.oracle import DAY, due_times, local_times, neighbours, periods, seconds
from tests.cadence.sample_expressions import sample_expressions
from tests.cases import every_case
from tests.effort import times
from tests.tiers import spread

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Antarctica/Troll",
]
MINUTELY = [
    "* * * * *",
    "*/7 * * * *",
    "0-59 * * * *",
    "0-59 0-23 * * *",
    "*/7 0-3 * * *",
    "0-59/7 0,2,23 * * *",
    "5 * * * *",
]

instants = st.floats(min_value=0, max_value=4.1e9) | st.integers(min_value=0, max_value=68_000_000).map(
    lambda n: n * 60.0
)


@given(expression=st.sampled_from(sample_expressions()), zone=st.sampled_from(ZONES), at=instants)
@settings(max_examples=times(60), deadline=None)
@example(expression="0 9 * * *", zone="UTC", at=32_400.0)
def test_an_expression_is_not_due_between_its_last_and_its_next_time(expression, zone, at):
    cron = parse_cron(expression, zone)
    after, until = cron.next_after(at, 0), cron.last_until(at, 0)

    assert after is not None
    assert until is not None
    assert until <= at < after
    assert cron.next_after(until, 0) == after
    assert cron.last_until(after - 0.001, 0) == until
    assert cron.last_until(after, 0) == after
    assert cron.next_after(until - 0.001, 0) == until


@pytest.mark.parametrize("zone", spread(ZONES[1:], gate=2))
def test_due_times_around_each_change_equal_those_of_the_oracle(zone):
    start = datetime(2011, 7, 1)
    of = periods(zone, seconds(start) - 2 * DAY, seconds(start) + 367 * DAY)
    assert len(of) > 2
    for change in (period.begin for period in of[1:]):
        near = datetime(1970, 1, 1) + timedelta(seconds=change)
        for expression in MINUTELY:
            local = local_times(expression, near - timedelta(days=1.5), near + timedelta(days=1.5))
            times = due_times(expression, local, of)
            cron = parse_cron(expression, zone)
            for at in range(change - 8_000, change + 8_000, 217):
                assert (cron.last_until(at, 0), cron.next_after(at, 0)) == neighbours(times, at), (expression, at)


intervals = st.builds(
    lambda number, places, unit: f"{number / 10**places:.{places}f}{unit}",
    st.integers(min_value=1, max_value=999_999),
    st.integers(min_value=0, max_value=4),
    st.sampled_from(list(UNITS)),
).filter(lambda text: 1 <= Fraction(text[:-1]) * UNITS[text[-1]] <= 3650 * DAY)


@given(
    text=intervals,
    since=st.floats(min_value=1e9, max_value=4e9),
    n=st.integers(min_value=1, max_value=300_000_000),
)
@settings(max_examples=times(100), deadline=None)
@example(text="1.1s", since=1_770_000_000.123, n=286_000_000)
def test_an_interval_misses_no_due_time_over_years(text, since, n):
    every = parse_interval(text)
    due = since + n * every.secs
    if due > 2e11:
        return
    for step in range(n + 1, n + 6):
        following = every.next_after(due, since)
        assert following == since + step * every.secs > due
        assert every.last_until(following, since) == following
        for between in (due, (due + following) / 2, following - 0.0001):
            assert every.last_until(between, since) == due
            assert every.next_after(between, since) == following
        due = following


@given(text=intervals, since=st.floats(min_value=1e9, max_value=4e9), before=st.floats(min_value=0, max_value=1e9))
def test_an_interval_is_first_due_one_interval_after_the_schedule_began(text, since, before):
    every = parse_interval(text)
    first = since + every.secs

    assert every.next_after(since - before, since) == every.next_after(since, since) == first
    assert every.last_until(since - before, since) is every.last_until(first - 0.001, since) is None
    assert every.last_until(first, since) == first


def test_an_interval_is_exact_to_the_second_after_ten_years():
    every = parse_interval("1.1h")

    assert every.next_after(1.7e9 + 79_636 * 3_960 - 1, 1.7e9) == 1.7e9 + 79_636 * 3_960


@every_case("absurd", [1e12, 1e300, float("inf"), -1e12, -1e300, float("-inf"), float("nan")])
def test_an_interval_is_never_due_at_absurd_times(absurd):
    assert Every("30s", 30.0).next_after(absurd, 0) is None
    assert Every("30s", 30.0).last_until(absurd, 0) is None


def test_an_interval_ends_with_the_year_9999():
    assert Every("1d", 86_400.0).next_after(253_402_300_799, 0) is None


@given(when=instants, at=instants)
def test_a_single_time_is_either_past_or_future(when, at):
    once = Once(when)

    assert (once.next_after(at, 0), once.last_until(at, 0)) == ((when, None) if when > at else (None, when))
