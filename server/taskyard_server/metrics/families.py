"""The scheduler's figures in the form that Prometheus reads, group by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from taskyard.v1.runtime_host_pb2 import Machine
from taskyard_server.core.figures.demand import Demand
from taskyard_server.core.hosts import HostStatus
from taskyard_server.core.queue.keys import PatternUsage
from taskyard_server.core.stats import Totals
from taskyard_server.engine.views import RunFigures
from taskyard_server.interceptors.admission import CallAdmission
from taskyard_server.interceptors.errors import MAPPINGS

from .snapshots import HostCounts


def run_families(figures: RunFigures, stored_bytes: int) -> list[Metric]:
    """The figures of what runs have left behind."""
    families: list[Metric] = [
        CounterMetricFamily(f"taskyard_{name}", text, value)
        for name, text, value in (
            ("output_chunks", "Chunks of output that were taken.", figures.chunks),
            ("output_bytes", "Bytes of these chunks.", figures.chunk_bytes),
            ("output_dropped_bytes", "Bytes of chunks that were dropped to make room.", figures.dropped_bytes),
            ("artifacts", "Artifacts that are complete.", figures.artifacts),
            ("artifact_bytes", "Bytes of these artifacts.", figures.artifact_bytes),
            ("artifact_read_bytes", "Bytes of artifacts that were read.", figures.artifact_bytes_read),
            ("steps", "Steps that were recorded.", figures.steps),
            ("artifact_failures", "Parts of artifacts that could not be written or read.", figures.failed_objects),
        )
    ]
    families.append(GaugeMetricFamily("taskyard_artifact_stored_bytes", "Bytes of all artifacts.", stored_bytes))
    return families


def totals_families(totals: Totals) -> list[Metric]:
    """The figures of all namespaces together."""
    counters = totals.counters
    gauges = {
        "tasks_queued": ("Tasks that wait for a host.", totals.queued),
        "tasks_inflight": ("Tasks that are assigned or running.", totals.inflight),
        "tasks_paused": ("Tasks that were interrupted and can be resumed.", totals.paused),
        "tasks_parked": ("Tasks that wait for answers, events, times or other tasks, without a lease.", totals.parked),
        "tasks_after_others": ("Pending tasks that wait for others to end.", totals.after_others),
        "tasks_noticed": ("Queued tasks that no live host may run.", totals.noticed),
        "tasks_deadlocked": (
            "Of these the ones whose hosts are full of tasks with waiting children.",
            totals.deadlocked,
        ),
        "targets_blocked": (
            "Targets that a paused or failed task blocks.",
            totals.blocked_targets,
        ),
        "tasks_retained": ("Ended tasks that can still be asked for.", totals.retained),
        "operations": ("Operations on many tasks that are at work.", totals.operations),
        "events": ("Events that are kept for tasks which wait for them.", totals.events),
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
    return families


def key_families(usage: Mapping[str, PatternUsage]) -> list[Metric]:
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


def demand_families(demands: Sequence[Demand]) -> list[Metric]:
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


def admission_families(admission: CallAdmission) -> list[Metric]:
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


def refusal_families(refused: Mapping[str, int], ignored_calls: int) -> list[Metric]:
    """The calls that were refused, by their code, of which there are few, and those with fields that nobody knows."""
    family = CounterMetricFamily(
        "taskyard_calls_refused", "Calls that ended with an error, by its code.", labels=["code"]
    )
    for code in MAPPINGS:
        # Those that did not happen yet, too: the first one must be seen as an increase.
        family.add_metric([code], refused.get(code, 0))
    ignored = CounterMetricFamily(
        "taskyard_calls_with_ignored_fields",
        "REST calls whose body had fields that the API does not know.",
        ignored_calls,
    )
    return [family, ignored]


def host_families(hosts: HostCounts, machine: Machine | None) -> list[Metric]:
    """The current hosts, and the machine of the newest snapshot: its CPU use is measured between two snapshots."""
    by_status = GaugeMetricFamily("taskyard_hosts", "Registered runtime hosts, by status.", labels=["status"])
    for status in HostStatus:
        by_status.add_metric([status.value], hosts.by_status.get(status, 0))
    families: list[Metric] = [
        by_status,
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
