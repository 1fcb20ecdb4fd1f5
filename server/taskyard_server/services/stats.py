"""StatsService: figures of the caller's namespace (docs/rules.md, Figures), and machine snapshots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import nsmallest
from typing import Any, Final

import grpc

from taskyard.v1 import sample_pb2
from taskyard.v1 import stats_pb2 as pb
from taskyard.v1.runtime_host_pb2 import Machine
from taskyard.v1.stats_pb2_grpc import StatsServiceServicer
from taskyard_server.access.grants import Access, Role
from taskyard_server.conversion.agent_figures import AgentFields
from taskyard_server.conversion.page_tokens import page_size
from taskyard_server.conversion.requests import last_before
from taskyard_server.conversion.responses import MAX_PAGE_BYTES
from taskyard_server.conversion.timestamps import go_duration, timestamp
from taskyard_server.conversion.wire import add_nested, tag
from taskyard_server.core.agents import OTHERS
from taskyard_server.core.figures.demand import Demand, Pool
from taskyard_server.core.hosts import Host, host_figures
from taskyard_server.core.limits import Limits
from taskyard_server.core.names import EVERY_NAME, Names
from taskyard_server.core.queue.keys import KeyWaits
from taskyard_server.core.stats import AgentStats, Noticed, Stats
from taskyard_server.core.targets import Target
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.fair_yield import SLICE
from taskyard_server.interceptors.callers import current_call
from taskyard_server.metrics.samples import INTERVAL_SECS, Sample, Samples
from taskyard_server.metrics.snapshots import Snapshot, Snapshots
from taskyard_server.settings.config import SchedulerSettings
from taskyard_server.store.figures import StoreFigures
from taskyard_server.store.port import UNKNOWN_BYTES
from taskyard_server.webhooks.webhooks import WebhookCounts

DEFAULT_PAGE_SNAPSHOTS: Final = 100
MAX_PAGE_SNAPSHOTS: Final = 1_000
MAX_TARGET_WAITS: Final = 100
AGENTS_PER_SLICE: Final = 200
"""They take as long as a slice of other work."""
QUEUE: Final = tag(pb.GetStatsResponse, "queue")
METRICS: Final = tag(pb.GetStatsResponse, "metrics")


class StatsService(StatsServiceServicer):
    """Serves `taskyard.v1.StatsService`. `webhook_counts` answers the counts of a namespace.

    `store` is None where nothing is kept. `pools` answers the pools of hosts in force, `ignored_calls` how many calls
    of a namespace had fields that nobody knows.
    """

    def __init__(
        self,
        engine: Engine,
        snapshots: Snapshots,
        samples: Samples,
        webhook_counts: Callable[[str], WebhookCounts],
        settings: SchedulerSettings,
        store: StoreFigures | None = None,
        pools: Callable[[], Sequence[Pool]] = tuple,
        ignored_calls: Callable[[str], int] = lambda _: 0,
    ) -> None:
        self._engine = engine
        self._snapshots = snapshots
        self._samples = samples
        self._webhook_counts = webhook_counts
        self._settings = settings
        self._store = store
        self._pools = pools
        self._ignored_calls = ignored_calls

    async def GetStats(self, request: pb.GetStatsRequest, context: grpc.aio.ServicerContext[Any, Any]) -> Any:  # noqa: N802
        del request, context
        call = current_call()
        namespace, own_agents = call.namespace, _own_agents(call.access)
        stats = await self._engine.admin.stats(namespace)
        config = self._config(stats.limits)
        if own_agents is not None:
            agents = _own(stats.agents, own_agents)
            queue, metrics = _own_figures(agents)
            rest = pb.GetStatsResponse(config=config)
        else:
            agents = list(stats.agents.items())
            queue = pb.QueueStats(
                total_queued=stats.queued,
                total_inflight=stats.inflight,
                limited_by=stats.limited_by,
                total_paused=stats.paused or None,
                total_parked=stats.parked or None,
                after_others=stats.after_others or None,
                operations=stats.operations or None,
                noticed=_noticed(stats.noticed),
                keys=_key_waits(stats.key_waits),
                targets=await self._engine.tasks.list_targets(namespace, "", show=_target_waits),
            )
            metrics = _metrics(stats, self._webhook_counts(namespace), self._ignored_calls(namespace))
            hosts = await self._engine.hosts.list_hosts(namespace, 0, show=self._hosts)
            rest = pb.GetStatsResponse(config=config, hosts=hosts, store=_store_size(self._store))
        fields = await self._fields_of(agents)
        parts: list[bytes] = []
        add_nested(parts, QUEUE, queue.SerializeToString() + fields.queued())
        add_nested(parts, METRICS, metrics.SerializeToString() + fields.metrics())
        return b"".join([*parts, rest.SerializeToString()])

    async def _fields_of(self, agents: list[tuple[str, AgentStats]]) -> AgentFields:
        """The part of the answer for each agent. Other calls go on meanwhile."""
        fields = AgentFields()
        for begin in range(0, len(agents), AGENTS_PER_SLICE):
            if begin:
                await self._engine.fair_yield.take(SLICE)
            fields.add(agents[begin : begin + AGENTS_PER_SLICE])
        return fields

    async def ListSnapshots(  # noqa: N802
        self, request: pb.ListSnapshotsRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.ListSnapshotsResponse:
        del context
        server = request.server if request.HasField("server") else None
        listing = current_call().listing("snapshots", request.host_id, server)
        before = listing.start(request.page_token)
        limit = min(request.page_size, MAX_PAGE_SNAPSHOTS) or DEFAULT_PAGE_SNAPSHOTS
        snapshots = self._snapshots.newest_first(current_call().namespace, request.host_id or None, before, server)
        response, size = pb.ListSnapshotsResponse(), 0
        for snapshot in snapshots:
            message = _snapshot(snapshot)
            size += message.ByteSize()
            if response.snapshots and (len(response.snapshots) == limit or size > MAX_PAGE_BYTES):
                response.next_page_token = listing.token(snapshot.number + 1)
                break
            response.snapshots.append(message)
        return response

    async def GetFairness(  # noqa: N802
        self, request: pb.GetFairnessRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.GetFairnessResponse:
        del context
        call = current_call()
        listing = call.listing("fairness")
        after, limit = listing.start_name(request.page_token), page_size(request.page_size)
        shares = [each for each in await self._engine.rules.fairness(call.namespace) if each.agent_id > after]
        page = shares[:limit]
        return pb.GetFairnessResponse(
            agents=[pb.AgentShare(**each._asdict()) for each in page],
            next_page_token=listing.token(page[-1].agent_id) if len(shares) > limit else None,
        )

    async def GetDemand(  # noqa: N802
        self, request: pb.GetDemandRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.GetDemandResponse:
        del request, context
        demands = await self._engine.admin.demand(current_call().namespace, self._pools())
        return pb.GetDemandResponse(pools=[_pool_demand(demand) for demand in demands])

    async def ListSamples(  # noqa: N802
        self, request: sample_pb2.ListSamplesRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> sample_pb2.ListSamplesResponse:
        del context
        samples = self._samples.listed(current_call().namespace, last_before(request, "after", "after"))
        return sample_pb2.ListSamplesResponse(samples=map(_sample, samples), interval_secs=int(INTERVAL_SECS))

    def _config(self, limits: Limits) -> pb.SchedulerConfig:
        return pb.SchedulerConfig(
            strategy=self._settings.strategy,
            max_queue_size=limits.max_queue_size,
            max_per_agent=limits.max_per_agent,
            max_inflight=limits.max_inflight,
            max_per_agent_flight=limits.max_per_agent_inflight,
            worker_count=self._settings.worker_count,
            result_ttl=go_duration(limits.result_ttl_secs),
        )

    def _hosts(self, listed: list[Host]) -> pb.HostStats | None:
        found = host_figures(listed, self._engine.now(), self._engine.limits)
        if not found.registered:
            return None
        return pb.HostStats(
            registered=found.registered, online=found.online, free_credit=found.free_credit, lost=found.lost or None
        )


def _pool_demand(demand: Demand) -> pb.PoolDemand:
    return pb.PoolDemand(
        pool=demand.pool,
        runnable=demand.runnable,
        inflight=demand.inflight,
        oldest_secs=demand.oldest_secs,
        free_credit=demand.free_credit,
        hosts=demand.hosts,
    )


def _own_agents(access: Access) -> Names | None:
    """The agents whose figures alone a caller is shown; None for one who is shown those of everything else, too."""
    return EVERY_NAME if access.role is Role.AGENT and access.agents is None else access.agents


def _store_size(figures: StoreFigures | None) -> pb.StoreSize | None:
    """The size of the store; None where nothing is kept."""
    if figures is None:
        return None
    free_bytes = 0 if figures.free_bytes == UNKNOWN_BYTES else figures.free_bytes
    return pb.StoreSize(url=figures.url, used_bytes=figures.used_bytes, free_bytes=free_bytes)


def _target_waits(targets: list[Target]) -> pb.TargetWaits | None:
    """The targets that hold tasks back, longest wait first; None if no target does."""
    waiting = [target for target in targets if target.held_back and target.waits_for]
    if not waiting:
        return None
    longest = nsmallest(MAX_TARGET_WAITS, waiting, key=lambda target: target.since or 0.0)
    return pb.TargetWaits(
        waiting=sum(target.held_back for target in waiting),
        waits_for={target.name: target.waits_for or "" for target in longest},
    )


def _key_waits(waits: KeyWaits) -> pb.KeyWaits | None:
    """The concurrency keys that hold tasks back; None if none does."""
    return pb.KeyWaits(waiting=waits.waiting, keys=waits.keys) if waits.waiting else None


def _noticed(noticed: Noticed) -> pb.NoticedTasks | None:
    """The tasks that no live host may run; None if there are none."""
    return pb.NoticedTasks(waiting=noticed.waiting, notices=noticed.notices) if noticed.waiting else None


def _snapshot(snapshot: Snapshot) -> pb.MachineSnapshot:
    machine = Machine.FromString(snapshot.machine)
    return pb.MachineSnapshot(
        id=f"snp_{snapshot.number}",
        host_id=snapshot.host_id,
        active_workers=machine.active_workers,
        active_teams=machine.active_teams,
        sessions=machine.sessions,
        cpu_percent=machine.cpu_percent if machine.HasField("cpu_percent") else None,
        memory_mb=machine.memory_mb if machine.HasField("memory_mb") else None,
        context=machine.context if machine.HasField("context") else None,
        created_at=timestamp(snapshot.at),
        inflight_tasks=snapshot.tasks.inflight if snapshot.tasks else None,
        queued_tasks=snapshot.tasks.queued if snapshot.tasks else None,
    )


def _sample(sample: Sample) -> sample_pb2.Sample:
    figures = sample.figures
    since = figures.queued_since
    return sample_pb2.Sample(
        at=timestamp(sample.at),
        queued=figures.queued,
        inflight=figures.inflight,
        paused=figures.paused,
        parked=figures.parked,
        hosts_online=figures.hosts_online,
        submitted=figures.submitted,
        dispatched=figures.dispatched,
        completed=figures.completed,
        failed=figures.failed,
        cancelled=figures.cancelled,
        rejected=figures.rejected,
        retried=figures.retried,
        leases_expired=figures.leases_expired,
        avg_dispatch_latency_ms=figures.avg_dispatch_latency_ms,
        oldest_queued_secs=None if since is None else max(0.0, sample.at - since),
    )


def _metrics(stats: Stats, webhooks: WebhookCounts, ignored_calls: int) -> pb.SchedulerMetrics:
    counters = stats.counters
    return pb.SchedulerMetrics(
        tasks_submitted=counters.submitted,
        tasks_completed=counters.completed,
        tasks_failed=counters.failed - counters.reopened,
        tasks_cancelled=counters.cancelled,
        tasks_rejected=counters.rejected,
        tasks_expired=counters.expired - counters.expired_reopened,
        dispatch_count=counters.dispatched,
        avg_dispatch_latency_ms=stats.avg_dispatch_latency_ms,
        tasks_evicted=counters.evicted or None,
        late_reports=counters.late_reports or None,
        leases_expired=counters.leases_expired or None,
        tasks_retried=counters.retried or None,
        webhooks_delivered=webhooks.delivered or None,
        webhooks_failed=webhooks.failed or None,
        calls_with_ignored_fields=ignored_calls or None,
    )


def _own(agents: dict[str, AgentStats], names: Names) -> list[tuple[str, AgentStats]]:
    """The agents of a caller who is shown no others (docs/operate/security.md, Agents)."""
    return [each for each in agents.items() if each[0] in names and (each[0] != OTHERS or names.is_every)]


def _own_figures(agents: Sequence[tuple[str, AgentStats]]) -> tuple[pb.QueueStats, pb.SchedulerMetrics]:
    """The figures of these agents alone."""
    each = [figures for _, figures in agents]
    queue = pb.QueueStats(
        total_queued=sum(agent.queued for agent in each), total_inflight=sum(agent.inflight for agent in each)
    )
    metrics = pb.SchedulerMetrics(
        tasks_submitted=sum(agent.submitted for agent in each),
        tasks_completed=sum(agent.completed for agent in each),
        tasks_failed=sum(agent.failed for agent in each),
        tasks_cancelled=sum(agent.cancelled for agent in each),
        tasks_rejected=sum(agent.rejected for agent in each),
    )
    return queue, metrics
