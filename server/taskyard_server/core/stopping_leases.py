"""Leases that ended while their host may still work: their target stays taken (docs/rules.md, Stopping leases).

A stopping lease is kept until its host reports that nothing runs under it any more, or until `expires_at`, by when the
host has stopped by itself. This file does not know targets; `Grants` frees them.
"""

from __future__ import annotations

from .changes import Changes
from .leases import Lease
from .timers import TimerQueue


class StoppingLeases:
    """The stopping leases of one namespace by host, task and token. `ends` holds each until its `expires_at`."""

    def __init__(self, ends: TimerQueue[Lease], changes: Changes | None) -> None:
        self._ends = ends
        self._changes = changes
        self._by_host: dict[str, dict[tuple[str, int], Lease]] = {}

    def add(self, lease: Lease) -> None:
        """Keep a lease that has ended while its host may still work."""
        self.restore(lease)
        if self._changes is not None:
            self._changes.stopping[lease] = None

    def restore(self, lease: Lease) -> None:
        """Keep a lease that a store has already."""
        self._by_host.setdefault(lease.host.id, {})[lease.task.id, lease.token] = lease
        self._ends.add(lease.expires_at, lease)

    def remove(self, lease: Lease) -> bool:
        """Remove a lease; whether it was there."""
        leases = self._by_host.get(lease.host.id, {})
        if leases.pop((lease.task.id, lease.token), None) is None:
            return False
        self._ends.remove(lease.expires_at, lease)
        if not leases:
            del self._by_host[lease.host.id]
        if self._changes is not None:
            self._changes.stopping_lease_gone(lease)
        return True

    def find(self, host_id: str, task_id: str, token: int) -> Lease | None:
        """The stopping lease of this host, task and token, or None."""
        return self._by_host.get(host_id, {}).get((task_id, token))

    def of(self, host_id: str) -> list[Lease]:
        """The stopping leases of one host."""
        return list(self._by_host.get(host_id, {}).values())
