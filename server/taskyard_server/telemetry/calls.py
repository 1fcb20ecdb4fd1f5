"""Spans of calls, of the kind SERVER, and new traces for what callers submit without one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import grpc
from google.protobuf import descriptor_pool
from opentelemetry.trace import SpanKind

from taskyard_server.conversion.trace_context import TRACEPARENT
from taskyard_server.core.errors import Refusal
from taskyard_server.interceptors.callers import Call, current_call, set_current_call
from taskyard_server.interceptors.errors import MAPPINGS, refusal_of

from .sampling import Sampler
from .spans import SpanId, Spans, new_span, span_of

Serve: TypeAlias = Callable[[Any, Any], Awaitable[Any]]

SUBMIT_TASKS: Final = "/taskyard.v1.TaskService/SubmitTasks"
FAULTS: Final = frozenset({"UNKNOWN", "DEADLINE_EXCEEDED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})
"""The statuses that are the fault of a server. Others are for the caller to mend."""


class CallSpans:
    """Wraps handlers, once for each method."""

    def __init__(self, spans: Spans, sampler: Sampler) -> None:
        self._spans = spans
        self._sampler = sampler

    def around(self, method: str, serve: Serve, is_stream: bool) -> Serve:
        """The same handler with a span for each call that is sampled, which is the parent of what the call submits.

        A stream may last for days: it has one only where its caller records it. What is submitted by a stream without
        a trace begins one of its own, a task at a time.
        """
        if method == SUBMIT_TASKS:
            serve = self._beginning_traces(serve)
        has_field = _has_field(method)
        begin_trace, takes = self._sampler.begin, self._sampler.takes

        async def serve_traced(request: Any, context: Any) -> Any:
            call = current_call()
            traceparent = call.traceparent
            if traceparent is None and has_field:
                traceparent = _given(request)
            if traceparent is not None:
                if not takes(traceparent):
                    return await serve(request, context)
                parent = span_of(traceparent)
                its, above = parent.child(), parent.span
            else:
                if is_stream or (trace := begin_trace()) is None:
                    return await serve(request, context)
                its, above = SpanId(trace, new_span()), 0
            return await self._serve(method, serve, request, context, call, its, above)

        return serve_traced

    async def _serve(
        self, method: str, serve: Serve, request: Any, context: Any, call: Call, its: SpanId, above: int
    ) -> Any:
        set_current_call(call._replace(traceparent=its.traceparent))
        begin = self._spans.now()
        code = "internal"
        try:
            response = await serve(request, context)
        except asyncio.CancelledError:
            code = "cancelled"
            raise
        except grpc.aio.AbortError:
            code = "aborted"
            raise
        except Exception as error:
            code = refusal_of(error).code
            raise
        else:
            code = "ok"
            return response
        finally:
            self._end(method, its, above, begin, call, code)

    def _end(self, method: str, its: SpanId, above: int, begin: float, call: Call, code: str) -> None:
        service, _, name = method[1:].rpartition("/")
        status = MAPPINGS[code].grpc if code in MAPPINGS else STATUSES[code]
        attributes: dict[str, str | int] = {
            "rpc.system": "grpc",
            "rpc.service": service,
            "rpc.method": name,
            "rpc.grpc.status_code": status.value[0],
            "taskyard.namespace": call.namespace,
        }
        if code != "ok":
            attributes["error.type"] = code
        error = code if status.name in FAULTS else None
        self._spans.end(its, above, f"{service}/{name}", SpanKind.SERVER, begin, None, attributes, error)

    def _beginning_traces(self, serve: Serve) -> Serve:
        async def serve_beginning(messages: Any, context: Any) -> Any:
            call = current_call()
            if call.traceparent is None:
                messages = _BeginningTraces(messages, self._spans, self._sampler, call.namespace)
            return await serve(messages, context)

        return serve_beginning


STATUSES: Final = {
    "ok": grpc.StatusCode.OK,
    "cancelled": grpc.StatusCode.CANCELLED,
    "aborted": grpc.StatusCode.ABORTED,
}


class _BeginningTraces:
    """The messages of a stream of submissions. Tasks without a trace begin one, as far as the sampler takes it.

    The span that a trace begins with lasts until the stream looks for its next message.
    """

    def __init__(self, messages: Any, spans: Spans, sampler: Sampler, namespace: str) -> None:
        self._messages = messages
        self._spans = spans
        self._begin_trace = sampler.begin
        self._attributes = {"rpc.system": "grpc", "rpc.method": "SubmitTasks", "taskyard.namespace": namespace}
        self._begun: list[tuple[SpanId, float]] = []

    def __aiter__(self) -> _BeginningTraces:
        return self

    async def __anext__(self) -> Any:
        if self._begun:
            self._end_all()
        message = await self._messages.__anext__()
        if not isinstance(message, Refusal):
            for index, task in enumerate(message.tasks):
                trace = self._begin_trace()
                if trace is not None and not task.traceparent:
                    its = SpanId(trace, new_span())
                    message.begin_trace(index, its.traceparent)
                    self._begun.append((its, self._spans.now()))
        return message

    def _end_all(self) -> None:
        begun, self._begun = self._begun, []
        for its, at in begun:
            self._spans.end(its, None, SUBMIT_TASKS[1:], SpanKind.SERVER, at, None, self._attributes)


def _has_field(method: str) -> bool:
    """True if the request of a method has a trace context of its own."""
    try:
        found = descriptor_pool.Default().FindMethodByName(method[1:].replace("/", "."))
    except KeyError:
        return False
    return not found.client_streaming and "traceparent" in found.input_type.fields_by_name


def _given(request: Any) -> str | None:
    """The trace context of a request, or of the message of a REST call."""
    traceparent = getattr(request, "message", request).traceparent
    return traceparent if TRACEPARENT.fullmatch(traceparent) else None
