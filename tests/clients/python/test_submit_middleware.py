"""What clients call around each submit."""

import asyncio
from dataclasses import replace

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from taskyard import Client, SyncClient
from taskyard.contrib.opentelemetry import TracedSubmits


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


async def test_middleware_is_around_each_submit_the_first_one_outermost(server):
    order = []

    def middleware(name):
        async def around(task, call_next):
            order.append(f"{name} before {task.action}")
            submitted = await call_next(replace(task, labels={**task.labels, name: "yes"}))
            order.append(f"{name} after")
            return submitted

        return around

    async with Client(server.address, agent_id="ann", middleware=[middleware("outer"), middleware("inner")]) as client:
        handle = await client.submit("click")
        task = await client.get(handle.id)
    assert order == ["outer before click", "inner before click", "inner after", "outer after"]
    assert task.labels == {"outer": "yes", "inner": "yes"}


async def test_middleware_may_refuse_a_submit(server):
    async def refuse(_, __):
        raise PermissionError("not today")

    async with Client(server.address, agent_id="ann", middleware=[refuse]) as client:
        with pytest.raises(PermissionError, match="not today"):
            await client.submit("click")
    assert await server.made() == 0


async def test_a_trace_goes_from_the_submit_to_the_task(server, provider, exporter):
    tracer = provider.get_tracer("agent")
    async with Client(server.address, agent_id="ann", middleware=[TracedSubmits(provider)]) as client:
        with tracer.start_as_current_span("plan"):
            handle = await client.submit("click")
        task = await client.get(handle.id)
    send, plan = exporter.get_finished_spans()
    assert send.parent.span_id == plan.context.span_id
    assert task.traceparent.startswith(f"00-{send.context.trace_id:032x}-{send.context.span_id:016x}-")


def submit_in_a_span(address, provider):
    tracer, traced = provider.get_tracer("agent"), TracedSubmits(provider)
    with SyncClient(address, agent_id="ann", middleware=[traced]) as client, tracer.start_as_current_span("plan"):
        client.submit("click")


async def test_the_trace_of_a_thread_goes_into_its_submits(server, provider, exporter):
    await asyncio.to_thread(submit_in_a_span, server.address, provider)
    send, plan = exporter.get_finished_spans()
    assert send.parent.span_id == plan.context.span_id
