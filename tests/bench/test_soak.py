"""What a soak makes of its windows: the first part beside the last, and how memory grows."""

from dataclasses import replace

import pytest
from day import RATE, check_rate
from soak import Window, growth_mb_an_hour, parts, report


def windows(*, p99: float, memory: float, count: int = 30) -> list[Window]:
    """Windows of five minutes, in which the 99th percentile and the memory grow evenly by so many times."""
    return [
        Window(
            secs=10.0 * at,
            tasks=1000,
            cpu_us=50,
            p50_ms=1,
            p99_ms=2 + 2 * (p99 - 1) * at / (count - 1),
            p999_ms=9,
            memory_mb=100 * (1 + (memory - 1) * at / count),
            children_mb=0,
            same_work_us=2_000,
            stolen=0,
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
    found[-1] = replace(found[-1], p99_ms=500)
    assert "p99: 1.00 times" in report(found)
    assert "worst window: p99 500.0 ms" in report(found)


def test_a_load_that_stands_still_is_noticed() -> None:
    check_rate(RATE * 10, 10)
    with pytest.raises(SystemExit, match="150 tasks/s have ended, not 1,500"):
        check_rate(RATE, 10)


def test_what_the_machine_did_stands_beside() -> None:
    found = windows(p99=2, memory=1)
    slower = [replace(each, same_work_us=3_000, stolen=0.25) for each in found[20:]]
    lines = report([*found[:20], *slower]).splitlines()
    assert "the same work: 1.50 times the CPU time" in lines
    assert lines[0].endswith("stolen %")
    assert [line[-12:].strip() for line in lines[1:3]] == ["0.00", "25.00"]
    assert len({len(line) for line in lines[:3]}) == 1
