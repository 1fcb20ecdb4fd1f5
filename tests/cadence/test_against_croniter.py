"""A year of two hundred expressions is what croniter and the rules for skipped and doubled times say, in zones of every
kind: the year holds a leap day, changes of both hemispheres, at midnight, of half an hour, and a day that is skipped.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from taskyard_server.cadence import Cron, parse_cron
from tests.cadence.expressions import two_hundred
from tests.cadence.oracle import DAY, due_times, local_times, periods, seconds

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
MANY = 100
PERIODS = {zone: periods(zone, seconds(START) - 2 * DAY, seconds(END) + 2 * DAY) for zone in ZONES}


def test_the_zones_change_as_the_year_was_chosen_for():
    changes = {zone: [later.offset - earlier.offset for earlier, later in pairwise(of)] for zone, of in PERIODS.items()}

    assert changes == {
        "UTC": [],
        "Europe/Berlin": [-3600, 3600],
        "America/New_York": [-3600, 3600],
        "Asia/Kolkata": [],
        "Australia/Lord_Howe": [1800, -1800],
        "Pacific/Apia": [3600, DAY, -3600],
        "America/Sao_Paulo": [3600, -3600],
    }


@pytest.mark.parametrize(("number", "expression"), list(enumerate(two_hundred())))
def test_a_year_is_what_the_oracle_says(number, expression):
    local = local_times(expression, START - timedelta(days=2), END + timedelta(days=2))
    # What is due often is compared in some zones, the others in all.
    some = ZONES[number % 3 :: 3] if len(local) < 2_000 else [ZONES[number % len(ZONES)]]
    for zone in some if len(local) > MANY else ZONES:
        expected = [due for due in due_times(expression, local, PERIODS[zone]) if seconds(START) < due <= seconds(END)]
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
