"""Steps of tasks (docs/rules.md, Steps)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from taskyard.v1 import step_pb2 as pb
from taskyard.values.convert import datetime_from, optional, plain_value
from taskyard.values.payloads import Codec, Payload

from .questions import Question
from .tasks import plain_of


class StepKind(StrEnum):
    """The kinds of steps."""

    WORK = "work"
    """Work, which a host has recorded."""
    ANSWER = "answer"
    """The answer to a question."""
    TIME = "time"
    """A time that has come."""
    ENDS = "ends"
    """The end of tasks."""
    EVENT = "event"
    """An event, with its payload."""


STEP_KINDS: Final = {pb.Step.Kind.Value(kind.value): kind for kind in StepKind}


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a task's work that is done, and is not done again; or what came while it was parked.

    Attributes:
        name: Its name, which no other step of its kind has in the task.
        result: Its result as JSON. None also if it is in `output`, and cannot be read here. One that is too large is an
            artifact of the task, and its result refers to that: `{"$artifact": {"name": ...}}`.
        run: The run in which it was recorded, from 1.
        attempt: The attempt of that run, from 1.
        recorded_at: When the server took it, in UTC.
        duration: How long its work took. None if its host did not say.
        output: The result as it was sent, where JSON of the API cannot hold it.
        kind: What it is. None for a kind of a later version.
        question: What was asked, None unless it is an answer.
        by: Who answered or sent the event, None where nobody has to sign in, and if nobody did.
        is_expired: Whether nothing came in time; of a question its default is then the result.
    """

    name: str
    result: Any
    run: int
    attempt: int
    recorded_at: datetime
    duration: timedelta | None = None
    output: Payload | None = None
    kind: StepKind | None = StepKind.WORK
    question: Question | None = None
    by: str | None = None
    is_expired: bool = False

    @classmethod
    def from_message(cls, message: pb.Step, codec: Codec | None = None) -> Step:
        """Convert a message.

        Args:
            message: The step as the server sends it.
            codec: Reads what is encoded. Default none.

        Returns:
            The step.
        """
        output = Payload.from_message(message.output) if message.HasField("output") else None
        return cls(
            name=message.name,
            result=plain_value(message.result) if output is None else plain_of(output, codec),
            run=message.run,
            attempt=message.attempt,
            recorded_at=datetime_from(message.recorded_at),
            duration=timedelta(milliseconds=message.duration_ms) if message.HasField("duration_ms") else None,
            output=output,
            # A server of an older version names none.
            kind=STEP_KINDS.get(message.kind or pb.Step.Kind.work),
            question=Question.from_message(message.question) if message.HasField("question") else None,
            by=optional(message, "by"),
            is_expired=message.expired,
        )
