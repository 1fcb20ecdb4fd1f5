"""What telemetry costs a server: processor time a call and a task, with 1 % of the calls traced, all, and without it.

The ceiling is the same server without telemetry, in the same run. What is sent goes to a collector in this process that
reads nothing of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import servers
from end_to_end import flow_flags
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from rows import Aim, Case, Figure, Measure, Row

from taskyard.v1 import task_pb2
from taskyard_server.core.agents import Agent
from taskyard_server.core.events import Event, EventKind
from taskyard_server.core.task import ASSIGNED, DONE, NO_OPTIONS, QUEUED, RUNNING, Submission, Task
from taskyard_server.core.task_options import TaskOptions
from taskyard_server.interceptors.callers import ANYBODY, current_call, set_current_call
from taskyard_server.telemetry.sampling import Sampler
from taskyard_server.telemetry.tracing import Tracing

REMARK = "the ceiling is the same server without telemetry"
UNARY = {"connections": 4, "inflight": 32}
SECS = 4.0
CALL, TASK = "unary submit, server CPU a call", "end to end, server CPU a task"


def cases() -> list[Case]:
    """Rows for calls alone, and for tasks that are submitted, handed out and reported."""
    flow = flow_flags(4)
    name = "spans of a call and its task, 1 % traced"
    made = Row(name, "us", better="less", aim=Aim(10, "value"), remark="in the process, with what encodes them")
    return [
        Case((made,), _made, older=False),
        _case(f"{CALL}, 1 % traced", "submit", UNARY, 0.01),
        _case(f"{TASK}, 1 % traced", "flow", flow, 0.01),
        _case(f"{CALL}, all traced", "submit", UNARY, 1.0),
    ]


def _case(name: str, mode: str, flags: dict[str, Any], ratio: float) -> Case:
    return Case(
        (Row(name, "us", better="less", aim=Aim(1.1) if ratio < 1 else None, remark=REMARK),),
        lambda: _observed(mode, flags, ratio),
        lambda: _alone(mode, flags),
        older=False,
        secs=SECS,
    )


@contextmanager
def _made() -> Iterator[Measure]:
    """What is done for a submit and the four events of its task, a hundredth of which is traced."""
    spans = BatchSpanProcessor(_Encoding(), max_queue_size=100_000)
    tracing = Tracing(spans, Resource({}), Sampler(0.01))

    async def serve(_: object, __: object) -> str | None:
        return current_call().traceparent

    call = tracing.calls.around("/taskyard.v1.TaskService/SubmitTask", serve, False)
    request = task_pb2.SubmitTaskRequest(agent_id="agent-1", action="crawl")
    agent = Agent("agent-1", 0)

    async def one(number: int) -> None:
        set_current_call(ANYBODY)
        traceparent = await call(request, None)
        options = NO_OPTIONS if traceparent is None else TaskOptions(traceparent=traceparent)
        task = Task(str(number), number, agent, Submission("agent-1", "crawl", options=options), 0.0, None, QUEUED)
        tracing.tasks("default", [Event(0.0, task, EventKind.SUBMITTED, None)])
        for before, state in ((QUEUED, ASSIGNED), (ASSIGNED, RUNNING), (RUNNING, DONE)):
            task.state = state
            if state is ASSIGNED:
                tracing.tasks.handed(task)
            tracing.tasks("default", [Event(1.0, task, EventKind.CHANGED, before)])

    async def alone(number: int) -> None:
        set_current_call(ANYBODY)
        await serve(request, None)
        task = Task(str(number), number, agent, Submission("agent-1", "crawl"), 0.0, None, QUEUED)
        Event(0.0, task, EventKind.SUBMITTED, None)
        for before, state in ((QUEUED, ASSIGNED), (ASSIGNED, RUNNING), (RUNNING, DONE)):
            task.state = state
            Event(1.0, task, EventKind.CHANGED, before)

    async def cost(work: Callable[[int], Any], secs: float) -> float:
        begin, cpu, count = time.perf_counter(), time.process_time(), 0
        while time.perf_counter() - begin < secs:
            for _ in range(1_000):
                await work(count)
                count += 1
        spans.force_flush()
        return (time.process_time() - cpu) / count * 1e6

    def measure(secs: float) -> list[Figure]:
        return [Figure(asyncio.run(cost(one, secs)) - asyncio.run(cost(alone, secs)))]

    yield measure
    spans.shutdown()  # type: ignore[no-untyped-call]


class _Encoding(SpanExporter):
    """Encodes spans for a collector, and sends nothing."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        encode_spans(spans).SerializeToString()
        return SpanExportResult.SUCCESS


@contextmanager
def _observed(mode: str, flags: dict[str, Any], ratio: float) -> Iterator[Measure]:
    with _collector() as endpoint:
        telemetry = {"endpoint": endpoint, "sampleRatio": ratio}
        with servers.taskyard(settings={**servers.SETTINGS, "telemetry": telemetry}) as server:
            yield _cpu(server, mode, flags)


@contextmanager
def _alone(mode: str, flags: dict[str, Any]) -> Iterator[Measure]:
    with servers.taskyard() as server:
        yield _cpu(server, mode, flags)


def _cpu(server: servers.Server, mode: str, flags: dict[str, Any]) -> Callable[[float], list[Figure]]:
    def measure(secs: float) -> list[Figure]:
        result = servers.load(mode, server, secs, **flags)
        return [Figure(result.server_cpu_secs / result.operations * 1e6)]

    return measure


class _Everything(grpc.GenericRpcHandler):
    """Answers every call with a message in which nothing is set."""

    def service(self, _: grpc.HandlerCallDetails) -> Any:
        return grpc.unary_unary_rpc_method_handler(lambda _, __: b"")


@contextmanager
def _collector() -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((_Everything(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"http://127.0.0.1:{port}"
    server.stop(None).wait()
