"""Figures about a server: its metrics, the answers of StatsService, and the fields of requests that nobody knows."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from taskyard_server.core.figures.demand import Pool
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.virtual_clock import VirtualClock
from taskyard_server.interceptors.admission import CallAdmission
from taskyard_server.interceptors.unknown_fields import IgnoredFields
from taskyard_server.metrics.families import run_families
from taskyard_server.metrics.metrics import Metrics
from taskyard_server.metrics.replicas import ReplicaMetrics
from taskyard_server.metrics.samples import Samples
from taskyard_server.metrics.snapshots import Snapshots
from taskyard_server.net.certificates import CertificateFiles
from taskyard_server.replicas.serving import ReplicaServing
from taskyard_server.services.stats import StatsService
from taskyard_server.settings.config import Settings
from taskyard_server.settings.live_config import LiveConfig
from taskyard_server.settings.setting_types import secret
from taskyard_server.webhooks.webhooks import Webhooks

from .endpoints import StartError
from .readiness import Readiness


class Observation:
    """The figures of an engine, and of a replica if `sharing` is one. `clock` is that of a guest."""

    def __init__(
        self,
        config: LiveConfig,
        engine: Engine,
        sharing: ReplicaServing | None,
        admission: CallAdmission | None,
        webhooks: Webhooks,
        clock: VirtualClock | None,
    ) -> None:
        settings = config.settings
        figures = None if engine.persistence is None else engine.persistence.figures
        self._engine = engine
        self._pools = settings.pools()
        self._snapshots = Snapshots(engine, lambda: config.settings.daemon.heartbeat_interval_ms / 1000)
        self._samples = Samples(engine, clock)
        self.ignored = IgnoredFields(lambda: config.settings.refuse_unknown_fields)
        self.metrics = Metrics(
            engine.admin.totals,
            webhooks.counts,
            self._snapshots,
            figures,
            admission,
            list if sharing is None else ReplicaMetrics(sharing.replica).families,
            lambda: engine.admin.total_demand(self._pools),
            engine.rules.usage_by_pattern,
            engine.admin.standings,
            settings.store.min_free_bytes,
            settings.metrics_max_names,
        )
        self.metrics.ignored_calls = lambda: self.ignored.total
        self.metrics.runs = lambda: run_families(engine.run_figures, engine.admin.artifact_bytes())
        self.service = StatsService(
            engine,
            self._snapshots,
            self._samples,
            webhooks.counts_of,
            settings.scheduler,
            figures,
            self.pools,
            self.ignored.calls_of,
        )
        if sharing is not None:
            sharing.tell(begun=self._samples.begin, left=self._samples.leave)

    def pools(self) -> Sequence[Pool]:
        """The pools of hosts in force, of which the demand is told."""
        return self._pools

    def reconfigure(self, settings: Settings) -> None:
        """Put new settings in force."""
        self._pools = settings.pools()
        self.metrics.take_token(secret(settings.metrics_token))

    def subscribe(self) -> None:
        """Hear of what happens in the engine."""
        self._engine.subscribe(self.metrics)
        for part in (self.ignored, self._snapshots, self._samples, self.metrics):
            self._engine.namespaces.subscribe(part.deleted)

    def open(self) -> None:
        """Begin the samples; the engine is open."""
        self._samples.open()

    def serve(self, settings: Settings, certificates: CertificateFiles | None, readiness: Readiness) -> None:
        """Show the metrics, and the probes beside them, at their port. Raises `StartError`."""
        try:
            token, probes = secret(settings.metrics_token), readiness.probes()
            self.metrics.serve(settings.metrics, token, certificates, probes)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise StartError(f"cannot listen on {settings.metrics} for metrics: {reason}") from None

    def runs(self, is_guest: bool) -> list[Coroutine[Any, Any, None]]:
        """The work that goes on as long as the server serves."""
        return [self._snapshots.run()] if is_guest else [self._snapshots.run(), self._samples.run()]
