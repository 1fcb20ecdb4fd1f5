"""Claims, renewals and reports of the embedded engine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from taskyard_server.core.errors import Refusal
from taskyard_server.core.leases import Lease
from taskyard_server.core.reports import Report
from taskyard_server.core.task import TaskState

if TYPE_CHECKING:
    from .namespace import NamespaceState
    from .namespaces import Namespaces


class MemoryLeases:
    """Implements `port.LeasePort`."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._now = namespaces.now

    async def claim(
        self,
        namespace: str,
        host_id: str,
        count: int = 1,
        lease_secs: float | None = None,
        wait_secs: float = 0,
        project: str | None = None,
    ) -> list[Lease]:
        self._namespaces.refuse_once_closed()
        state = self._get(namespace)
        leases = state.scheduler.claim(self._now(), host_id, count, lease_secs, project)
        if leases or wait_secs <= 0:
            return leases
        offer = state.scheduler.offer(self._now(), host_id, count, lease_secs, project)
        granted = state.claims[offer] = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait((granted,), timeout=wait_secs)
        except asyncio.CancelledError:
            self._release(state, host_id, granted)
            raise
        finally:
            state.claims.pop(offer, None)
            state.scheduler.withdraw(offer)
        return granted.result() if granted.done() else []

    async def renew(
        self,
        namespace: str,
        host_id: str,
        task_id: str,
        token: int,
        lease_secs: float | None = None,
        tokens: int | None = None,
    ) -> Lease:
        reports = self._get(namespace).scheduler.reports
        return reports.renew(self._now(), host_id, task_id, token, lease_secs, tokens)

    async def report(self, namespace: str, host_id: str, reports: Sequence[Report]) -> list[TaskState | Refusal]:
        return self._get(namespace).scheduler.reports.take_each(self._now(), host_id, reports)

    async def list_leases(self, namespace: str, after: int, host_id: str | None = None) -> list[Lease]:
        state = self._namespaces.find(namespace)
        return state.scheduler.leases_after(after, host_id) if state else []

    def _get(self, namespace: str) -> NamespaceState:
        return self._namespaces.get_for_command(namespace, "runtime host")

    def _release(self, state: NamespaceState, host_id: str, granted: asyncio.Future[list[Lease]]) -> None:
        """Release the leases granted to a cancelled call, which may be cancelled in the same turn as it is granted."""
        if granted.done() and granted.exception() is None:
            for lease in granted.result():
                with contextlib.suppress(Refusal):
                    state.scheduler.reports.release(self._now(), host_id, lease.task.id, lease.token)
            self._namespaces.driver.mark_dirty(state)
