"""Spans of webhooks, of the kind CLIENT, one a try. Their receivers are below them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from opentelemetry.trace import SpanKind

from .sampling import Sampler
from .spans import Spans, span_of
from .tasks import run_span


class PostSpans:
    """Makes the spans of deliveries whose tasks are traced."""

    def __init__(self, spans: Spans, sampler: Sampler) -> None:
        self._spans = spans
        self._takes = sampler.takes

    async def around(
        self, task_id: str, run: int, url: str, traceparent: str | None, post: Callable[[str | None], Awaitable[int]]
    ) -> int:
        """Make one try, which is told the trace context to send; the status of the answer."""
        if traceparent is None or not self._takes(traceparent):
            return await post(traceparent)
        parent = run_span(span_of(traceparent), task_id, run)
        its, begin = parent.child(), self._spans.now()
        # Not the whole address: its query may hold a secret.
        attributes: dict[str, str | int] = {
            "http.request.method": "POST",
            "server.address": urlsplit(url).hostname or "",
            "messaging.message.id": task_id,
        }
        error: str | None = "cancelled"
        try:
            status = await post(its.traceparent)
        except Exception as failure:
            error = type(failure).__name__
            raise
        else:
            attributes["http.response.status_code"] = status
            error = None if status < 400 else str(status)
            return status
        finally:
            if error is not None:
                attributes["error.type"] = error
            self._spans.end(its, parent.span, "POST webhook", SpanKind.CLIENT, begin, None, attributes, error)
