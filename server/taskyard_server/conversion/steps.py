"""Steps between hosts, the engine and readers: requests that are checked, answers that are encoded by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from taskyard.v1 import step_pb2 as pb
from taskyard_server.core.history import ANSWER, ENDS, EVENT, TIME, WORK, Step
from taskyard_server.core.runs.steps import NewStep

from . import requests
from .report_requests import fencing_token
from .wire import LAST, add_nested, add_text, add_timestamp, add_varint, nested, tag

STEPS: Final = tag(pb.ListStepsResponse, "steps")
NAME: Final = tag(pb.Step, "name")
RESULT: Final = tag(pb.Step, "result")
OUTPUT: Final = tag(pb.Step, "output")
RUN: Final = tag(pb.Step, "run")
ATTEMPT: Final = tag(pb.Step, "attempt")
DURATION_MS: Final = tag(pb.Step, "duration_ms")
RECORDED_AT: Final = tag(pb.Step, "recorded_at")
QUESTION: Final = tag(pb.Step, "question")
BY: Final = tag(pb.Step, "by")
EXPIRED: Final = tag(pb.Step, "expired") + LAST[True]
KINDS: Final = {
    kind: tag(pb.Step, "kind") + LAST[pb.Step.Kind.Value(kind)] for kind in (WORK, ANSWER, TIME, ENDS, EVENT)
}


def new_step(request: pb.RecordStepRequest, max_bytes: int) -> NewStep:
    """The step that a host records. Raises `BadRequest` or `TooLarge`."""
    token, name = fencing_token(request.fencing_token), requests.step_name(request.name, "name")
    result = requests.payload(request.result, "result", max_bytes) if request.HasField("result") else None
    output = None
    if request.HasField("output"):
        output = requests.typed_payload(request.output, "output", max_bytes, "result", result)
    duration_ms = request.duration_ms if request.HasField("duration_ms") else None
    return NewStep(request.task_id, token, name, result, output, duration_ms)


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
    parts.append(KINDS[step.kind])
    if step.question is not None:
        add_nested(parts, QUESTION, step.question)
    if step.by is not None:
        add_text(parts, BY, step.by)
    if step.is_expired:
        parts.append(EXPIRED)
    return b"".join(parts)
