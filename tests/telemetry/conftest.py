"""Fixtures of the tests of telemetry: spans in memory, and a server whose calls and tasks have some."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan

from taskyard.v1 import batch_pb2_grpc, lease_pb2_grpc, runtime_host_pb2_grpc, task_pb2_grpc
from taskyard_server.conversion.task_encoding import encode_event
from taskyard_server.core.limits import Limits
from taskyard_server.engine.engine import Engine
from taskyard_server.interceptors.calls import CallInterceptor
from taskyard_server.services.batches import BatchService
from taskyard_server.services.hosts import RuntimeHostService
from taskyard_server.services.leases import LeaseService
from taskyard_server.services.task_watches import TaskWatches
from taskyard_server.services.tasks import TaskService
from taskyard_server.telemetry.sampling import Sampler
from taskyard_server.telemetry.tracing import Tracing
from tests.engines import running_engine

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
RECORDED = f"00-{TRACE}-{CALLER}-01"
NOT_RECORDED = f"00-{TRACE}-{CALLER}-00"
MOST_BYTES = 262_144


class Sink:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]


def ids(span: ReadableSpan) -> tuple[str, str]:
    """The trace and the span, as trace contexts spell them."""
    assert span.context is not None
    return f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"


def parent(span: ReadableSpan) -> str | None:
    return None if span.parent is None else f"{span.parent.span_id:016x}"


def traceparent(span: ReadableSpan) -> str:
    return "-".join(("00", *ids(span), "01"))


class Clock:
    """A clock that only tests move."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def ratio() -> float:
    """Which share of the traces that begin here are taken."""
    return 0.0


@pytest.fixture
def tracing(sink: Sink, ratio: float, clock: Clock) -> Tracing:
    tracing = Tracing(sink, Resource({}), Sampler(ratio))
    tracing.take_clock(clock)
    return tracing


@pytest.fixture
async def engine(tracing: Tracing, clock: Clock) -> AsyncIterator[Engine]:
    async with running_engine(Limits(), clock) as engine:
        engine.subscribe(tracing.tasks)
        yield engine


class Stubs:
    """A client of the server."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.tasks: Any = task_pb2_grpc.TaskServiceStub(channel)
        self.batches: Any = batch_pb2_grpc.BatchServiceStub(channel)
        self.leases: Any = lease_pb2_grpc.LeaseServiceStub(channel)
        self.hosts: Any = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel)


@pytest.fixture
async def server(engine: Engine, tracing: Tracing) -> AsyncIterator[Stubs]:
    async with AsyncExitStack() as cleanup:
        server = grpc.aio.server(
            interceptors=(CallInterceptor(tracer=tracing.calls),), options=(("grpc.so_reuseport", 0),)
        )
        watches = TaskWatches(engine, engine.event_logs(encode_event))
        task_pb2_grpc.add_TaskServiceServicer_to_server(TaskService(engine, MOST_BYTES, watches), server)
        batch_pb2_grpc.add_BatchServiceServicer_to_server(BatchService(engine, 50, MOST_BYTES), server)
        handed = tracing.tasks.handed
        lease_pb2_grpc.add_LeaseServiceServicer_to_server(LeaseService(engine, MOST_BYTES, handed), server)
        runtime_host_pb2_grpc.add_RuntimeHostServiceServicer_to_server(
            RuntimeHostService(engine, MOST_BYTES, handed), server
        )
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        cleanup.push_async_callback(server.stop, None)
        yield Stubs(await cleanup.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}")))
