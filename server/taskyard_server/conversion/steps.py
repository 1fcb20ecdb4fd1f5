"""Steps between hosts, the engine and readers: requests that are checked, answers that are encoded by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from taskyard.v1 import step_pb2 as pb
from taskyard_server.core.history import Step
from taskyard_server.core.runs.steps import NewStep

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


def new_step(request: pb.RecordStepRequest, max_bytes: int) -> NewStep:
    """The step that a host records. Raises `BadRequest` or `TooLarge`."""
    token, name = fencing_token(request.fencing_token), step_name(request.name, "name")
    result = requests.payload(request.result, "result", max_bytes) if request.HasField("result") else None
    output = None
    if request.HasField("output"):
        output = requests.typed_payload(request.output, "output", max_bytes, "result", result)
    duration_ms = request.duration_ms if request.HasField("duration_ms") else None
    return NewStep(request.task_id, token, name, result, output, duration_ms)


def step_name(name: str, field: str) -> str:
    """The name of a step, or of what a task waits for. Raises `BadRequest`."""
    return requests.bounded(requests.required(name, field), field, "", MAX_STEP_NAME_CHARS)


def encode_steps(steps: Sequence[Step]) -> bytes:
    """A `ListStepsResponse`, or a `FetchStepsResponse`, which has the same one field."""
    return b"".join([nested(STEPS, _encode(step)) for step in steps])


def _encode(step: Step) -> bytes:
    parts: list[bytes] = []
    add_text(parts, NAME, step.name)
    if step.result is not None:
        add_nested(parts, RESULT, step.result)
    if step.output is not None:
        add_nested(parts, OUTPUT, step.output)
    parts.append(RUN)
    add_varint(parts, step.run)
    parts.append(ATTEMPT)
    add_varint(parts, step.attempt)
    if step.duration_ms is not None:
        parts.append(DURATION_MS)
        add_varint(parts, step.duration_ms)
    add_timestamp(parts, RECORDED_AT, step.at)
    return b"".join(parts)
