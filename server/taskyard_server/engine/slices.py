"""Does the operations of all namespaces, a slice a time, so that no call waits for long and no commit grows large."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from taskyard_server.core.errors import Refusal

if TYPE_CHECKING:
    from taskyard_server.store.committer import Committer

    from .clock import Clock
    from .namespace import NamespaceState

log = structlog.get_logger(__name__)

LEAST_PAUSE_SECS: Final = 0.001
PAUSES: Final = 2.0
"""The least pause after a slice, and how many times as long it is as the slice took, with all that followed from it in
that turn and what others did in it: so others have two thirds of the time, and more the busier the process is."""
HELD_BACK_SECS: Final = 0.05
"""The pause while nothing may come due."""
AFTER_FAULT_SECS: Final = 1.0


class TurnEnds(Protocol):
    """The consequences of commands, once a turn of the event loop."""

    committer: Committer | None

    @property
    def is_held_back(self) -> bool:
        """True if nothing may come due."""

    def mark_dirty(self, state: NamespaceState) -> None:
        """Handle the consequences of what was done in a namespace at the end of this turn."""


class Slices:
    """Does slices one after the other, each in a turn of its own, while namespaces have any.

    With a store the next one follows only once the last is committed: so what is under way at a time stays little.
    """

    def __init__(self, driver: TurnEnds, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock
        self._ready: dict[NamespaceState, None] = {}
        self._faulty: dict[NamespaceState, None] = {}
        self._worker: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def is_busy(self) -> bool:
        """True if there is anything to do."""
        return self._worker is not None

    def look_at(self, state: NamespaceState) -> None:
        """Go on with the operations of a namespace, if any can go on after this turn."""
        if self._closed or state in self._faulty or not self._is_here(state):
            return
        if not state.scheduler.operations.is_ready:
            return
        self._ready[state] = None
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work())

    def close(self) -> None:
        """Do nothing more. What was begun goes on where it stands, where it is kept."""
        self._closed = True
        if self._worker is not None:
            self._worker.cancel()
            self._worker = None

    def _try_again(self, state: NamespaceState) -> None:
        del self._faulty[state]
        self.look_at(state)

    def _is_here(self, state: NamespaceState) -> bool:
        return not (state.is_leaving or state.has_left or state.is_deleted or state.fault is not None)

    async def _work(self) -> None:
        while self._ready:
            if self._driver.is_held_back:
                await asyncio.sleep(HELD_BACK_SECS)
                continue
            state = next(iter(self._ready))
            del self._ready[state]
            if self._is_here(state):
                began = time.perf_counter()
                kept = self._do_one(state)
                # The turn ends with what follows from the slice.
                await asyncio.sleep(0)
                spent = time.perf_counter() - began
                if kept is not None:
                    try:
                        await kept
                    except Refusal:
                        # It has left, or the store has failed.
                        continue
                await asyncio.sleep(max(LEAST_PAUSE_SECS, PAUSES * spent))
        self._worker = None

    def _do_one(self, state: NamespaceState) -> asyncio.Future[None] | None:
        """Do a slice; what is done once it is committed, None where nothing is kept."""
        self._driver.mark_dirty(state)
        try:
            state.scheduler.operations.step(self._clock())
        except Exception:
            # A fault in one namespace must not affect the others.
            log.exception("operation_failed", namespace=state.namespace)
            self._faulty[state] = None
            asyncio.get_running_loop().call_later(AFTER_FAULT_SECS, self._try_again, state)
            return None
        committer = self._driver.committer
        return None if committer is None else committer.wait(state, patient=True)
