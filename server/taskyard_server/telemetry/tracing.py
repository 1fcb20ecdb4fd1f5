"""Everything that makes spans, with one sampler."""

from __future__ import annotations

import time
from collections.abc import Callable

from opentelemetry.sdk.resources import Resource

from .calls import CallSpans
from .posts import PostSpans
from .sampling import Sampler
from .spans import Spans, SpanSink
from .tasks import TaskSpans


class Tracing:
    """The spans of calls, of tasks and of webhooks. They go to a sink once they have ended."""

    def __init__(self, sink: SpanSink, resource: Resource, sampler: Sampler) -> None:
        self._spans = Spans(sink, resource, time.time)
        self.calls = CallSpans(self._spans, sampler)
        self.tasks = TaskSpans(self._spans, sampler)
        self.posts = PostSpans(self._spans, sampler)

    def take_clock(self, now: Callable[[], float]) -> None:
        """Let spans of calls have the time of those of tasks."""
        self._spans.now = now
