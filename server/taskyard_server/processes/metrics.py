"""The metrics of all processes at one port, each series with the label `process`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final

from prometheus_client import PROCESS_COLLECTOR, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

LABEL: Final = "process"
PARENT: Final = "parent"
ASK_SECS: Final = 10.0

Texts = Callable[[], Awaitable[dict[str, bytes]]]


class ProcessMetrics(Collector):
    """Collects what the living processes answer (`texts`, by their names) and how often each was started again.

    To be collected by another thread than that of the running loop.
    """

    def __init__(self, texts: Texts, restarts: Callable[[], dict[str, int]]) -> None:
        self._texts = texts
        self._restarts = restarts
        self._loop = asyncio.get_running_loop()

    def registry(self) -> CollectorRegistry:
        """What a scrape shows."""
        registry = CollectorRegistry()
        registry.register(self)
        return registry

    def describe(self) -> list[Metric]:
        """No metrics are known before the first scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        texts = asyncio.run_coroutine_threadsafe(self._ask(), self._loop).result(timeout=2 * ASK_SECS)
        yield GaugeMetricFamily("taskyard_processes_alive", "Server processes that serve.", len(texts))
        again = CounterMetricFamily(
            "taskyard_process_restarts", "How often a process was started again.", labels=[LABEL]
        )
        for process, count in self._restarts().items():
            again.add_metric([process], count)
        yield again
        families = {process: text_string_to_metric_families(text.decode()) for process, text in texts.items()}
        yield from merged({PARENT: PROCESS_COLLECTOR.collect(), **families})

    async def _ask(self) -> dict[str, bytes]:
        async with asyncio.timeout(ASK_SECS):
            return await self._texts()


def merged(families: dict[str, Iterable[Metric]]) -> Iterable[Metric]:
    """The metrics of several processes as one list, in which the label `process` says whose each series is."""
    found: dict[str, Metric] = {}
    for process, own in families.items():
        for family in own:
            into = found.get(family.name)
            if into is None:
                into = found[family.name] = Metric(family.name, family.documentation, family.type)
            for sample in family.samples:
                labels = {**sample.labels, LABEL: process}
                into.samples.append(Sample(sample.name, labels, sample.value, sample.timestamp))
    return found.values()
