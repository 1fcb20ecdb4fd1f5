"""Steps between hosts, the engine and readers: checked and encoded once, as a field of the answers that have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from taskyard.v1 import step_pb2 as pb
from taskyard_server.core.runs.steps import NewStep, RecordedStep

from . import requests
from .report_requests import fencing_token
from .wire import add_nested, add_text, add_timestamp, add_varint, nested, tag

MAX_STEP_NAME_CHARS: Final = 256
STEPS: Final = tag(pb.ListStepsResponse, "steps")
NAME: Final = tag(pb.Step, "name")
RESULT: Final = tag(pb.Step, "result")
OUTPUT: Final = tag(pb.Step, "output")
RUN: Final = tag(pb.Step, "run")
ATTEMPT: Final = tag(pb.Step, "attempt")
DURATION_MS: Final = tag(pb.Step, "duration_ms")
RECORDED_AT: Final = tag(pb.Step, "recorded_at")


def new_step(request: pb.RecordStepRequest, max_bytes: int) -> tuple[NewStep, Callable[[RecordedStep, float], bytes]]:
    """The step that a host records, and what makes of it what is told. Raises `BadRequest` or `TooLarge`."""
    token = fencing_token(request.fencing_token)
    name = requests.bounded(requests.required(request.name, "name"), "name", "", MAX_STEP_NAME_CHARS)
    result = requests.payload(request.result, "result", max_bytes) if request.HasField("result") else None
    output = None
    if request.HasField("output"):
        output = requests.typed_payload(request.output, "output", max_bytes, "result", result)
    duration_ms = request.duration_ms if request.HasField("duration_ms") else None

    def encode(recorded: RecordedStep, at: float) -> bytes:
        """The field `steps` of an answer."""
        parts: list[bytes] = []
        add_text(parts, NAME, name)
        if result is not None:
            add_nested(parts, RESULT, result)
        if output is not None:
            add_nested(parts, OUTPUT, output)
        history = recorded.task.history
        parts.append(RUN)
        add_varint(parts, history.run)
        parts.append(ATTEMPT)
        add_varint(parts, history.last_number + 1)
        if duration_ms is not None:
            parts.append(DURATION_MS)
            add_varint(parts, duration_ms)
        add_timestamp(parts, RECORDED_AT, at)
        return nested(STEPS, b"".join(parts))

    size = len(name.encode()) + len(result or b"") + len(output or b"")
    return NewStep(request.task_id, token, name, size), encode
