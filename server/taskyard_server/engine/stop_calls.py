"""Calls that wait until the host of a task that they cancelled or paused has stopped.

The command is answered like any other, once it is kept; the wait follows. It ends early where the namespace leaves, or
the engine closes: what runs by then is not known here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from taskyard_server.core.errors import Refusal
from taskyard_server.core.stopping_leases import StopOutcome, StopWait

if TYPE_CHECKING:
    from taskyard_server.core.task import Task

    from .answers import CommitBarrier
    from .namespace import NamespaceState

T = TypeVar("T")


class StopCall:
    """One such call."""

    def __init__(self, state: NamespaceState) -> None:
        self._state = state
        self._told: asyncio.Future[StopOutcome] = asyncio.get_running_loop().create_future()
        self._wait: StopWait | None = None

    def run(self, now: float, tasks: Iterable[Task], command: Callable[[], T]) -> T:
        """Run the command that ends the leases of these tasks, and follow them."""
        waits = self._state.scheduler.stop_waits
        leases = waits.leases_of(tasks)
        answer = command()
        self._wait = waits.follow(now, leases, self._tell)
        if self._wait is None:
            self._tell(StopOutcome.NOT_RUNNING)
        return answer

    async def outcome(self, secs: float, barrier: CommitBarrier) -> StopOutcome:
        """The outcome after `secs` at most, once that is kept."""
        state = self._state
        if not self._told.done() and secs > 0 and not state.has_left:
            state.stop_calls.add(self)
            try:
                await asyncio.wait((self._told,), timeout=secs)
            finally:
                state.stop_calls.discard(self)
        outcome = self._told.result() if self._told.done() else StopOutcome.WAITING
        if outcome in (StopOutcome.RELEASED, StopOutcome.PRESUMED):
            try:
                await barrier.kept(state)
            except Refusal:
                return StopOutcome.WAITING
        return outcome

    def close(self) -> None:
        """Nobody waits any more."""
        if self._wait is not None:
            self._state.scheduler.stop_waits.forget(self._wait)

    def end(self) -> None:
        """Wait no longer: nothing is known here from now on."""
        self._tell(StopOutcome.WAITING)

    def _tell(self, outcome: StopOutcome) -> None:
        if not self._told.done():
            self._told.set_result(outcome)
