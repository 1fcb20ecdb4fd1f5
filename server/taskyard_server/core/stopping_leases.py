"""Leases that ended while their host may still work: their target stays taken (docs/rules.md, Stopping leases).

Each is kept until its host says that nothing runs any more, or until the time of the lease is over, when the host has
stopped by itself.
"""

from __future__ import annotations

from .leases import Lease
from .timers import TimerQueue


class StoppingLeases:
    """Such leases by host, task and token. `ends` tells when the time of each is over."""

    def __init__(self, ends: TimerQueue[Lease]) -> None:
        self._ends = ends
        self._by_host: dict[str, dict[tuple[str, int], Lease]] = {}

    def add(self, lease: Lease) -> None:
        """A lease whose host may still work."""
        self._by_host.setdefault(lease.host.id, {})[lease.task.id, lease.token] = lease
        self._ends.add(lease.expires_at, lease)

    def remove(self, lease: Lease) -> bool:
        """Forget it; whether it was there."""
        leases = self._by_host.get(lease.host.id, {})
        if leases.pop((lease.task.id, lease.token), None) is None:
            return False
        self._ends.remove(lease.expires_at, lease)
        if not leases:
            del self._by_host[lease.host.id]
        return True

    def find(self, host_id: str, task_id: str, token: int) -> Lease | None:
        """The lease, if its host may still work under it."""
        return self._by_host.get(host_id, {}).get((task_id, token))

    def of(self, host_id: str) -> list[Lease]:
        """All of one host."""
        return list(self._by_host.get(host_id, {}).values())
