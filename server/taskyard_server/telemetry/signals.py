"""The telemetry of a server, and how it is sent: set up from the settings and the variables of OpenTelemetry."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from threading import Thread
from typing import Any, Final

import structlog
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import (
    SERVICE_INSTANCE_ID,
    SERVICE_NAME,
    SERVICE_VERSION,
    OTELResourceDetector,
    Resource,
)
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from prometheus_client import GC_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry
from prometheus_client.registry import Collector

from .log_export import LogExport
from .metric_export import metrics_data
from .parts import Telemetry
from .sampling import configured_sampler
from .tracing import Tracing

log = structlog.get_logger(__name__)

CLOSE_SECS: Final = 3.0
"""How long the end of a server waits until the last spans and lines are with the collector."""
INTERVAL: Final = "OTEL_METRIC_EXPORT_INTERVAL"
DEFAULT_INTERVAL_MS: Final = 60_000.0
LINES_DELAY: Final = "OTEL_BLRP_SCHEDULE_DELAY"
DEFAULT_LINES_DELAY_MS: Final = 1_000.0
EVERY: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
ONE: Final = "OTEL_EXPORTER_OTLP_{}_ENDPOINT"


class Signals:
    """Traces, metrics and logs of a server, as far as `environment` does not switch them off.

    `endpoint` None leaves it to the variables. Raises ValueError for a variable that says nothing.
    """

    def __init__(
        self, endpoint: str | None, ratio: float | None, instance: str, environment: Mapping[str, str]
    ) -> None:
        def is_on(signal: str) -> bool:
            has_endpoint = endpoint is not None or environment.get(EVERY) or environment.get(ONE.format(signal))
            return bool(has_endpoint) and environment.get(f"OTEL_{signal}_EXPORTER", "otlp") != "none"

        sampler = configured_sampler(environment, ratio)
        self._interval_secs = _secs(environment, INTERVAL, DEFAULT_INTERVAL_MS)
        self._resource = _resource(instance)
        self._closers: list[Callable[[], Any]] = []
        self._stoppers: list[Callable[[], Any]] = []
        self._metrics = OTLPMetricExporter(endpoint) if is_on("METRICS") else None
        self.tracing: Tracing | None = None
        """The tracer; None without traces."""
        self.log_processor: LogExport | None = None
        """A processor of structlog; None where no logs are sent."""
        if is_on("TRACES"):
            spans = BatchSpanProcessor(OTLPSpanExporter(endpoint))
            self._closers.append(spans.shutdown)
            self.tracing = Tracing(spans, self._resource, sampler)
        if is_on("LOGS"):
            lines = _LineExporter(endpoint)
            delay_secs = _secs(environment, LINES_DELAY, DEFAULT_LINES_DELAY_MS)
            self.log_processor = LogExport(dict(self._resource.attributes), lines.send, delay_secs)
            self._closers.append(self.log_processor.close)
            self._stoppers.append(lines.shutdown)
        _pass_on_complaints()

    @property
    def telemetry(self) -> Telemetry:
        """The parts of these that a server is given."""
        its = self.tracing
        if its is None:
            return Telemetry(log_processor=self.log_processor, run=self.run, close=self.close)
        return Telemetry(
            calls=its.calls,
            posts=its.posts,
            handed=its.tasks.handed,
            listeners=(its.tasks,),
            log_processor=self.log_processor,
            run=self.run,
            close=self.close,
            take_clock=its.take_clock,
        )

    async def run(self, metrics: Collector) -> None:
        """Export metrics every so often until cancelled."""
        if self._metrics is None:
            await asyncio.Event().wait()
        registry = CollectorRegistry()
        for collector in (metrics, PROCESS_COLLECTOR, GC_COLLECTOR):
            registry.register(collector)
        begun = time.time_ns()
        while True:
            await asyncio.sleep(self._interval_secs)
            await asyncio.to_thread(self._export, registry, begun)

    async def close(self) -> None:
        """Send what is left, for `CLOSE_SECS` at most."""
        if self._metrics is not None:
            self._closers.append(self._metrics.shutdown)
        threads = [Thread(target=close, daemon=True) for close in self._closers]
        for thread in threads:
            thread.start()
        until = time.monotonic() + CLOSE_SECS
        while any(thread.is_alive() for thread in threads) and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for stop in self._stoppers:
            stop()

    def _export(self, registry: CollectorRegistry, begun: int) -> None:
        assert self._metrics is not None
        try:
            self._metrics.export(metrics_data(registry.collect(), self._resource, begun))
        except Exception as error:
            log.warning("metrics_not_sent", error=str(error))


def _resource(instance: str) -> Resource:
    """The resource that all of it is about. The variables of OpenTelemetry come before what we say."""
    ours = {SERVICE_NAME: "taskyard", SERVICE_VERSION: version("taskyard"), SERVICE_INSTANCE_ID: instance}
    return Resource({**Resource.create().attributes, **ours, **OTELResourceDetector().detect().attributes})


def _secs(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name) or str(default)
    try:
        millis = float(text)
    except ValueError:
        millis = 0.0
    if not 0 < millis < float("inf"):
        raise ValueError(f"{name}: must be milliseconds, is {text}")
    return millis / 1000


class _LineExporter(OTLPLogExporter):
    """Sends messages of lines that are made already, with the retries and the variables of OpenTelemetry."""

    def send(self, message: Any) -> None:
        """Send one. What cannot be sent is said, and dropped."""
        self._export(message)

    def _translate_data(self, data: Any) -> Any:
        return data

    def _count_data(self, data: Any) -> int:
        return len(data.resource_logs[0].scope_logs[0].log_records)


class _Complaints(logging.Handler):
    """Writes what OpenTelemetry has to say to our own log: above all that no collector answers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._clock = clock
        self._said: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, of each kind one a minute."""
        now = self._clock()
        if now - self._said.get(str(record.msg), float("-inf")) >= 60:
            self._said[str(record.msg)] = now
            log.warning("telemetry", problem=record.getMessage())


def _pass_on_complaints() -> None:
    theirs = logging.getLogger("opentelemetry")
    if not any(isinstance(handler, _Complaints) for handler in theirs.handlers):
        theirs.addHandler(_Complaints())
        theirs.propagate = False
