"""Spans as they are exported: made whole at their end, never looked after in between.

The tracer of the SDK costs four times as much, since it keeps a current span and asks its sampler for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from random import getrandbits
from typing import Final, NamedTuple, Protocol

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

SCOPE: Final = InstrumentationScope("taskyard_server")
RECORDED: Final = TraceFlags(TraceFlags.SAMPLED)
UNSET: Final = Status(StatusCode.UNSET)

Attributes = Mapping[str, str | int]


class SpanSink(Protocol):
    """Takes spans that have ended, such as a `BatchSpanProcessor`."""

    def on_end(self, span: ReadableSpan) -> None:
        """Export it some time."""


class SpanId(NamedTuple):
    """A span, by its trace and its own id."""

    trace: int
    span: int

    @property
    def traceparent(self) -> str:
        """The trace context of what follows from it."""
        return f"00-{self.trace:032x}-{self.span:016x}-01"

    def child(self) -> SpanId:
        """A new span of the same trace."""
        return SpanId(self.trace, new_span())

    def named(self, *names: object) -> SpanId:
        """The span of the same trace that these names always lead to."""
        text = "-".join(map(str, names))
        return SpanId(self.trace, int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) or 1)


def new_span() -> int:
    """The id of a new span."""
    return getrandbits(64) or 1


def span_of(traceparent: str) -> SpanId:
    """The span that a trace context names, which has the format of one."""
    return SpanId(int(traceparent[3:35], 16), int(traceparent[36:52], 16))


class Spans:
    """Makes spans, whose times are seconds by `now`, and gives them to a sink."""

    def __init__(self, sink: SpanSink, resource: Resource, now: Callable[[], float]) -> None:
        self._sink = sink
        self._resource = resource
        self.now = now

    def end(
        self,
        its: SpanId,
        parent: int | None,
        name: str,
        kind: SpanKind,
        begin: float,
        end: float | None,
        attributes: Attributes,
        error: str | None = None,
        moments: Sequence[tuple[str, float]] = (),
    ) -> None:
        """Export a span that ended at `end`, else now. `error` makes it a failure; `moments` are events within it."""
        context = SpanContext(its.trace, its.span, False, RECORDED)
        end = self.now() if end is None else end
        self._sink.on_end(
            ReadableSpan(
                name,
                context,
                SpanContext(its.trace, parent, True, RECORDED) if parent else None,
                self._resource,
                attributes,
                [Event(moment, timestamp=_nanoseconds(at)) for moment, at in moments],
                kind=kind,
                status=UNSET if error is None else Status(StatusCode.ERROR, error),
                start_time=_nanoseconds(min(begin, end)),
                end_time=_nanoseconds(end),
                instrumentation_scope=SCOPE,
            )
        )


def _nanoseconds(at: float) -> int:
    return round(at * 1e9)
