"""Leases: which host holds which task, under which fencing token, until when.

Only the record lives here; `Scheduler` grants and ends leases, `TimerQueue` knows when they are over.
"""

from __future__ import annotations

from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from .errors import BadRequest
from .limits import MAX_LEASE_SECS

if TYPE_CHECKING:
    from .hosts import Host
    from .offers import Offer
    from .task import Task


class Lease:
    """One grant of one task to one host (docs/rules.md, Grants).

    `token` is the fencing token: it grows with each claim of the task, so that a report of an earlier lease is told
    from one of the present lease. `number` counts all grants of the scheduler. Times are seconds on the core's clock.

    A lease that was handed out over a `stream` may end before `expires_at`: at `start_by` if the host has not begun by
    then, and at `adopt_by` if the stream broke and the host is not back. `due` is the earliest of the three.
    """

    __slots__ = (
        "adopt_by",
        "claimed_at",
        "due",
        "expires_at",
        "host",
        "number",
        "secs",
        "start_by",
        "started_at",
        "stream",
        "task",
        "token",
    )

    def __init__(self, task: Task, host: Host, token: int, claimed_at: float, secs: float, number: int) -> None:
        self.task = task
        self.host = host
        self.token = token
        self.number = number
        self.claimed_at = claimed_at
        self.secs = secs
        self.expires_at = claimed_at + secs
        self.stream: Offer | None = None
        self.start_by = inf
        self.started_at: float | None = None
        self.adopt_by = inf
        self.due = self.expires_at


class StopReason(StrEnum):
    """Why a host shall stop its work on a task."""

    CANCELLED = "cancelled"
    PAUSED = "paused"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    LEASE_ENDED = "lease_ended"
    TOKEN_LIMIT_EXCEEDED = "token_limit_exceeded"
    SHUTDOWN = "shutdown"


class Stop(NamedTuple):
    """A lease of a stream that has ended otherwise than by its host's own report."""

    lease: Lease
    reason: StopReason
    message: str


def lease_length(requested: float | None, default: float) -> float:
    """The seconds that a lease lives; raises `BadRequest` outside of 1 to 3600."""
    if requested is None:
        return default
    if not 1 <= requested <= MAX_LEASE_SECS:
        raise BadRequest("lease_secs: must be from 1 to 3600")
    return requested
