"""Prometheus metrics over HTTP: the scheduler's figures, most of them summed over namespaces.

Of what callers choose, namespaces and actions are labels, as far as `tasks.py` names them; agents never are. The
server runs in threads (`server.py`) and asks the event loop for a snapshot at each scrape.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Final

from prometheus_client import GC_COLLECTOR, PLATFORM_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from taskyard_server.core.events import Event
from taskyard_server.core.figures.demand import Demand
from taskyard_server.core.figures.queue_health import QueueHealth
from taskyard_server.core.queue.keys import PatternUsage
from taskyard_server.core.stats import Totals
from taskyard_server.interceptors.admission import CallAdmission
from taskyard_server.net.certificates import CertificateFiles
from taskyard_server.store.figures import StoreFigures
from taskyard_server.webhooks.webhooks import WebhookCounts

from .families import (
    admission_families,
    demand_families,
    host_families,
    key_families,
    refusal_families,
    totals_families,
)
from .server import MetricsServer
from .snapshots import Snapshots
from .store import StoreMetrics
from .tasks import TaskMetrics

MAX_NAMES: Final = 50
"""How many namespaces have series of their own unless the settings say otherwise, and how many actions of each."""


class Metrics(Collector):
    """Measures durations as an engine listener, and collects all metrics.

    `store` is None where nothing is kept, `admission` where everybody may do everything. `replica` answers the metrics
    of a server that shares its store with others, and `demand` that of the configured pools of hosts. `keys` answers
    the usage of concurrency keys, by few patterns, `standings` how each namespace stands. Up to `max_names` namespaces,
    and actions of each, have series of their own. Anyone who refuses a call counts it in `refused`, by its code.
    """

    def __init__(
        self,
        totals: Callable[[], Totals],
        webhooks: WebhookCounts,
        snapshots: Snapshots,
        store: StoreFigures | None = None,
        admission: CallAdmission | None = None,
        replica: Callable[[], list[Metric]] = list,
        demand: Callable[[], Sequence[Demand]] = tuple,
        keys: Callable[[], Mapping[str, PatternUsage]] = dict,
        standings: Callable[[], Mapping[str, QueueHealth]] = dict,
        min_free_bytes: int = 0,
        max_names: int = MAX_NAMES,
    ) -> None:
        self._totals = totals
        self._replica = replica
        self._demand = demand
        self._keys = keys
        self._admission = admission
        self._webhooks = webhooks
        self._snapshots = snapshots
        self._standings = standings
        self.refused: Counter[str] = Counter()
        self.ignored_calls: Callable[[], int] = int
        self.runs: Callable[[], list[Metric]] = list
        self._tasks = TaskMetrics(max_names)
        self._store = None if store is None else StoreMetrics(store, min_free_bytes)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: MetricsServer | None = None

    def __call__(self, namespace: str, events: Sequence[Event]) -> None:
        """Measure how long tasks waited and ran, and count them by action."""
        self._tasks.see(namespace, events)

    def serve(
        self,
        address: str,
        token: str | None = None,
        certificates: CertificateFiles | None = None,
        probes: Mapping[str, Callable[[], str | None]] | None = None,
    ) -> None:
        """Answer scrapes at HOST:PORT that bring the token, and probes, until `stop`.

        Raises `OSError` if it cannot listen.
        """
        self._server = MetricsServer(address, self.registry(), token, certificates, probes)

    def registry(self) -> CollectorRegistry:
        """All that a scrape shows, to be collected by another thread than that of the running loop."""
        self._loop = asyncio.get_running_loop()
        registry = CollectorRegistry()
        for collector in (self, PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR):
            registry.register(collector)
        return registry

    def take_token(self, token: str | None) -> None:
        """Let scrapes bring this token from now on."""
        if self._server is not None:
            self._server.token = token

    def stop(self) -> None:
        """Stop answering."""
        if self._server is not None:
            self._server.stop()

    def describe(self) -> list[Metric]:
        """No metrics are known before the first scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        assert self._loop is not None
        families = asyncio.run_coroutine_threadsafe(self._snapshot(), self._loop).result(timeout=10)
        yield from families
        # There may be many of these: the loop must not wait for them.
        yield from self._tasks.families()

    def deleted(self, namespace: str) -> None:
        """Forget the counts of a namespace that was deleted."""
        self._tasks.deleted(namespace)

    async def _snapshot(self) -> list[Metric]:
        totals = self._totals()
        families = totals_families(totals)
        webhooks = CounterMetricFamily("taskyard_webhooks", "Webhook deliveries.", labels=["outcome"])
        for outcome, count in asdict(self._webhooks).items():
            webhooks.add_metric([outcome], count)
        families.append(webhooks)
        families += host_families(await self._snapshots.count_hosts(), self._snapshots.machine)
        if self._store is not None:
            families += self._store.families()
        if self._admission is not None:
            families += admission_families(self._admission)
        families += refusal_families(self.refused, self.ignored_calls())
        families += self.runs()
        families += self._replica()
        families += demand_families(self._demand())
        families += key_families(self._keys())
        families += self._tasks.standing_families(self._standings())
        families.append(self._tasks.queue_wait.family("taskyard_queue_wait_seconds", "From queue entry to hand-out."))
        families.append(self._tasks.run_time.family("taskyard_run_time_seconds", "From the first start to the end."))
        return families
