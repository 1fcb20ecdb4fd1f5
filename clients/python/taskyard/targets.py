"""Targets: serial queues, how each stands and what it waits for (DESIGN, Targets)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from taskyard.v1 import target_pb2 as pb

from .values import given, given_time


class TargetStatus(StrEnum):
    """Why the next task of a target runs or does not."""

    READY = "ready"
    RUNNING = "running"
    STOPPING = "stopping"
    BLOCKED = "blocked"
    WAITING = "waiting"


STATUS_OF_NUMBER: Final = {pb.Target.Status.Value(status.value): status for status in TargetStatus}


@dataclass(frozen=True, slots=True)
class Target:
    """A target as it stood when the server answered. `queued` counts its tasks that wait, those held among them.

    `task_id` is the task that `status` is about, `waits_for` says in words what its next task has to wait for, None if
    for nothing. `since` is when it came to stand so.
    """

    name: str
    status: TargetStatus
    queued: int
    task_id: str | None = None
    waits_for: str | None = None
    since: datetime | None = None

    @classmethod
    def from_message(cls, message: pb.Target) -> Target:
        """The target as the server tells it."""
        return cls(
            name=message.target,
            status=STATUS_OF_NUMBER[message.status],
            queued=message.queued,
            task_id=given(message, "task_id"),
            waits_for=given(message, "waits_for"),
            since=given_time(message, "since"),
        )
