"""Leases that ended while their host may still work: their target stays taken (docs/rules.md, Stopping leases).

A stopping lease is kept until its host reports that nothing runs under it any more, or until `expires_at`, by when the
host has stopped by itself. This file does not know targets; `Grants` frees them. Leases of tasks without a target are
here only while a call waits for them (`stop_waits.py`), and are in no store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .changes import Changes
from .leases import Lease
from .timers import TimerQueue

if TYPE_CHECKING:
    from .stop_waits import StopWait
    from .task import Task


class StoppingLeases:
    """The stopping leases of one namespace by host, task and token. `ends` holds each until its `expires_at`.

    `waits` are the calls that wait for some of them.
    """

    def __init__(self, ends: TimerQueue[Lease], changes: Changes | None) -> None:
        self._ends = ends
        self._changes = changes
        self._by_host: dict[str, dict[tuple[str, int], Lease]] = {}
        self.waits: dict[Lease, list[StopWait]] = {}

    def add(self, lease: Lease) -> None:
        """Keep a lease that has ended while its host may still work."""
        self.restore(lease)
        if self._changes is not None and lease.task.options.target is not None:
            self._changes.stopping[lease] = None

    def restore(self, lease: Lease) -> None:
        """Keep a lease that a store has already."""
        self._by_host.setdefault(lease.host.id, {})[lease.task.id, lease.token] = lease
        self._ends.add(lease.expires_at, lease)

    def remove(self, lease: Lease, is_presumed: bool) -> bool:
        """Remove a lease, since its host said so, or as `is_presumed`; whether it was there."""
        leases = self._by_host.get(lease.host.id, {})
        if leases.pop((lease.task.id, lease.token), None) is None:
            return False
        self._ends.remove(lease.expires_at, lease)
        if not leases:
            del self._by_host[lease.host.id]
        if self._changes is not None and lease.task.options.target is not None:
            self._changes.stopping_lease_gone(lease)
        if self.waits:
            for wait in self.waits.pop(lease, ()):
                wait.is_over(lease, is_presumed)
        return True

    def find(self, host_id: str, task_id: str, token: int) -> Lease | None:
        """The stopping lease of this host, task and token, or None."""
        return self._by_host.get(host_id, {}).get((task_id, token))

    def of_task(self, task: Task) -> list[Lease]:
        """The stopping leases of one task. This looks at all, for commands that somebody waits for."""
        return [lease for leases in self._by_host.values() for lease in leases.values() if lease.task.id == task.id]

    def of(self, host_id: str) -> list[Lease]:
        """The stopping leases of one host."""
        return list(self._by_host.get(host_id, {}).values())
