"""Metrics, lines and the spans of webhooks; when telemetry is on, and what a server without it imports.

See docs/rules.md, Telemetry.
"""

import asyncio
import subprocess
import sys

import pytest
import structlog
from opentelemetry.sdk.resources import Resource
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from taskyard_server.metrics.histograms import Histogram
from taskyard_server.settings.config import ConfigError, Settings
from taskyard_server.telemetry import starting
from taskyard_server.telemetry.log_export import LogExport
from taskyard_server.telemetry.metric_export import metrics_data
from taskyard_server.telemetry.parts import OFF
from taskyard_server.telemetry.signals import Signals
from tests.telemetry.collector import Collector, attributes
from tests.telemetry.conftest import NOT_RECORDED, RECORDED, TRACE, ids, parent, traceparent

NOWHERE = "http://127.0.0.1:1"


def exported(*families):
    (resource,) = metrics_data(families, Resource({}), 5).resource_metrics
    return {metric.name: metric for metric in resource.scope_metrics[0].metrics}


# Metrics


def test_counters_and_gauges_keep_their_names_and_labels():
    counter = CounterMetricFamily("taskyard_webhooks", "Webhook deliveries.", labels=["outcome"])
    counter.add_metric(["failed"], 3)
    metrics = exported(counter, GaugeMetricFamily("taskyard_tasks_queued", "Tasks that wait.", 7))
    (failed,) = metrics["taskyard_webhooks"].data.data_points
    assert (failed.value, dict(failed.attributes), failed.start_time_unix_nano) == (3.0, {"outcome": "failed"}, 5)
    assert metrics["taskyard_webhooks"].data.is_monotonic
    assert metrics["taskyard_tasks_queued"].data.data_points[0].value == 7.0
    assert metrics["taskyard_tasks_queued"].description == "Tasks that wait."


def test_the_buckets_of_a_histogram_are_counts_of_their_own():
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.5, 1.7, 9.0):
        histogram.observe(value)
    (point,) = exported(histogram.family("taskyard_secs", "Seconds."))["taskyard_secs"].data.data_points
    assert (list(point.explicit_bounds), list(point.bucket_counts)) == ([1.0, 2.0], [1, 2, 1])
    assert (point.count, point.sum) == (4, 12.7)


# Lines


def test_a_line_is_exported_with_its_fields_and_its_trace_and_passed_on():
    sent = []
    export = LogExport({"service.name": "yard"}, sent.append, 60)
    line = {"event": "task_failed", "level": "warning", "task_id": "t", "tries": 2, "trace_id": TRACE, "by": {"a": 1}}
    assert export(None, "warning", dict(line)) == line
    export.close()
    ((resource,),) = [message.resource_logs for message in sent]
    assert attributes(resource.resource) == {"service.name": "yard"}
    (record,) = resource.scope_logs[0].log_records
    assert (record.body.string_value, record.severity_text) == ("task_failed", "WARNING")
    assert record.trace_id.hex() == TRACE
    assert attributes(record) == {"task_id": "t", "tries": 2, "by": "{'a': 1}"}


def test_a_line_that_no_message_can_hold_is_dropped_alone():
    sent = []
    export = LogExport({}, sent.append, 60)
    for value in (2**70, "\ud800", 1):
        export(None, "info", {"event": "line", "level": "info", "value": value})
    export.close()
    assert [attributes(each) for each in sent[0].resource_logs[0].scope_logs[0].log_records] == [{"value": 1}]


def test_lines_go_in_messages_that_a_collector_takes_and_of_too_many_the_newest():
    sent = []
    export = LogExport({}, sent.append, 60)
    for number in range(5_000):
        export(None, "info", {"event": str(number), "level": "info"})
    export.close()
    records = [message.resource_logs[0].scope_logs[0].log_records for message in sent]
    assert [len(each) for each in records] == [512] * 8
    assert records[-1][-1].body.string_value == "4999"


# Webhooks


async def test_each_try_of_a_webhook_has_a_span_below_the_run_and_sends_its_own_trace_context(tracing, sink):
    sent = []

    async def post(context):
        sent.append(context)
        if len(sent) == 1:
            raise TimeoutError
        return 200

    for _ in range(2):
        try:
            await tracing.posts.around("t", 1, "https://hook.example/secret?key=1", RECORDED, post)
        except TimeoutError:
            continue
    first, second = sink.spans
    assert [traceparent(first), traceparent(second)] == sent
    assert ids(first)[0] == TRACE
    assert parent(first) == parent(second)
    assert first.attributes["error.type"] == "TimeoutError"
    assert second.attributes["http.response.status_code"] == 200
    assert "secret" not in str(dict(second.attributes))


