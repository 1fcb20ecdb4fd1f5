"""Steps of tasks (docs/rules.md, Steps)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from taskyard.v1 import step_pb2 as pb
from taskyard.values.convert import datetime_from, plain_value
from taskyard.values.payloads import Codec, Payload

from .tasks import plain_of


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a task's work that is done, and is not done again.

    Attributes:
        name: Its name, which no other step of the task has.
        result: Its result as JSON. None also if it is in `output`, and cannot be read here. One that is too large is an
            artifact of the task, and its result refers to that: `{"$artifact": {"name": ...}}`.
        run: The run in which it was recorded, from 1.
        attempt: The attempt of that run, from 1.
        recorded_at: When the server took it, in UTC.
        duration: How long its work took. None if its host did not say.
        output: The result as it was sent, where JSON of the API cannot hold it.
    """

    name: str
    result: Any
    run: int
    attempt: int
    recorded_at: datetime
    duration: timedelta | None = None
    output: Payload | None = None

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
        )
