"""Due times of two hundred expressions over a year equal those of an oracle, in seven zones.

The year has a leap day, changes in both hemispheres, at midnight and of half an hour, and a day that is skipped.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from taskyard_server.cadence import Cron, parse_cron
from tests.cadence.oracle import DAY, Period, due_times, local_times, periods, seconds
from tests.cadence.sample_expressions import sample_expressions

START, END = datetime(2011, 7, 1), datetime(2012, 7, 1)
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "America/Sao_Paulo",
]
FREQUENT_LOCAL_TIMES = 100


def periods_of_the_year(zone: str) -> list[Period]:
    return periods(zone, seconds(START) - 2 * DAY, seconds(END) + 2 * DAY)


def test_each_zone_has_the_changes_that_the_year_is_chosen_for():
    changes = {
        zone: [later.offset - earlier.offset for earlier, later in pairwise(periods_of_the_year(zone))]
        for zone in ZONES
    }

    assert changes == {
        "UTC": [],
        "Europe/Berlin": [-3600, 3600],
        "America/New_York": [-3600, 3600],
        "Asia/Kolkata": [],
        "Australia/Lord_Howe": [1800, -1800],
        "Pacific/Apia": [3600, DAY, -3600],
        "America/Sao_Paulo": [3600, -3600],
    }


@pytest.mark.parametrize(
    ("number", "expression"),
    [
        pytest.param(*each, marks=() if each[0] % 10 == 0 else pytest.mark.deep("many of a kind"))
        for each in enumerate(sample_expressions())
    ],
)
def test_the_due_times_of_a_year_equal_those_of_the_oracle(number, expression):
    local = local_times(expression, START - timedelta(days=2), END + timedelta(days=2))
    # Frequent expressions are compared in some zones only.
    some = ZONES[number % 3 :: 3] if len(local) < 2_000 else [ZONES[number % len(ZONES)]]
    for zone in some if len(local) > FREQUENT_LOCAL_TIMES else ZONES:
        due = due_times(expression, local, periods_of_the_year(zone))
        expected = [moment for moment in due if seconds(START) < moment <= seconds(END)]
        assert expected
        cron = parse_cron(expression, zone)

        assert list(_forth(cron)) == expected, zone
        if zone == some[0]:
            assert list(_back(cron)) == expected[::-1], zone


def _forth(cron: Cron) -> Iterator[float]:
    at = cron.next_after(seconds(START), 0)
    while at is not None and at <= seconds(END):
        yield at
        at = cron.next_after(at, 0)


def _back(cron: Cron) -> Iterator[float]:
    at = cron.last_until(seconds(END), 0)
    while at is not None and at > seconds(START):
        yield at
        at = cron.last_until(at - 1, 0)
