"""Changes of the local time: a skipped time is due right after the gap, a doubled one only the first time.

Expressions whose minute or hour begins with `*` follow the local clock. Both are rules of Debian's cron.
"""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from taskyard_server.cadence import parse_cron
from tests.cases import every_case

BERLIN = "Europe/Berlin"
NEW_YORK = "America/New_York"
LORD_HOWE = "Australia/Lord_Howe"
SAO_PAULO = "America/Sao_Paulo"
APIA = "Pacific/Apia"


def due(expression: str, zone: str, begin: str, end: str) -> list[str]:
    """The due times after `begin` until `end`, in UTC as `03-29 01:00`, found forwards and checked backwards."""
    cron = parse_cron(expression, zone)
    start, last = (datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() for text in (begin, end))
    found = []
    at = cron.next_after(start, 0)
    while at is not None and at <= last:
        assert cron.last_until(at, 0) == at
        assert cron.last_until(at - 0.5, 0) == (found[-1] if found else cron.last_until(start, 0))
        found.append(at)
        at = cron.next_after(at, 0)
    return [f"{datetime.fromtimestamp(at, UTC):%m-%d %H:%M}" for at in found]


# Berlin goes from 02:00 to 03:00 on 29 March 2026 and from 03:00 back to 02:00 on 25 October, both at 01:00 UTC.


def test_a_skipped_time_is_due_right_after_the_gap():
    assert due("30 2 * * *", BERLIN, "2026-03-27T12", "2026-03-30T12") == ["03-28 01:30", "03-29 01:00", "03-30 00:30"]


def test_all_times_of_a_gap_are_due_once():
    assert due("0,20,40 2 * * *", BERLIN, "2026-03-28T12", "2026-03-29T12") == ["03-29 01:00"]


def test_a_skipped_time_and_one_at_the_end_of_the_gap_are_due_once():
    assert due("0 2,3 * * *", BERLIN, "2026-03-28T12", "2026-03-29T12") == ["03-29 01:00"]


def test_times_before_and_after_a_gap_are_due_as_usual():
    assert due("59 1,3 * * *", BERLIN, "2026-03-28T12", "2026-03-29T12") == ["03-29 00:59", "03-29 01:59"]


def test_a_doubled_time_is_due_the_first_time():
    assert due("30 2 * * *", BERLIN, "2026-10-24T12", "2026-10-26T12") == ["10-25 00:30", "10-26 01:30"]


def test_a_doubled_time_is_not_due_in_the_second_hour():
    assert due("30 2 * * *", BERLIN, "2026-10-25T01:15", "2026-10-26T12") == ["10-26 01:30"]


def test_the_last_due_time_before_the_second_hour_is_in_the_first():
    cron = parse_cron("30 2 * * *", BERLIN)
    within_the_second = datetime(2026, 10, 25, 1, 15, tzinfo=UTC)

    assert cron.last_until(within_the_second.timestamp(), 0) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC).timestamp()


def test_several_doubled_times_are_due_in_the_first_hour_only():
    assert due("0-59/20 2 * * *", BERLIN, "2026-10-24T12", "2026-10-25T12") == [
        "10-25 00:00",
        "10-25 00:20",
        "10-25 00:40",
    ]


@pytest.mark.parametrize("expression", ["* * * * *", "*/10 * * * *", "0,30 * * * *"])
def test_a_wildcard_is_due_at_even_intervals_through_both_changes(expression):
    step = {"*": 1, "*/10": 10, "0,30": 30}[expression.split()[0]]
    for day in ("2026-03-29", "2026-10-25"):
        assert len(due(expression, BERLIN, f"{day}T00:00", f"{day}T03:00")) == 180 // step


def test_a_wildcard_minute_in_a_skipped_hour_is_not_due():
    assert due("*/30 2 * * *", BERLIN, "2026-03-28T12", "2026-03-30T12") == ["03-30 00:00", "03-30 00:30"]


def test_a_wildcard_minute_in_a_doubled_hour_is_due_twice():
    assert due("*/30 2 * * *", BERLIN, "2026-10-24T12", "2026-10-25T12") == [
        "10-25 00:00",
        "10-25 00:30",
        "10-25 01:00",
        "10-25 01:30",
    ]


