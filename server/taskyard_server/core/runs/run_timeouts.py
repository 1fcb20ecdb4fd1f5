"""Attempts that may run for a limited time only, which counts from their start (docs/rules.md, Run timeouts).

The times stand here and not in the leases: few tasks have one, and the others pay nothing for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from taskyard_server.core.leases import StopReason
from taskyard_server.core.limits import RESTART_GRACE_SECS
from taskyard_server.core.timers import TimerOrder

if TYPE_CHECKING:
    from collections.abc import Callable

    from taskyard_server.core.leases import Lease
    from taskyard_server.core.task import Task
    from taskyard_server.core.timers import Timers

TIMED_OUT: Final = "timed_out"
"""The code of an attempt that ran for too long."""


class RunTimeouts:
    """The leases under which a started attempt has a run timeout, and when each is over.

    `fail` fails the attempt of a task: with an error, whether it may be retried, a code, and why its host shall stop.
    """

    def __init__(
        self, timers: Timers, fail: Callable[[float, Task, str, bool, str | None, StopReason | None], None]
    ) -> None:
        self._fail = fail
        self._ends: dict[Lease, float] = {}
        self._timers = timers.queue(self._expire, TimerOrder.RUN_TIMEOUT)

    def begin(self, lease: Lease, not_before: float = 0.0) -> None:
        """Count from the start of the attempt; its time is not over `not_before`."""
        secs, started_at = lease.task.options.run_timeout_secs, lease.started_at
        assert secs is not None
        assert started_at is not None
        at = max(started_at + secs, not_before)
        self._ends[lease] = at
        self._timers.add(at, lease)

    def restore(self, now: float, lease: Lease) -> None:
        """Go on with a stored attempt. A host that has just to come back can report its end before it is too late."""
        if lease.started_at is not None:
            self.begin(lease, now + RESTART_GRACE_SECS)

    def end(self, lease: Lease) -> None:
        """The lease is over; nothing happens if the attempt had not started."""
        at = self._ends.pop(lease, None)
        if at is not None:
            self._timers.remove(at, lease)

    def _expire(self, now: float, lease: Lease) -> None:
        secs = lease.task.options.run_timeout_secs
        assert secs is not None
        error = f"run timeout of {round(secs * 1000)} ms exceeded"
        self._fail(now, lease.task, error, True, TIMED_OUT, StopReason.TIMED_OUT)
