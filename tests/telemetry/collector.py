"""A collector of OTLP on loopback: it keeps what it is sent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


class Collector:
    """Listens until `stop`. What came is in `spans`, `metrics` and `logs`."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.metrics: dict[str, Any] = {}
        self.logs: list[Any] = []
        self.resources: list[dict[str, str]] = []
        self._came = threading.Condition()
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(_Traces(self), self._server)
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(_Metrics(self), self._server)
        logs_service_pb2_grpc.add_LogsServiceServicer_to_server(_Logs(self), self._server)
        self.url = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def take(self, resources: Any, keep: Callable[[Any], None]) -> None:
        """Keep what one message brings."""
        with self._came:
            for resource in resources:
                self.resources.append({each.key: each.value.string_value for each in resource.resource.attributes})
                keep(resource)
            self._came.notify_all()

    def wait(self, found: Callable[[Collector], Any], secs: float = 30.0) -> Any:
        """What `found` finds, as soon as it is something."""
        with self._came:
            assert self._came.wait_for(lambda: found(self), secs), "the collector was not sent it"
            return found(self)

    def stop(self) -> None:
        self._server.stop(None).wait()


def attributes(span: Any) -> dict[str, Any]:
    """The attributes of a span or a line."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


class _Traces(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def Export(self, request: Any, _: Any) -> Any:  # noqa: N802
        def keep(resource: Any) -> None:
            for scope in resource.scope_spans:
                self._collector.spans.extend(scope.spans)

        self._collector.take(request.resource_spans, keep)
        return trace_service_pb2.ExportTraceServiceResponse()


class _Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def Export(self, request: Any, _: Any) -> Any:  # noqa: N802
        def keep(resource: Any) -> None:
            for scope in resource.scope_metrics:
                self._collector.metrics.update({metric.name: metric for metric in scope.metrics})

        self._collector.take(request.resource_metrics, keep)
        return metrics_service_pb2.ExportMetricsServiceResponse()


class _Logs(logs_service_pb2_grpc.LogsServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def Export(self, request: Any, _: Any) -> Any:  # noqa: N802
        def keep(resource: Any) -> None:
            for scope in resource.scope_logs:
                self._collector.logs.extend(scope.log_records)

        self._collector.take(request.resource_logs, keep)
        return logs_service_pb2.ExportLogsServiceResponse()
