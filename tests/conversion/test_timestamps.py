"""Times as responses show them, and the bounds of listings by what was shown (docs/rules.md, Listing)."""

from math import inf, nextafter
from random import Random

import pytest

from taskyard_server.conversion.timestamps import earliest_shown
from taskyard_server.conversion.wire import to_microseconds

LAST_SECOND = 253_402_300_799


def moments():
    """Microseconds since the epoch: of these years, of any, and those around zero and at both ends of time."""
    draw = Random(1)
    recent = [draw.randrange(1_600_000_000_000_000, 2_000_000_000_000_000) for _ in range(5_000)]
    any_year = [draw.randrange(-62_135_596_800_000_000, LAST_SECOND * 1_000_000) for _ in range(500)]
    return recent + any_year + [-62_135_596_800_000_000, -2, -1, 0, 1, 2, LAST_SECOND * 1_000_000]


def test_a_bound_is_the_earliest_time_that_is_shown_as_it_or_later():
    for shown in moments():
        first = earliest_shown(shown)
        assert to_microseconds(first) >= shown > to_microseconds(nextafter(first, -inf))


@pytest.mark.parametrize("at", [1_763_956_910.7503474, 1_763_979_386.1924484, 0.0000005])
def test_a_time_is_not_before_what_is_shown_of_it(at):
    shown = to_microseconds(at)
    assert earliest_shown(shown) <= at < earliest_shown(shown + 1)
