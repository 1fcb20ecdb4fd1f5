"""Artifacts of tasks (docs/rules.md, Artifacts)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from taskyard.v1 import artifact_pb2 as pb
from taskyard.values.convert import datetime_from


@dataclass(frozen=True, slots=True)
class Artifact:
    """A value of any size that a task has under a name.

    Attributes:
        name: Its name, which no other artifact of the task has.
        media_type: Its media type, such as `image/png`.
        size_bytes: Its size.
        sha256: The SHA-256 of its bytes, in hex.
        attempt: The attempt of the run in which it was put, from 1; None if the submitter put it.
        created_at: When it was complete, in UTC.
    """

    name: str
    media_type: str
    size_bytes: int
    sha256: str
    attempt: int | None
    created_at: datetime

    @classmethod
    def from_message(cls, message: pb.Artifact) -> Artifact:
        """Convert a message.

        Args:
            message: The artifact as the server sends it.

        Returns:
            The artifact.
        """
        return cls(
            name=message.name,
            media_type=message.media_type,
            size_bytes=int(message.size_bytes),
            sha256=message.sha256,
            attempt=message.attempt or None,
            created_at=datetime_from(message.created_at),
        )
