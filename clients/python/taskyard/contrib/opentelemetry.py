"""Traces by OpenTelemetry: spans for what is submitted and for what runs, of one trace from the agent to the handler.

`Client(middleware=[TracedSubmits()])` makes a span of each submit and gives its trace context to the task;
`Host(middleware=[TracedHandlers()])` makes a span of each attempt, below that of the submit. What a handler submits is
below its own span. Names and attributes are those of the semantic conventions for messaging. It needs the extra
`opentelemetry` of Taskyard, which is the API alone; the program sets up the SDK.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from taskyard.hosting.park_work import Parked
from taskyard.hosting.running_task import RunningTask
from taskyard.new_tasks import NewTask
from taskyard.records.submitted import Submitted

SYSTEM: Final = "taskyard"
W3C: Final = TraceContextTextMapPropagator()
"""Tasks carry the header of W3C, whatever propagators the program has set up."""


class _Traced:
    """The tracer. A worker process has a provider of its own: the one that its modules or lifespan set."""

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._provider = tracer_provider

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    @property
    def _tracer(self) -> Tracer:
        return trace.get_tracer("taskyard", tracer_provider=self._provider)


class TracedSubmits(_Traced):
    """Middleware of clients: a span of the kind PRODUCER for each submit, `send` and the action.

    A task that has a `traceparent` keeps it.

    Args:
        tracer_provider: What makes the spans. Default the global one.
    """

    async def __call__(self, task: NewTask, call_next: Callable[[NewTask], Awaitable[Submitted]]) -> Submitted:
        """Submit a task.

        Args:
            task: The task.
            call_next: Submits it.

        Returns:
            The acceptance.
        """
        with self._tracer.start_as_current_span(
            f"send {task.action}",
            kind=SpanKind.PRODUCER,
            attributes=_attributes("send", task.action),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            submitted: Submitted = await _noted(span, call_next(with_trace(task)))
            span.set_attribute("messaging.message.id", submitted.id)
            return submitted


class TracedHandlers(_Traced):
    """Middleware of hosts: a span of the kind CONSUMER for each attempt, `process` and the action.

    Its parent is the trace context that the task was handed out with. An attempt that is stopped, as by a cancel, has
    the attribute `taskyard.task.cancelled` and no error, one that is parked has `taskyard.task.parked`.

    Args:
        tracer_provider: What makes the spans. Default the global one, in worker processes that of the worker.
    """

    async def __call__(self, task: RunningTask, call_next: Callable[[RunningTask], Awaitable[Any]]) -> Any:
        """Run a handler.

        Args:
            task: Its task.
            call_next: Runs it.

        Returns:
            What it returns.
        """
        attributes = _attributes("process", task.action) | {
            "messaging.message.id": task.id,
            "taskyard.task.attempt": task.attempt,
            "taskyard.agent.id": task.task.agent_id,
        }
        with self._tracer.start_as_current_span(
            f"process {task.action}",
            context=context_of(task.traceparent),
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            return await _noted(span, call_next(task), task)


def with_trace(task: NewTask) -> NewTask:
    """Give a task the trace context of the current span, for example those of a batch.

    Args:
        task: The task.

    Returns:
        The task with a `traceparent`. Unchanged if it has one already, or there is no span.
    """
    headers: dict[str, str] = {}
    W3C.inject(headers)
    traceparent = headers.get("traceparent")
    return task if task.traceparent is not None or traceparent is None else replace(task, traceparent=traceparent)


def context_of(traceparent: str | None) -> Context:
    """Read the trace context of a task.

    Args:
        traceparent: The header of W3C, None for none.

    Returns:
        A context with the remote span alone.
    """
    return W3C.extract({} if traceparent is None else {"traceparent": traceparent})


def _attributes(operation: str, action: str) -> dict[str, Any]:
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": action,
    }


async def _noted(span: Span, work: Awaitable[Any], task: RunningTask | None = None) -> Any:
    """Await what a span is about, and note how it fails."""
    try:
        return await work
    except asyncio.CancelledError:
        if task is not None:
            span.set_attribute("taskyard.task.cancelled", True)
        raise
    except Parked:
        span.set_attribute("taskyard.task.parked", True)
        raise
    except BaseException as error:
        span.record_exception(error)
        span.set_attribute("error.type", _type_of(error))
        span.set_status(Status(StatusCode.ERROR, str(error)))
        raise


def _type_of(error: BaseException) -> str:
    """The code of an error that has one, such as `queue_full`, else its class."""
    code = getattr(error, "code", None)
    return code if isinstance(code, str) and code else type(error).__qualname__
