"""Targets, the serial queues: the status of each, and what it waits for (docs/rules.md, Targets)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from taskyard.v1 import target_pb2 as pb
from taskyard.values.convert import optional, optional_time


class TargetStatus(StrEnum):
    """Why the next task of a target runs or does not."""

    READY = "ready"
    """Its next task may be claimed."""
    RUNNING = "running"
    """One of its tasks is assigned or running."""
    STOPPING = "stopping"
    """A task was stopped, and its host has not reported yet that nothing runs any more."""
    BLOCKED = "blocked"
    """A task that is paused, or failed after it had started, blocks it until that is resumed, resolved or cancelled."""
    WAITING = "waiting"
    """Its next task waits for another attempt, or all of its tasks are held or not yet due."""


STATUS_OF_NUMBER: Final = {pb.Target.Status.Value(status.value): status for status in TargetStatus}


@dataclass(frozen=True, slots=True)
class Target:
    """A target as it was when the server answered.

    Attributes:
        name: The name of the target.
        status: Why its next task runs or does not.
        queued: How many of its tasks wait, held ones included.
        task_id: The task that `status` is about, if there is one.
        waits_for: What its next task waits for, a text for people; None if for nothing.
        since: When it got this status; None if it never had another.
    """

    name: str
    status: TargetStatus
    queued: int
    task_id: str | None = None
    waits_for: str | None = None
    since: datetime | None = None

    @classmethod
    def from_message(cls, message: pb.Target) -> Target:
        """Convert a message.

        Args:
            message: The target as the server sends it.

        Returns:
            The target.
        """
        return cls(
            name=message.target,
            status=STATUS_OF_NUMBER[message.status],
            queued=message.queued,
            task_id=optional(message, "task_id"),
            waits_for=optional(message, "waits_for"),
            since=optional_time(message, "since"),
        )
