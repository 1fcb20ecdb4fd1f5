"""Spans of submits and of handlers, and the trace that goes from one to the other."""

import asyncio
import pickle
from datetime import UTC, datetime

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from taskyard import NewTask, Parked, Submitted, TaskState
from taskyard.contrib.opentelemetry import TracedHandlers, TracedSubmits, with_trace
from taskyard.errors import QueueFull
from taskyard.hosting.actions import Actions
from taskyard.hosting.failing import ActionFailed
from taskyard.values.convert import plain_value
from tests.clients.python.host import process_handlers
from tests.clients.python.host.handling import handling

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE_ID}-{SPAN_ID}-01"


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


async def handled(handler, provider, **task):
    actions = Actions()
    actions.middleware.append(TracedHandlers(provider))
    actions.add("crawl", handler)
    async with handling(actions) as work:
        return await work.run("crawl", **task)


async def accepted(_):
    return Submitted("t", TaskState.QUEUED, None, datetime.now(UTC))


async def test_an_attempt_has_a_span_below_that_of_its_submit(provider, exporter):
    async def crawl(_):
        return trace.format_span_id(trace.get_current_span().get_span_context().span_id)

    report = await handled(crawl, provider, traceparent=TRACEPARENT)
    (span,) = exporter.get_finished_spans()
    assert (span.name, span.kind) == ("process crawl", SpanKind.CONSUMER)
    assert trace.format_trace_id(span.context.trace_id) == TRACE_ID
    assert trace.format_span_id(span.parent.span_id) == SPAN_ID
    assert plain_value(report.completed.result) == trace.format_span_id(span.context.span_id)
    assert dict(span.attributes) == {
        "messaging.system": "taskyard",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "crawl",
        "messaging.message.id": "t",
        "taskyard.task.attempt": 1,
        "taskyard.agent.id": "ann",
    }
    assert span.status.status_code is StatusCode.UNSET


async def test_a_task_without_a_trace_begins_one(provider, exporter):
    await handled(lambda _: None, provider)
    (span,) = exporter.get_finished_spans()
    assert span.parent is None


@pytest.mark.parametrize(
    ("error", "kind"), [(ValueError("bad"), "ValueError"), (ActionFailed("gone", code="no_page"), "no_page")]
)
async def test_a_failure_is_an_error_of_the_span(provider, exporter, error, kind):
    def crawl(_):
        raise error

    assert (await handled(crawl, provider)).HasField("failed")
    (span,) = exporter.get_finished_spans()
    assert span.attributes["error.type"] == kind
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, str(error))
    assert [event.name for event in span.events] == ["exception"]


async def test_a_stopped_attempt_is_no_error(provider, exporter):
    actions, entered = Actions(), asyncio.Event()
    actions.middleware.append(TracedHandlers(provider))

    async def crawl(_):
        entered.set()
        await asyncio.Event().wait()

    actions.add("crawl", crawl)
    async with handling(actions) as work:
        key = work.start("crawl")
        await entered.wait()
        work.handlers.stop([key])
        await work.ended()
    (span,) = exporter.get_finished_spans()
    assert span.attributes["taskyard.task.cancelled"] is True
    assert span.status.status_code is StatusCode.UNSET


async def test_an_attempt_that_is_parked_has_no_error(provider, exporter):
    actions = Actions()
    actions.middleware.append(TracedHandlers(provider))

    async def crawl(_):
        raise Parked

    actions.add("crawl", crawl)
    async with handling(actions) as work:
        work.start("crawl")
        await work.ended()
    (span,) = exporter.get_finished_spans()
    assert span.attributes["taskyard.task.parked"] is True
    assert span.status.status_code is StatusCode.UNSET


async def test_a_submit_has_a_span_and_gives_it_to_the_task(provider, exporter):
    given = []

    async def submit(task):
        given.append(task.traceparent)
        return await accepted(task)

    with provider.get_tracer("agent").start_as_current_span("plan") as outer:
        await TracedSubmits(provider)(NewTask("crawl"), submit)
    span = next(each for each in exporter.get_finished_spans() if each.name == "send crawl")
    assert span.kind is SpanKind.PRODUCER
    assert span.parent.span_id == outer.get_span_context().span_id
    assert given[0].split("-")[2] == trace.format_span_id(span.context.span_id)
    assert span.attributes["messaging.message.id"] == "t"
    assert span.attributes["messaging.operation.type"] == "send"


async def test_a_task_keeps_the_trace_context_that_it_has(provider):
    given = []

    async def submit(task):
        given.append(task.traceparent)
        return await accepted(task)

    await TracedSubmits(provider)(NewTask("crawl", traceparent=TRACEPARENT), submit)
    assert given == [TRACEPARENT]
    assert with_trace(NewTask("crawl")).traceparent is None


async def test_a_refused_submit_is_an_error_of_the_span(provider, exporter):
    async def submit(_):
        raise QueueFull("the queue is full")

    with pytest.raises(QueueFull):
        await TracedSubmits(provider)(NewTask("crawl"), submit)
    (span,) = exporter.get_finished_spans()
    assert span.attributes["error.type"] == "queue_full"
    assert span.status.status_code is StatusCode.ERROR


async def test_the_trace_goes_on_in_a_worker_process(provider):
    # A worker has its own provider; without one its spans are not recorded, and still pass the trace on.
    assert isinstance(pickle.loads(pickle.dumps(TracedHandlers(provider))), TracedHandlers)
    actions = Actions()
    actions.middleware.append(TracedHandlers(provider))
    actions.add("trace_id", process_handlers.trace_id, runs_in="process")
    async with handling(actions) as work:
        report = await work.run("trace_id", traceparent=TRACEPARENT)
    assert plain_value(report.completed.result) == TRACE_ID
