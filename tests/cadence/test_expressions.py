"""The days and hours that an expression names, also at the ends of the calendar."""

import math
import time
from datetime import UTC, datetime

from taskyard_server.cadence import Cron, Once, _calendar, _due, parse_cron, parse_interval
from tests.cases import every_case


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def days(expression: str, month: str = "2026-06") -> list[int]:
    """The days of a month of 30 days on which the expression is due."""
    cron = parse_cron(expression, "UTC")
    found: list[int] = []
    due = cron.next_after(at(f"{month}-01") - 1, 0)
    while due is not None and due < at(f"{month}-30T23:59:59"):
        found.append(datetime.fromtimestamp(due, UTC).day)
        due = cron.next_after(due, 0)
    return found


# June 2026 begins on a Monday.


def test_day_of_month_or_day_of_week_matches_when_both_are_given():
    assert days("0 0 10,20 * 1") == [1, 8, 10, 15, 20, 22, 29]


def test_both_must_match_where_the_day_of_month_begins_with_a_star():
    assert days("0 0 */2 * 1") == [1, 15, 29]


def test_both_must_match_where_the_day_of_week_begins_with_a_star():
    assert days("0 0 10-20 * */2") == [11, 13, 14, 16, 18, 20]


def test_a_step_over_a_range_is_not_a_star():
    assert days("0 0 1-31/10 * 1") == [1, 8, 11, 15, 21, 22, 29]


def test_seven_is_sunday_also_in_ranges():
    assert days("0 0 * * 7") == days("0 0 * * 0") == days("0 0 * * sun") == [7, 14, 21, 28]
    assert days("0 0 * * 6-7") == [6, 7, 13, 14, 20, 21, 27, 28]


def test_steps_count_from_the_beginning_of_their_range():
    assert days("0 0 */10 * *") == [1, 11, 21]
    assert days("0 0 5-20/7 * *") == [5, 12, 19]
    assert days("0 0 * * */3") == [3, 6, 7, 10, 13, 14, 17, 20, 21, 24, 27, 28]


def test_the_next_due_time_is_later_even_by_a_fraction_of_a_second():
    cron = parse_cron("0 9 * * *", "UTC")
    nine = at("2026-06-01T09:00")

    assert cron.next_after(nine - 0.25, 0) == nine
    assert cron.next_after(nine, 0) == cron.next_after(nine + 0.25, 0) == nine + 86_400
    assert cron.last_until(nine, 0) == cron.last_until(nine + 0.25, 0) == nine
    assert cron.last_until(nine - 0.25, 0) == nine - 86_400


def test_the_start_of_the_schedule_does_not_change_when_cron_is_due():
    cron, once = parse_cron("0 9 * * *", "UTC"), Once(50.0)

    assert cron.next_after(0, 0) == cron.next_after(0, 1e9) == 32_400
    assert once.next_after(0, 0) == once.next_after(0, 1e9) == 50


def test_a_single_time_is_due_once():
    once = Once(50.0)

    assert once.next_after(49.9, 0) == 50
    assert once.next_after(50, 0) is None
    assert once.last_until(49.9, 0) is None
    assert once.last_until(50, 0) == once.last_until(51, 0) == 50


def test_the_29th_of_february_comes_after_eight_years_without_a_leap_year():
    assert parse_cron("0 0 29 2 *", "UTC").next_after(at("2096-03-01"), 0) == at("2104-02-29")


def test_the_rarest_day_comes_after_forty_years():
    cron = parse_cron("0 0 29 2 */7", "UTC")

    assert cron.next_after(at("2088-03-01"), 0) == at("2128-02-29")
    assert cron.last_until(at("2128-02-28"), 0) == at("2088-02-29")


def test_the_rarest_day_is_found_within_50_ms():
    cron = parse_cron("0 0 29 2 */7", "Europe/Berlin")
    took = []
    for hour in range(5):
        begin = time.process_time()
        cron.next_after(at("2088-03-01") + hour * 3600, 0)
        took.append(time.process_time() - begin)

    assert min(took) < 0.05


def test_equal_look_ups_are_cached():
    cron = parse_cron("7 11 * * *", "UTC")
    before = _due.cache_info()
    for _ in range(100):
        parse_cron("7 11 * * *", "UTC").next_after(1.77e9 + 0.5, 0)

    assert cron == parse_cron("7 11 * * *", "UTC")
    assert _due.cache_info().misses == before.misses + 1


def test_look_ups_do_not_disturb_each_other():
    cron = parse_cron("0 9 * * *", "Europe/Berlin")
    first = [cron.next_after(1.77e9 + n * 86_400, 0) for n in range(20)]
    back = [cron.last_until(due - 1, 0) for due in first]
    _due.cache_clear()

    assert _calendar(cron.expression).dt == datetime.min
    assert [cron.last_until(due - 1, 0) for due in reversed(first)] == back[::-1]
    assert [cron.next_after(1.77e9 + n * 86_400, 0) for n in reversed(range(20))] == first[::-1]


@every_case("zone", ["UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia"])
@every_case("expression", ["* * * * *", "0 9 * * *", "0 0 29 2 *", "0 0 1 1 *"])
def test_nothing_is_due_beyond_the_years_of_the_calendar(zone, expression):
    cron = parse_cron(expression, zone)

    for absurd in (1e12, 1e300, math.inf, -1e12, -1e300, -math.inf, math.nan):
        assert cron.next_after(absurd, 0) is None
        assert cron.last_until(absurd, 0) is None
    for near in (253_402_300_799, 253_402_300_799 - 50_000):
        due = cron.next_after(near, 0)
        assert due is None or near < due < 253_402_300_800 + 50_000
    for far_back in (-62_135_596_800, -62_135_596_800 + 50_000):
        due = cron.last_until(far_back, 0)
        assert due is None or due <= far_back


def test_times_before_1970_work():
    assert parse_cron("0 9 * * *", "UTC").next_after(-86_400, 0) == -54_000


def test_cadences_are_values():
    assert Cron("0 9 * * *", "UTC") == parse_cron("0 9 * * *", "UTC") != parse_cron("0 9 * * *", "Asia/Kolkata")
    assert len({parse_interval("90m"), parse_interval("90m"), parse_interval("1.5h"), Once(1.0), Once(1.0)}) == 3


def test_only_intervals_leave_the_wall_clock():
    assert (Cron.by_wall, Once.by_wall, parse_interval("30s").by_wall) == (True, True, False)
