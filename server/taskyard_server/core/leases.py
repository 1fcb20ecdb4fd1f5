"""Leases: which host holds which task, under which fencing token, until when.

Only the record lives here; `Scheduler` grants and ends leases, `Timers` knows when they are over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .hosts import Host
    from .task import Task


class Lease:
    """One grant of one task to one host (runtime-host-model, TaskLease).

    `token` is the fencing token: it grows with each claim of the task, so that a report of an earlier lease is told
    from one of the present lease. `number` counts all grants of the scheduler. Times are seconds on the core's clock.
    """

    __slots__ = ("claimed_at", "expires_at", "host", "number", "secs", "task", "token")

    def __init__(self, task: Task, host: Host, token: int, claimed_at: float, secs: float, number: int) -> None:
        self.task = task
        self.host = host
        self.token = token
        self.number = number
        self.claimed_at = claimed_at
        self.secs = secs
        self.expires_at = claimed_at + secs
