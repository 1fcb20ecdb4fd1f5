"""One trace from a caller to the receiver of a webhook, and what else a collector is sent (docs/rules.md, Telemetry).

The server, the host of the SDK, the collector and HTTP are real.
"""

import asyncio
import signal

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from taskyard import Client, Host
from taskyard.contrib.opentelemetry import TracedHandlers, TracedSubmits
from tests.telemetry.collector import Collector, attributes
from tests.waiting import LIMIT_SECS


@pytest.fixture
def collector():
    collector = Collector()
    yield collector
    collector.stop()


def of_clients():
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter, provider


def total(collector, name):
    metric = collector.metrics.get(name)
    return None if metric is None else metric.sum.data_points[0].as_double


async def test_one_trace_leads_from_the_caller_to_the_webhook(up, hook, collector, monkeypatch):
    for name, value in {"BSP_SCHEDULE_DELAY": 100, "BLRP_SCHEDULE_DELAY": 100, "METRIC_EXPORT_INTERVAL": 200}.items():
        monkeypatch.setenv(f"OTEL_{name}", str(value))
    server = await up({"webhooks": {"allowPrivate": True}, "telemetry": {"endpoint": collector.url, "sampleRatio": 0}})
    address = f"127.0.0.1:{server.grpc_port}"
    exporter, provider = of_clients()
    host = Host(address, "host", capabilities=["paper"], middleware=[TracedHandlers(provider)])
    host.action("report")(lambda _: "written")
    working = asyncio.create_task(host.run())
    async with Client(address, agent_id="ann", middleware=[TracedSubmits(provider)]) as client:
        submitted = await client.submit("report", requires=["paper"], callback_url=hook.url)
        assert await submitted.result() == "written"
        await asyncio.wait_for(hook.came.wait(), LIMIT_SECS)
    working.cancel()
    spans = await asyncio.to_thread(collector.wait, lambda its: len(its.spans) >= 4 and its.spans)
    sent, processed = sorted(exporter.get_finished_spans(), key=lambda span: span.start_time)
    by_name = {span.name: span for span in spans}
    task, queue, run, post = (by_name[name] for name in ("task report", "queue report", "run report", "POST webhook"))
    trace = sent.context.trace_id.to_bytes(16)
    assert {span.trace_id for span in spans} == {trace}
    assert processed.context.trace_id == sent.context.trace_id
    assert task.parent_span_id == sent.context.span_id.to_bytes(8)
    assert {span.parent_span_id for span in (queue, run, post)} == {task.span_id}
    assert processed.parent.span_id.to_bytes(8) == run.span_id
    assert f"\r\ntraceparent: 00-{trace.hex()}-{post.span_id.hex()}-01\r\n" in hook.heads[0]
    assert queue.end_time_unix_nano == run.start_time_unix_nano
    assert run.end_time_unix_nano == task.end_time_unix_nano
    assert attributes(run)["taskyard.host.id"] == "host"
    assert attributes(task)["taskyard.task.state"] == "done"

    # Metrics and lines are of the same server.
    assert await asyncio.to_thread(collector.wait, lambda its: total(its, "taskyard_tasks_completed") == 1)
    assert collector.metrics["taskyard_queue_wait_seconds"].histogram.data_points[0].count == 1
    lines = await asyncio.to_thread(collector.wait, lambda its: [line for line in its.logs if line.trace_id == trace])
    assert lines[0].body.string_value == "task_queued"
    assert {each["service.name"] for each in collector.resources} == {"taskyard"}
    assert len({each["service.instance.id"] for each in collector.resources}) == 1


async def test_a_collector_that_is_not_there_holds_up_nothing(up):
    server = await up({"telemetry": {"endpoint": "http://127.0.0.1:1"}}, OTEL_METRIC_EXPORT_INTERVAL="50")
    task_id = await server.submit()
    await server.logged("task_done", task_id=task_id)
    (complaint, *_) = await server.logged("telemetry")
    assert "127.0.0.1:1" in complaint["problem"]
    server.signal(signal.SIGTERM)
    assert await server.exited(20) == 0
    assert server.noise == []


async def test_an_endpoint_for_another_protocol_is_said_once(up):
    given = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}
    server = await up(None, **given)
    (line,) = await server.logged("telemetry_off")
    assert line["why"] == "OTEL_EXPORTER_OTLP_PROTOCOL: only grpc is spoken, not http/json"


def test_a_sampler_that_is_not_known_is_an_error(refused):
    ended = refused('{"telemetry": {"endpoint": "http://127.0.0.1:1"}}', OTEL_TRACES_SAMPLER="jaeger_remote")
    (error,) = ended.errors
    assert error.startswith("OTEL_TRACES_SAMPLER: must be among always_on, ")
