"""Metrics of the store: its commits, how long they take, and its disk."""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from taskyard_server.store.figures import StoreFigures
from taskyard_server.store.port import UNKNOWN_BYTES

from .histograms import COMMIT_BUCKETS, ROW_BUCKETS, Histogram


class StoreMetrics:
    """Collects what a store has done. Below `min_free_bytes` free on its disk new tasks are refused.

    `steady` is the clock of the event loop.
    """

    def __init__(
        self, figures: StoreFigures, min_free_bytes: int = 0, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._figures = figures
        self._min_free_bytes = min_free_bytes
        self._steady = steady
        self._rows = Histogram(ROW_BUCKETS)
        self._secs = Histogram(COMMIT_BUCKETS)
        figures.observers.append(self._observe)

    def families(self) -> list[Metric]:
        """One scrape."""
        figures = self._figures
        families: list[Metric] = [
            CounterMetricFamily(f"taskyard_store_{name}", text, value)
            for name, text, value in (
                ("commits", "Commits of the store.", figures.commits),
                ("delayed_commits", "Tries of a commit that failed and that another one follows.", figures.delayed),
                ("failed_commits", "Commits that failed for good.", figures.failed),
                ("rows", "Rows that commits wrote or removed.", figures.rows),
                ("forgotten_tasks", "Ended tasks whose time in the history was over.", figures.forgotten),
            )
        ]
        since = figures.under_way_since
        under_way_secs = 0.0 if since is None else max(0.0, self._steady() - since)
        for name, text, value in (
            ("bytes", "Bytes of the store on its disk.", figures.used_bytes),
            ("free_bytes", "Bytes that are free on the disk of the store.", figures.free_bytes),
            ("min_free_bytes", "Free bytes below which new tasks are refused.", self._min_free_bytes),
            ("load_seconds", "How long the start took to load what was kept.", figures.load_secs),
            ("commit_under_way_seconds", "For how long the present commit is under way.", under_way_secs),
        ):
            if value != UNKNOWN_BYTES:
                families.append(GaugeMetricFamily(f"taskyard_store_{name}", text, value))
        families.append(self._rows.family("taskyard_store_commit_rows", "Rows of a commit."))
        families.append(self._secs.family("taskyard_store_commit_seconds", "How long a commit took."))
        return families

    def _observe(self, rows: int, secs: float) -> None:
        self._rows.observe(rows)
        self._secs.observe(secs)
