"""Log lines as OTLP, beside those on standard error."""

from __future__ import annotations

import time
from collections.abc import MutableMapping
from typing import Any, Final

from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

SEVERITIES: Final = {
    "debug": SeverityNumber.DEBUG,
    "info": SeverityNumber.INFO,
    "warning": SeverityNumber.WARN,
    "error": SeverityNumber.ERROR,
    "critical": SeverityNumber.FATAL,
}
OWN: Final = frozenset({"event", "level", "timestamp", "trace_id"})
"""The fields of a line that have a place of their own."""
SIMPLE: Final = (str, bool, int, float)


class LogExport:
    """A processor of structlog, which passes lines on as they are."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger

    def __call__(self, _: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Export a line some time, with the time of now."""
        level = str(event.get("level", "info"))
        attributes = {
            name: value if isinstance(value, SIMPLE) else str(value)
            for name, value in event.items()
            if name not in OWN and value is not None
        }
        record = LogRecord(
            timestamp=time.time_ns(),
            context=_context(event.get("trace_id")),
            severity_text=level.upper(),
            severity_number=SEVERITIES.get(level, SeverityNumber.INFO),
            body=str(event.get("event", "")),
            attributes=attributes,
        )
        self._logger.emit(record)
        return event


def _context(trace_id: Any) -> Context:
    """The trace that a line belongs to, of which it names no span."""
    if not isinstance(trace_id, str):
        return Context()
    return set_span_in_context(NonRecordingSpan(SpanContext(int(trace_id, 16), 0, True, TraceFlags(1))), Context())
