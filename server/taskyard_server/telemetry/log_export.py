"""Log lines as OTLP, beside those on standard error.

A line costs the event loop an entry in a queue. A thread makes messages of them, at a third of what the SDK costs.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, MutableMapping
from threading import Event, Thread
from typing import Any, Final

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs, SeverityNumber
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

MAX_LINES: Final = 4_096
"""Lines that wait; of more the oldest are dropped."""
MAX_LINES_A_MESSAGE: Final = 512
SEVERITIES: Final = {
    "debug": SeverityNumber.SEVERITY_NUMBER_DEBUG,
    "info": SeverityNumber.SEVERITY_NUMBER_INFO,
    "warning": SeverityNumber.SEVERITY_NUMBER_WARN,
    "error": SeverityNumber.SEVERITY_NUMBER_ERROR,
    "critical": SeverityNumber.SEVERITY_NUMBER_FATAL,
}
OWN: Final = frozenset({"event", "level", "timestamp", "trace_id"})
"""The fields of a line that have a field of their own in a record."""


class LogExport:
    """A processor of structlog, which passes lines on as they are.

    Every `delay_secs` what came since is given to `send`, in a thread, as messages about what has these attributes.
    """

    def __init__(
        self, attributes: dict[str, Any], send: Callable[[ExportLogsServiceRequest], object], delay_secs: float
    ) -> None:
        self._resource = Resource(attributes=[_key_value(*each) for each in attributes.items()])
        self._send = send
        self._delay_secs = delay_secs
        self._lines: deque[tuple[int, dict[str, Any]]] = deque(maxlen=MAX_LINES)
        self._closing = Event()
        self._thread = Thread(target=self._run, name="telemetry-logs", daemon=True)
        self._thread.start()

    def __call__(self, _: Any, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Export a line some time, with the time of now."""
        self._lines.append((time.time_ns(), dict(line)))
        return line

    def close(self) -> None:
        """Export what is left, and wait until that is done."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(self._delay_secs):
            self._send_all()
        self._send_all()

    def _send_all(self) -> None:
        while self._lines:
            count = min(len(self._lines), MAX_LINES_A_MESSAGE)
            found = [_record(*self._lines.popleft()) for _ in range(count)]
            records = [record for record in found if record is not None]
            scope = ScopeLogs(scope=InstrumentationScope(name="taskyard_server"), log_records=records)
            logs = ResourceLogs(resource=self._resource, scope_logs=[scope])
            self._send(ExportLogsServiceRequest(resource_logs=[logs]))


def _record(at: int, line: dict[str, Any]) -> LogRecord | None:
    """The message of a line; None for one that no message can hold, such as of a number beyond 64 bits."""
    try:
        return _message(at, line)
    except ValueError:
        return None


def _message(at: int, line: dict[str, Any]) -> LogRecord:
    level = str(line.get("level", "info"))
    trace_id = line.get("trace_id")
    return LogRecord(
        time_unix_nano=at,
        observed_time_unix_nano=at,
        severity_text=level.upper(),
        severity_number=SEVERITIES.get(level, SeverityNumber.SEVERITY_NUMBER_INFO),
        body=AnyValue(string_value=str(line.get("event", ""))),
        trace_id=bytes.fromhex(trace_id) if isinstance(trace_id, str) else b"",
        attributes=[_key_value(name, value) for name, value in line.items() if name not in OWN and value is not None],
    )


def _key_value(name: str, value: Any) -> KeyValue:
    if isinstance(value, bool):
        return KeyValue(key=name, value=AnyValue(bool_value=value))
    if isinstance(value, int):
        return KeyValue(key=name, value=AnyValue(int_value=value))
    if isinstance(value, float):
        return KeyValue(key=name, value=AnyValue(double_value=value))
    return KeyValue(key=name, value=AnyValue(string_value=str(value)))
