"""What a soak makes of its windows: the first part beside the last, and how memory grows."""

import pytest
from soak import Window, growth_mb_an_hour, parts, report


def windows(*, p99: float, memory: float, count: int = 30) -> list[Window]:
    """Windows of five minutes, in which the 99th percentile and the memory grow evenly by so many times."""
    return [
        Window(
            10.0 * at, 1000, 50, 1, 2 + 2 * (p99 - 1) * at / (count - 1), 9, 100 * (1 + (memory - 1) * at / count), 0
        )
        for at in range(count)
    ]


def test_a_short_run_is_divided_into_thirds_and_a_long_one_into_ten_minutes() -> None:
    first, last = parts(windows(p99=1, memory=1, count=30))
    assert [len(first.windows), len(last.windows), last.windows[0].secs] == [10, 10, 200]
    first, last = parts(windows(p99=1, memory=1, count=360))
    assert [len(first.windows), len(last.windows), last.windows[0].secs] == [60, 60, 3000]


def test_growth_is_the_slope_of_all_windows() -> None:
    assert growth_mb_an_hour(windows(p99=1, memory=1)) == 0
    assert growth_mb_an_hour(windows(p99=1, memory=1.5)) == pytest.approx(50 * 3600 / 300)


@pytest.mark.parametrize(
    ("p99", "memory", "verdicts"), [(1, 1, ["yes", "yes"]), (2, 1, ["no", "yes"]), (1, 1.5, ["yes", "no"])]
)
def test_both_limits_are_judged(p99: float, memory: float, verdicts: list[str]) -> None:
    lines = [line for line in report(windows(p99=p99, memory=memory)).splitlines() if "at most" in line]
    assert [line.partition("): ")[2].partition(";")[0] for line in lines] == verdicts


def test_one_bad_window_does_not_decide() -> None:
    found = windows(p99=1, memory=1)
    found[-1] = Window(290, 1000, 50, 1, 500, 900, 100, 0)
    assert "p99: 1.00 times" in report(found)
    assert "worst window: p99 500.0 ms" in report(found)
