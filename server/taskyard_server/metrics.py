"""Prometheus metrics over HTTP: the scheduler's figures, summed over namespaces.

No label has values that callers choose, such as agents or namespaces. The server runs in threads (`metrics_server.py`)
and asks the event loop for a snapshot at each scrape.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Final

from prometheus_client import GC_COLLECTOR, PLATFORM_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from taskyard_server.certificates import CertificateFiles
from taskyard_server.core.demand import Demand
from taskyard_server.core.events import Event, EventKind
from taskyard_server.core.keys import PatternUsage
from taskyard_server.core.stats import Totals
from taskyard_server.core.task import ASSIGNED, TERMINAL
from taskyard_server.interceptors.admission import Admission
from taskyard_server.metrics_server import MetricsServer
from taskyard_server.snapshots import Snapshots
from taskyard_server.store.figures import StoreFigures
from taskyard_server.store.port import UNKNOWN_BYTES
from taskyard_server.webhooks import WebhookCounts

CHANGED: Final = EventKind.CHANGED
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
COMMIT_BUCKETS: Final = (
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
ROW_BUCKETS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4)


class Histogram:
    """Durations in seconds, or other values with bounds of their own, counted by bucket."""

    def __init__(self, bounds: Sequence[float] = BUCKETS) -> None:
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


class Metrics(Collector):
    """Measures durations as an engine listener, and collects all metrics.

    `store` is None where nothing is kept, `admission` where everybody may do everything. `replica` answers the metrics
    of a server that shares its store with others, and `demand` that of the configured pools of hosts. `keys` answers
    the usage of concurrency keys, by few patterns.
    """

    def __init__(
        self,
        totals: Callable[[], Totals],
        webhooks: WebhookCounts,
        snapshots: Snapshots,
        store: StoreFigures | None = None,
        admission: Admission | None = None,
        replica: Callable[[], list[Metric]] = list,
        demand: Callable[[], Sequence[Demand]] = tuple,
        keys: Callable[[], Mapping[str, PatternUsage]] = dict,
    ) -> None:
        self._totals = totals
        self._replica = replica
        self._demand = demand
        self._keys = keys
        self._admission = admission
        self._webhooks = webhooks
        self._snapshots = snapshots
        self._queue_wait = Histogram()
        self._run_time = Histogram()
        self._store = store
        self._commit_rows = Histogram(ROW_BUCKETS)
        self._commit_time = Histogram(COMMIT_BUCKETS)
        if store is not None:
            store.observers.append(self._observe_commit)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: MetricsServer | None = None

    def __call__(self, namespace: str, events: Sequence[Event]) -> None:
        """Measure how long tasks waited and ran."""
        del namespace
        for event in events:
            if event.kind is not CHANGED:
                continue
            if event.state is ASSIGNED:
                # A task that was returned in the same turn as it was dispatched has been queued again since.
                self._queue_wait.observe(max(0.0, event.at - event.task.queued_at))
            elif event.state in TERMINAL and event.started_at is not None:
                self._run_time.observe(event.at - event.started_at)

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
        self._loop = asyncio.get_running_loop()
        registry = CollectorRegistry()
        for collector in (self, PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR):
            registry.register(collector)
        self._server = MetricsServer(address, registry, token, certificates, probes)

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

    async def _snapshot(self) -> list[Metric]:
        totals = self._totals()
        counters = totals.counters
        gauges = {
            "tasks_queued": ("Tasks that wait for a host.", totals.queued),
            "tasks_inflight": ("Tasks that are assigned or running.", totals.inflight),
            "tasks_paused": ("Tasks that were interrupted and can be resumed.", totals.paused),
            "tasks_after_others": ("Pending tasks that wait for others to end.", totals.after_others),
            "tasks_noticed": ("Queued tasks that no live host may run.", totals.noticed),
            "targets_blocked": (
                "Targets that a paused or failed task blocks.",
                totals.blocked_targets,
            ),
            "tasks_retained": ("Ended tasks that can still be asked for.", totals.retained),
            "operations": ("Operations on many tasks that are at work.", totals.operations),
            "namespaces": ("Namespaces in use.", totals.namespaces),
            "schedules": ("Schedules, paused ones among them.", totals.schedules),
            "triggers_pending": ("Triggers that have not fired.", totals.triggers_pending),
            "triggers_executing": ("Triggers whose task has not ended.", totals.triggers_executing),
        }
        families: list[Metric] = [
            GaugeMetricFamily(f"taskyard_{name}", text, value) for name, (text, value) in gauges.items()
        ]
        for name, text in (
            ("submitted", "Tasks accepted."),
            ("completed", "Tasks that finished successfully."),
            ("failed", "Tasks that finished with an error."),
            ("cancelled", "Tasks that were cancelled."),
            ("rejected", "Tasks refused at admission."),
            ("expired", "Queued tasks that exceeded their deadline."),
            ("dispatched", "Hand-outs to hosts."),
            ("evicted", "Ended tasks dropped before their time."),
            ("retried", "Failed attempts that another one follows."),
            ("reopened", "Failed tasks that were resumed or resolved, or cancelled while they blocked their target."),
        ):
            families.append(CounterMetricFamily(f"taskyard_tasks_{name}", text, getattr(counters, name)))
        for name, text in (
            ("fired", "Triggers that submitted their task."),
            ("completed", "Triggers whose task was done."),
            ("failed", "Triggers whose task failed or was cancelled."),
            ("skipped", "Triggers that a policy or a pause skipped."),
            ("deferred", "How often a full queue put a trigger off."),
        ):
            families.append(CounterMetricFamily(f"taskyard_triggers_{name}", text, getattr(totals.triggers, name)))
        families.append(
            CounterMetricFamily("taskyard_late_reports", "Reports whose lease was lost.", counters.late_reports)
        )
        families.append(
            CounterMetricFamily(
                "taskyard_leases_expired", "Leases whose host was lost or did not renew them.", counters.leases_expired
            )
        )
        webhooks = CounterMetricFamily("taskyard_webhooks", "Webhook deliveries.", labels=["outcome"])
        for outcome, count in asdict(self._webhooks).items():
            webhooks.add_metric([outcome], count)
        families.append(webhooks)
        families += await self._hosts_and_machine()
        if self._store is not None:
            families += self._store_families(self._store)
        if self._admission is not None:
            families += _admission_families(self._admission)
        families += self._replica()
        families += _demand_families(self._demand())
        families += _key_families(self._keys())
        families.append(self._queue_wait.family("taskyard_queue_wait_seconds", "From queue entry to hand-out."))
        families.append(self._run_time.family("taskyard_run_time_seconds", "From the first start to the end."))
        return families

    def _observe_commit(self, rows: int, secs: float) -> None:
        self._commit_rows.observe(rows)
        self._commit_time.observe(secs)

    def _store_families(self, store: StoreFigures) -> list[Metric]:
        families: list[Metric] = [
            CounterMetricFamily(f"taskyard_store_{name}", text, value)
            for name, text, value in (
                ("commits", "Commits of the store.", store.commits),
                ("delayed_commits", "Tries of a commit that failed and that another one follows.", store.delayed),
                ("failed_commits", "Commits that failed for good.", store.failed),
                ("rows", "Rows that commits wrote or removed.", store.rows),
                ("forgotten_tasks", "Ended tasks whose time in the history was over.", store.forgotten),
            )
        ]
        for name, text, size in (
            ("bytes", "Bytes of the store on its disk.", store.used_bytes),
            ("free_bytes", "Bytes that are free on the disk of the store.", store.free_bytes),
            ("load_seconds", "How long the start took to load what was kept.", store.load_secs),
        ):
            if size != UNKNOWN_BYTES:
                families.append(GaugeMetricFamily(f"taskyard_store_{name}", text, size))
        families.append(self._commit_rows.family("taskyard_store_commit_rows", "Rows of a commit."))
        families.append(self._commit_time.family("taskyard_store_commit_seconds", "How long a commit took."))
        return families

    async def _hosts_and_machine(self) -> list[Metric]:
        """The current hosts, and the machine of the newest snapshot: its CPU use is measured between two snapshots."""
        hosts, machine = await self._snapshots.count_hosts(), self._snapshots.machine
        families: list[Metric] = [
            GaugeMetricFamily("taskyard_hosts_online", "Runtime hosts that were heard of in time.", hosts.online),
            GaugeMetricFamily("taskyard_host_streams", "Open streams of runtime hosts.", hosts.streams),
        ]
        if machine is not None and machine.HasField("cpu_percent"):
            text = "Use of all processors of the server's machine, in percent."
            families.append(GaugeMetricFamily("taskyard_machine_cpu_percent", text, machine.cpu_percent))
        if machine is not None and machine.HasField("memory_mb"):
            text = "Memory in use of the server's machine, in MiB."
            families.append(GaugeMetricFamily("taskyard_machine_memory_mb", text, machine.memory_mb))
        return families


def _key_families(usage: Mapping[str, PatternUsage]) -> list[Metric]:
    """The gauges of concurrency keys, by the patterns of the configuration."""
    families: list[Metric] = []
    for name, text in (
        ("", "Concurrency keys with tasks in flight or waiting, by the pattern of their limit."),
        ("inflight", "Tasks in flight of each of these keys, summed up."),
        ("waiting", "Tasks that wait for a place or a token of a key, summed up over the keys."),
    ):
        family = GaugeMetricFamily(f"taskyard_keys{name and '_' + name}", text, labels=["pattern"])
        for pattern, its in usage.items():
            family.add_metric([pattern], getattr(its, name or "keys"))
        families.append(family)
    return families


def _demand_families(demands: Sequence[Demand]) -> list[Metric]:
    """The gauges of the configured pools of hosts, of which there are few."""
    runnable = GaugeMetricFamily(
        "taskyard_pool_runnable", "Tasks that wait only for a host of the pool.", labels=["pool"]
    )
    inflight = GaugeMetricFamily("taskyard_pool_inflight", "Tasks in flight at hosts of the pool.", labels=["pool"])
    oldest = GaugeMetricFamily(
        "taskyard_pool_oldest_seconds", "How long the oldest of the runnable tasks has been queued.", labels=["pool"]
    )
    credit = GaugeMetricFamily(
        "taskyard_pool_free_credit", "Tasks that live hosts of the pool would still take.", labels=["pool"]
    )
    hosts = GaugeMetricFamily("taskyard_pool_hosts", "Live hosts of the pool.", labels=["pool"])
    for demand in demands:
        pool = [demand.pool]
        runnable.add_metric(pool, demand.runnable)
        inflight.add_metric(pool, demand.inflight)
        oldest.add_metric(pool, demand.oldest_secs or 0.0)
        credit.add_metric(pool, demand.free_credit)
        hosts.add_metric(pool, demand.hosts)
    return [runnable, inflight, oldest, credit, hosts] if demands else []


def _admission_families(admission: Admission) -> list[Metric]:
    return [
        CounterMetricFamily(
            "taskyard_credentials_refused", "Calls whose credential was wrong or missing.", admission.failures.total
        ),
        CounterMetricFamily("taskyard_calls_denied", "Calls that their principal may not make.", admission.denied),
        CounterMetricFamily(
            "taskyard_calls_limited", "Calls and streams over the limits of their principal.", admission.limits.refused
        ),
        GaugeMetricFamily(
            "taskyard_open_streams", "Streams of principals that are open.", admission.limits.open_streams
        ),
    ]
