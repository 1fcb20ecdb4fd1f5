"""Histograms of metrics: values counted by bucket."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, TypeAlias

from prometheus_client.core import HistogramMetricFamily

Bounds: TypeAlias = tuple[float, ...]

BUCKETS: Final[Bounds] = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
)
COMMIT_BUCKETS: Final[Bounds] = (
    0.0002,
    0.0005,
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
    2.0,
    5.0,
    10.0,
    60.0,
)
ROW_BUCKETS: Final[Bounds] = (
    1.0,
    2.0,
    5.0,
    10.0,
    20.0,
    50.0,
    100.0,
    200.0,
    500.0,
    1e3,
    2e3,
    5e3,
    1e4,
    2e4,
    5e4,
)


class Histogram:
    """Durations in seconds, or other values with bounds of their own, counted by bucket."""

    def __init__(self, bounds: Bounds = BUCKETS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count one."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def family(self, name: str, text: str) -> HistogramMetricFamily:
        """The cumulative form that Prometheus reads."""
        family = HistogramMetricFamily(name, text)
        total = 0
        rows: list[tuple[str, float]] = []
        for bound, count in zip([*map(str, self._bounds), "+Inf"], self._counts, strict=True):
            total += count
            rows.append((bound, total))
        family.add_metric([], rows, self._sum)
        return family
