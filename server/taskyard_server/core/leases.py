"""The records of leases: which host holds which task, under which fencing token, until when; and why one ended.

This file decides nothing: `Grants` grants and ends leases, and knows when each is over.
"""

from __future__ import annotations

from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from .errors import BadRequest
from .limits import MAX_LEASE_SECS

# The compiled form of a named tuple knows the classes of its fields when it is made, so it must be there by then.
from .task import TaskState

if TYPE_CHECKING:
    from .hosts import Host
    from .offers import Offer
    from .task import Task


class Lease:
    """One grant of one task to one host (docs/rules.md, Grants).

    `token` is the fencing token. It grows with each grant of the namespace: no two leases have the same one, a report
    under an earlier lease is recognised, and leases are listed in its order. `secs` is the length that a renewal grants
    again. Times are seconds on the core's clock. `claim_id` is the name under which the host claimed it, if any.

    A lease that was granted over a `stream` may end before `expires_at`: at `start_by` if the host has not started the
    task by then, and at `adopt_by` if the stream broke and the host has not reconnected. `begun_at` is `started_at`,
    `inf` while there is none. `has_stop` is set once it has ended and a `Stop` tells its stream so. `inputs` are those
    of its task, see `Predecessors.inputs`.
    """

    __slots__ = (
        "adopt_by",
        "begun_at",
        "claim_id",
        "claimed_at",
        "expires_at",
        "has_stop",
        "host",
        "inputs",
        "secs",
        "start_by",
        "stream",
        "task",
        "token",
    )

    def __init__(
        self, task: Task, host: Host, token: int, claimed_at: float, secs: float, claim_id: str | None = None
    ) -> None:
        self.task = task
        self.host = host
        self.token = token
        self.claimed_at = claimed_at
        self.secs = secs
        self.expires_at = claimed_at + secs
        self.stream: Offer | None = None
        self.start_by = inf
        self.begun_at = inf
        self.adopt_by = inf
        self.has_stop = False
        self.claim_id = claim_id
        self.inputs: tuple[Task | None, ...] = ()

    @property
    def due(self) -> float:
        """When it ends: at the earliest of its times."""
        due = self.expires_at
        if self.start_by < due:
            due = self.start_by
        if self.adopt_by < due:
            due = self.adopt_by
        return due

    @property
    def started_at(self) -> float | None:
        """When its host said that it began; None while it has not."""
        return None if self.begun_at == inf else self.begun_at

    @started_at.setter
    def started_at(self, at: float | None) -> None:
        self.begun_at = inf if at is None else at


class Loss(NamedTuple):
    """A lease that ended since its host was lost, or did not begin in time; `reason` says which.

    `attempt` is the number that the execution has in its run. `state` is the one that the task took then.
    """

    task_id: str
    agent_id: str
    host_id: str
    attempt: int
    token: int
    reason: str
    state: TaskState
    traceparent: str | None


class StopReason(StrEnum):
    """Why a host shall stop working on a task."""

    CANCELLED = "cancelled"
    PAUSED = "paused"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    LEASE_ENDED = "lease_ended"
    TOKEN_LIMIT_EXCEEDED = "token_limit_exceeded"
    SHUTDOWN = "shutdown"
    TIMED_OUT = "timed_out"


class Stop(NamedTuple):
    """A message to a stream: one of its leases has ended, and not by a report of its host."""

    lease: Lease
    reason: StopReason
    message: str


def lease_length(requested_secs: float | None, default_secs: float) -> float:
    """The length of a lease in seconds; raises `BadRequest` for one outside of 1 to 3600."""
    if requested_secs is None:
        return default_secs
    if not 1 <= requested_secs <= MAX_LEASE_SECS:
        raise BadRequest("lease_secs: must be from 1 to 3600")
    return requested_secs
