"""Chunks of the output of tasks (docs/rules.md, Output)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from taskyard.v1 import output_pb2 as pb
from taskyard.values.convert import datetime_from, plain_value


@dataclass(frozen=True, slots=True)
class OutputChunk:
    """A piece of what a task has said.

    Attributes:
        sequence: Its place in the output of the task: 1 for the first chunk, and one more for each that follows, over
            all attempts.
        channel: The channel: `output`, `stdout`, `stderr`, `log`, or a name of the host's.
        data: What was said: a text, bytes, or any other JSON value as plain Python.
        attempt: The attempt of the run in which it was said, from 1.
        taken_at: When the server took it, in UTC.
    """

    sequence: int
    channel: str
    data: Any
    attempt: int
    taken_at: datetime

    @classmethod
    def from_message(cls, message: pb.OutputChunk) -> OutputChunk:
        """Convert a message.

        Args:
            message: The chunk as the server sends it.

        Returns:
            The chunk.
        """
        return cls(
            sequence=message.sequence,
            channel=message.channel,
            data=data_of(message),
            attempt=message.attempt,
            taken_at=datetime_from(message.taken_at),
        )


def data_of(message: pb.OutputChunk | pb.NewChunk) -> Any:
    """Read what was said.

    Args:
        message: The chunk.

    Returns:
        A text, bytes, or any other JSON value as plain Python.
    """
    match message.WhichOneof("data"):
        case "json":
            return plain_value(message.json)
        case "binary":
            return message.binary
        case _:
            return message.text
