"""The metrics of a server, as its settings and its parts say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from taskyard_server.metrics.metrics import Metrics
from taskyard_server.metrics.replicas import ReplicaMetrics

if TYPE_CHECKING:
    from taskyard_server.core.figures.demand import Pool
    from taskyard_server.engine.engine import Engine
    from taskyard_server.interceptors.admission import CallAdmission
    from taskyard_server.metrics.snapshots import Snapshots
    from taskyard_server.replicas.serving import ReplicaServing
    from taskyard_server.settings.config import Settings
    from taskyard_server.webhooks.webhooks import WebhookCounts


def configured_metrics(
    settings: Settings,
    engine: Engine,
    sharing: ReplicaServing | None,
    admission: CallAdmission | None,
    webhooks: WebhookCounts,
    snapshots: Snapshots,
    pools: Callable[[], Sequence[Pool]],
) -> Metrics:
    """The metrics of an engine, and of a replica if `sharing` is one."""
    return Metrics(
        engine.admin.totals,
        webhooks,
        snapshots,
        None if engine.persistence is None else engine.persistence.figures,
        admission,
        list if sharing is None else ReplicaMetrics(sharing.replica).families,
        lambda: engine.admin.total_demand(pools()),
        engine.rules.usage_by_pattern,
        engine.admin.standings,
        settings.store.min_free_bytes,
        settings.metrics_max_names,
    )
