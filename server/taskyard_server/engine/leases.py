"""Claims, renewals and reports of the embedded engine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from taskyard_server.core.errors import Refusal
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.leases import Lease
from taskyard_server.core.reports import Report
from taskyard_server.core.runs.inputs import TaskInput, find_input
from taskyard_server.core.task import TaskState

from .answers import Answer
from .claim_calls import WaitingClaim
from .listeners import LossListener

if TYPE_CHECKING:
    from taskyard_server.core.offers import Offer

    from .namespace import NamespaceState
    from .namespaces import Namespaces

T = TypeVar("T")


class LeaseCommands:
    """Claims, renewals and reports. A `token` is the fencing token of the lease that a call concerns."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._now = namespaces.now
        self._barrier = namespaces.barrier

    async def claim(
        self,
        namespace: str,
        host_id: str,
        count: int = 1,
        lease_secs: float | None = None,
        wait_secs: float = 0,
        project: str | None = None,
        claim_id: str | None = None,
        *,
        check: Callable[[HostProfile], None] | None = None,
        show: Callable[[list[Lease]], T],
    ) -> T:
        """Lease up to `count` tasks to a host. Waits up to `wait_secs` if none is claimable.

        `check` raises why the caller may not claim what a host of this profile may run.

        While leases live that the host claimed under the same `claim_id`, however many, they are answered and nothing
        is leased. A claim of the host that waits under it is answered with none.

        `show` is called in the turn of the grant, or with no leases at the end of the wait. The leases of a call that
        is cancelled are given back, unless another call under its id answers them.

        Raises `NotFound`, `BadRequest`, and `Unavailable` once the engine is closed or where the store does not answer
        in time.
        """
        self._namespaces.refuse_once_closed()
        state = self._get(namespace)
        if check is not None and (host := state.scheduler.hosts.find(host_id)) is not None:
            check(host.profile.narrowed(project))
        claim = WaitingClaim(show, asyncio.get_running_loop().create_future())
        try:
            offer = self._claim_or_offer(state, claim, host_id, count, lease_secs, project, claim_id, wait_secs > 0)
        except Refusal:
            await self._barrier.kept(state)
            raise
        name = None if claim_id is None else (host_id, claim_id)
        named = state.named_claims
        if name is not None:
            named.enter(name, claim)
        try:
            if offer is not None:
                try:
                    await asyncio.wait((claim.answer,), timeout=wait_secs)
                finally:
                    state.claims.pop(offer, None)
                    state.scheduler.withdraw(offer)
                if not claim.answer.done():
                    claim.grant([])
            answer: T = await self._barrier.give(state, claim.answer.result)
        except BaseException:
            # The caller has gone, or is told that the outcome is not known.
            if name is None or not named.is_shared(name, claim):
                self._release(state, host_id, claim)
            raise
        else:
            if name is not None:
                named.answered(name, claim)
            return answer
        finally:
            if name is not None:
                named.leave(name, claim)

    async def renew(
        self,
        namespace: str,
        host_id: str,
        task_id: str,
        token: int,
        lease_secs: float | None = None,
        tokens: int | None = None,
        patient: bool = False,
        *,
        own_only: bool = False,
        show: Callable[[Lease], T],
    ) -> T:
        """Renew a lease, and record the tokens that its attempt used so far. `own_only` is as in `report`.

        Raises `NotFound` or `LeaseLost`, and `Unavailable` where the store does not answer in time, unless the caller
        is `patient`.
        """
        # Taken also while the store does not answer: it keeps a lease alive, and most of the time changes nothing kept.
        state = self._namespaces.get_for_command(namespace, "runtime host", patient=True)

        def command() -> T:
            reports = state.scheduler.reports
            return show(reports.renew(self._now(), host_id, task_id, token, lease_secs, tokens, own_only=own_only))

        if self._barrier.persistence is None:
            return command()
        try:
            answer = command()
        except Refusal:
            await self._barrier.kept(state, patient)
            raise
        if state.is_unkept(task_id):
            await self._barrier.kept(state, patient)
        return answer

    def report(
        self, namespace: str, host_id: str, reports: Sequence[Report], patient: bool = False, *, own_only: bool = False
    ) -> Answer[list[TaskState | Refusal]]:
        """Apply the reports of a host in one step, now. Answers for each the state just after it, or its refusal.

        If `own_only` the answer about a task that was last handed to another host, or to none, is that about one that
        is not there.

        The answer is in the order of the reports. Raises `NotFound` if the namespace does not exist, and `Unavailable`
        where the store does not answer in time, unless the caller is `patient`.
        """
        state = self._namespaces.get_for_command(namespace, "runtime host", patient)
        outcomes = state.scheduler.reports.take_each(self._now(), host_id, reports, own_only=own_only)
        return self._barrier.of(state, outcomes, patient)

    async def fetch_input(
        self,
        namespace: str,
        host_id: str,
        task_id: str,
        token: int,
        name: str,
        *,
        own_only: bool = False,
        show: Callable[[TaskInput], T],
    ) -> T:
        """An input of a task that the host has under a lease. Raises `NotFound`, `LeaseLost` or `Unavailable`."""
        state = self._get(namespace)

        def command() -> T:
            lease = state.scheduler.reports.leased(self._now(), host_id, task_id, token, own_only=own_only)
            return show(find_input(lease, name))

        return await self._barrier.give(state, command)

    async def list_leases(
        self, namespace: str, after: int, host_id: str | None = None, *, show: Callable[[list[Lease]], T]
    ) -> T:
        """The live leases with a fencing token above `after`, in order. Raises `NotFound` for an unknown host."""
        state = self._namespaces.find(namespace)
        if state is None:
            return show([])
        return await self._barrier.give(state, lambda: show(state.scheduler.leases_after(after, host_id)))

    def _get(self, namespace: str) -> NamespaceState:
        return self._namespaces.get_for_command(namespace, "runtime host")

    def _claim_or_offer(
        self,
        state: NamespaceState,
        claim: WaitingClaim,
        host_id: str,
        count: int,
        lease_secs: float | None,
        project: str | None,
        claim_id: str | None,
        waits: bool,
    ) -> Offer | None:
        """Answer a claim. If it `waits` and nothing is claimable, return the offer by which it gets its answer."""
        leases = state.scheduler.claim(self._now(), host_id, count, lease_secs, project, claim_id)
        if claim_id is not None:
            self._end_earlier(state, host_id, claim_id)
        if leases or not waits:
            claim.grant(leases)
            return None
        offer = state.scheduler.offer(self._now(), host_id, count, lease_secs, project, claim_id)
        state.claims[offer] = claim
        return offer

    def subscribe(self, listener: LossListener) -> Callable[[], None]:
        """Call a listener with all leases that are lost from now on. Returns a function that removes the listener."""
        listeners = self._namespaces.driver.loss_listeners
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    def _end_earlier(self, state: NamespaceState, host_id: str, claim_id: str) -> None:
        """Answer the claim that waits under this id with no leases: its repeat is here."""
        host = state.scheduler.hosts.find(host_id)
        offer = None if host is None else host.waiting.get(claim_id)
        if offer is not None:
            state.scheduler.withdraw(offer)
            earlier = state.claims.pop(offer, None)
            if earlier is not None and not earlier.answer.done():
                earlier.grant([])

    def _release(self, state: NamespaceState, host_id: str, claim: WaitingClaim) -> None:
        """Release the leases granted to a cancelled call, which may be cancelled in the same turn as it is granted."""
        if claim.answer.done():
            # Look at a refusal, so that it is not logged as one that nobody looked at.
            claim.answer.exception()
        for lease in claim.leases:
            with contextlib.suppress(Refusal):
                state.scheduler.reports.release(self._now(), host_id, lease.task.id, lease.token)
        if claim.leases:
            self._namespaces.driver.mark_dirty(state)
