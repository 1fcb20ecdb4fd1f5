"""The families that Prometheus scrapes, as OTLP, by their own names."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from prometheus_client.metrics_core import Metric as Family

from .spans import SCOPE

CUMULATIVE: Final = AggregationTemporality.CUMULATIVE
UNKNOWN: Final[Any] = None
"""Of single values Prometheus keeps neither the least nor the greatest."""

Labels: TypeAlias = tuple[tuple[str, str], ...]


def metrics_data(families: Iterable[Family], resource: Resource, begun: int) -> MetricsData:
    """One export. Counts are those since `begun`, in nanoseconds since the epoch."""
    now = time.time_ns()
    metrics = [metric for family in families if (metric := _metric(family, begun, now)) is not None]
    scope = ScopeMetrics(SCOPE, metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _metric(family: Family, begun: int, now: int) -> Metric | None:
    """A family; None for one without values."""
    if family.type == "histogram":
        points = _histograms(family, begun, now)
        return Metric(family.name, family.documentation, family.unit, Histogram(points, CUMULATIVE)) if points else None
    numbers = [
        NumberDataPoint(sample.labels, begun, now, float(sample.value))
        for sample in family.samples
        if not sample.name.endswith("_created")
    ]
    if not numbers:
        return None
    data = Sum(numbers, CUMULATIVE, is_monotonic=True) if family.type == "counter" else Gauge(numbers)
    return Metric(family.name, family.documentation, family.unit, data)


def _histograms(family: Family, begun: int, now: int) -> list[HistogramDataPoint]:
    """A point for each set of labels, whose counts are no longer sums over the buckets before."""
    buckets: defaultdict[Labels, list[tuple[float, float]]] = defaultdict(list)
    sums: dict[Labels, float] = {}
    for sample in family.samples:
        labels = _without_bound(sample.labels)
        if sample.name.endswith("_bucket"):
            buckets[labels].append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_sum"):
            sums[labels] = sample.value
    points: list[HistogramDataPoint] = []
    for labels, cumulative in buckets.items():
        cumulative.sort()
        totals = [round(total) for _, total in cumulative]
        counts = [total - before for total, before in zip(totals, [0, *totals], strict=False)]
        bounds = [bound for bound, _ in cumulative[:-1]]
        total, summed = totals[-1], sums.get(labels, 0.0)
        points.append(
            HistogramDataPoint(dict(labels), begun, now, total, summed, counts, bounds, min=UNKNOWN, max=UNKNOWN)
        )
    return points


def _without_bound(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted((name, value) for name, value in labels.items() if name != "le"))