async def test_the_webhook_of_a_task_that_is_not_traced_sends_what_the_task_was_given(tracing, sink):
    async def post(context):
        assert context == NOT_RECORDED
        return 200

    assert await tracing.posts.around("t", 1, "https://hook.example", NOT_RECORDED, post) == 200
    assert sink.spans == []


# On and off


def settings(**telemetry):
    return Settings(telemetry=telemetry)


@pytest.mark.parametrize("environment", [{}, {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": NOWHERE}])
def test_without_an_endpoint_there_is_none(environment):
    assert starting.configured_telemetry(settings(), environment) == (OFF, None)


def test_a_protocol_that_is_not_spoken_is_said_and_ends_nothing():
    given = {"OTEL_EXPORTER_OTLP_ENDPOINT": NOWHERE, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
    telemetry, why_not = starting.configured_telemetry(settings(), given)
    assert telemetry is OFF
    assert why_not == "OTEL_EXPORTER_OTLP_PROTOCOL: only grpc is spoken, not http/protobuf"


def test_a_missing_package_is_an_error_only_where_the_settings_ask_for_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "taskyard_server.telemetry.signals")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.grpc._log_exporter", None)
    telemetry, why_not = starting.configured_telemetry(settings(), {"OTEL_EXPORTER_OTLP_ENDPOINT": NOWHERE})
    assert telemetry is OFF
    assert "taskyard[otel]" in why_not
    with pytest.raises(ConfigError, match=r"telemetry.endpoint: .*taskyard\[otel\]"):
        starting.configured_telemetry(settings(endpoint=NOWHERE), {})


def test_a_variable_that_cannot_be_read_is_an_error():
    with pytest.raises(ConfigError, match="OTEL_METRIC_EXPORT_INTERVAL: must be milliseconds, is soon"):
        starting.configured_telemetry(settings(endpoint=NOWHERE), {"OTEL_METRIC_EXPORT_INTERVAL": "soon"})


@pytest.mark.parametrize(
    "url", ["collector:4317", "grpc://collector:4317", "http://me:secret@collector", "http://c/v1"]
)
def test_an_endpoint_is_a_scheme_a_host_and_a_port(url):
    with pytest.raises(ValueError, match="endpoint"):
        settings(endpoint=url)


async def test_each_signal_can_be_switched_off():
    off = {f"OTEL_{name}_EXPORTER": "none" for name in ("TRACES", "METRICS", "LOGS")}
    its = Signals(NOWHERE, None, "a", off).telemetry
    assert (its.calls, its.posts, its.handed, its.listeners, its.log_processor) == (None, None, None, (), None)


async def test_an_endpoint_of_one_signal_is_of_that_one_alone():
    signals = Signals(None, None, "a", {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": NOWHERE})
    assert signals.telemetry.calls is None
    assert signals.telemetry.log_processor is not None
    await signals.close()


async def test_what_is_left_is_sent_at_the_end():
    collector = Collector()
    signals = Signals(collector.url, 1.0, "a", {})
    signals.telemetry.log_processor(None, "info", {"event": "last words", "level": "info"})
    await signals.close()
    assert [line.body.string_value for line in collector.logs] == ["last words"]
    assert collector.resources[0]["service.instance.id"] == "a"
    await asyncio.to_thread(collector.stop)


async def test_what_opentelemetry_complains_of_is_a_line_of_ours_and_not_the_same_again(monkeypatch):
    monkeypatch.setattr("taskyard_server.telemetry.signals.CLOSE_SECS", 0.3)
    signals = Signals(NOWHERE, None, "a", {})
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            signals.telemetry.log_processor(None, "info", {"event": "nobody hears it", "level": "info"})
        await signals.close()
    complaints = [line for line in lines if line["event"] == "telemetry"]
    assert len({line["problem"] for line in complaints}) == len(complaints)
    assert "127.0.0.1:1" in complaints[0]["problem"]


def test_a_server_without_telemetry_imports_nothing_of_opentelemetry():
    code = (
        "import sys; import taskyard_server.cli.up.serving; "
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