def test_a_wildcard_hour_follows_the_local_clock():
    assert due("0 */2 * * *", BERLIN, "2026-03-28T22:30", "2026-03-29T03:00") == ["03-28 23:00", "03-29 02:00"]
    assert due("0 */2 * * *", BERLIN, "2026-10-24T21:30", "2026-10-25T03:30") == [
        "10-24 22:00",
        "10-25 00:00",
        "10-25 01:00",
        "10-25 03:00",
    ]


def test_new_york_changes_at_two():
    assert due("30 2 * * *", NEW_YORK, "2026-03-08T00", "2026-03-09T12") == ["03-08 07:00", "03-09 06:30"]
    assert due("30 1 * * *", NEW_YORK, "2026-11-01T00", "2026-11-02T12") == ["11-01 05:30", "11-02 06:30"]


def test_lord_howe_skips_and_repeats_half_an_hour():
    # 02:00 becomes 02:30 on 4 October 2026, and 01:30 on 5 April, both at 15:00 or 15:30 UTC the day before.
    assert due("15 2 * * *", LORD_HOWE, "2026-10-03T00", "2026-10-04T23") == ["10-03 15:30", "10-04 15:15"]
    assert due("45 1 * * *", LORD_HOWE, "2026-04-04T00", "2026-04-05T23") == ["04-04 14:45", "04-05 15:15"]
    assert due("*/15 2 * * *", LORD_HOWE, "2026-10-03T12", "2026-10-04T12") == ["10-03 15:30", "10-03 15:45"]


def test_no_quarter_is_missed_after_half_an_hour_comes_twice():
    expected = ["04-04 15:30", "04-04 15:45", "04-04 16:00", "04-04 16:15"]
    assert due("*/15 2 * * *", LORD_HOWE, "2026-04-04T12", "2026-04-05T12") == expected


def test_a_midnight_that_is_skipped_is_due_at_one():
    # 4 November 2018 begins at 01:00 in São Paulo, 03:00 UTC.
    assert due("0 0 * * *", SAO_PAULO, "2018-11-03T12", "2018-11-05T12") == ["11-04 03:00", "11-05 02:00"]
    assert due("0 0 4 11 *", SAO_PAULO, "2018-11-03T12", "2018-11-05T12") == ["11-04 03:00"]
    assert due("*/30 0 4 11 *", SAO_PAULO, "2018-11-03T12", "2018-11-05T12") == []


def test_an_evening_that_comes_twice_is_due_once():
    # 17 February 2018 ends twice in São Paulo, at 02:00 and 03:00 UTC.
    assert due("30 23 17 2 *", SAO_PAULO, "2018-02-17T12", "2018-02-19T12") == ["02-18 01:30"]
    assert due("*/30 23 17 2 *", SAO_PAULO, "2018-02-17T12", "2018-02-19T12") == [
        "02-18 01:00",
        "02-18 01:30",
        "02-18 02:00",
        "02-18 02:30",
    ]


def test_a_day_that_is_skipped_is_due_when_the_next_one_begins():
    # 30 December 2011 was left out in Apia; the 31st began at 10:00 UTC.
    assert due("0 9 * * *", APIA, "2011-12-29T12", "2011-12-31T00") == ["12-29 19:00", "12-30 10:00", "12-30 19:00"]
    assert due("0 9 30 12 *", APIA, "2011-12-01T00", "2012-01-31T00") == ["12-30 10:00"]
    assert due("* 9 30 12 *", APIA, "2011-12-01T00", "2012-01-31T00") == []


def test_utc_has_no_changes():
    assert due("30 2 * * *", "UTC", "2026-03-28T12", "2026-03-30T12") == ["03-29 02:30", "03-30 02:30"]


@every_case("zone", [BERLIN, NEW_YORK])
@every_case("expression", ["30 2 * * *", "30 1 * * *", "0 * * * *", "*/20 1 * * *", "*/20 2 * * *", "0 3 * * 0"])
def test_cronsim_treats_changes_of_an_hour_in_the_same_way(zone, expression):
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    cron = parse_cron(expression, zone)
    at = start.timestamp()
    for expected in CronSim(expression, start.astimezone(ZoneInfo(zone))):
        if expected > end:
            break
        at = cron.next_after(at, 0)
        assert at == expected.timestamp(), expected
    assert at > datetime(2026, 12, 20, tzinfo=UTC).timestamp()
