"""Due times that were processed: the ranges that they form, beside a plain set of times."""

from random import Random

import pytest

from taskyard_server.core.schedules import processed_times
from taskyard_server.core.schedules.processed_times import TimeRange, add, first_unprocessed
from tests.cases import every_case


def of_whole_numbers(times, until=1_000):
    """The ranges after these times, of a cadence that is due at each whole number up to `until`."""
    runs = ()
    for time in times:
        runs = add(runs, float(time), float(time + 1) if time < until else None)
    return runs


def test_adjacent_times_are_one_range_in_any_order():
    assert of_whole_numbers([1, 2, 3]) == (TimeRange(1, 4),)
    assert of_whole_numbers([3, 1, 2]) == (TimeRange(1, 4),)
    assert of_whole_numbers([7, 3, 1]) == (TimeRange(1, 2), TimeRange(3, 4), TimeRange(7, 8))


def test_after_the_last_time_there_is_none():
    runs = of_whole_numbers([5, 1_000])
    assert first_unprocessed(runs, 5.0) == 6
    assert first_unprocessed(runs, 1_000.0) is None
    assert first_unprocessed(runs, None) is None


@every_case("seed", range(20))
def test_what_was_not_dealt_with_is_found(seed):
    random = Random(seed)
    times = random.sample(range(40), random.randrange(1, 40))
    runs = of_whole_numbers(times)
    for time in range(41):
        assert first_unprocessed(runs, float(time)) == next(later for later in range(time, 42) if later not in times)


@pytest.mark.parametrize("seed", range(20))
def test_of_too_many_runs_the_nearest_become_one_and_what_was_dealt_with_stays_so(monkeypatch, seed):
    monkeypatch.setattr(processed_times, "MAX_RANGES", 3)
    random = Random(seed)
    times = random.sample(range(100), 20)
    runs = of_whole_numbers(times)
    assert len(runs) <= 3
    assert list(runs) == sorted(runs)
    for time in times:
        assert first_unprocessed(runs, float(time)) not in times


def test_what_is_far_from_the_others_is_not_lost_in_what_is_near(monkeypatch):
    monkeypatch.setattr(processed_times, "MAX_RANGES", 2)
    assert of_whole_numbers([1, 900, 903, 905]) == (TimeRange(1, 2), TimeRange(900, 906))
