"""Deliveries as rows of the store: put by the commit that makes them due, removed by later ones once they are done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Final

import structlog

from taskyard_server.store.port import Table, key_of, namespace_of, number_of

from .views import DueDelivery

if TYPE_CHECKING:
    from taskyard_server.core.events import Event
    from taskyard_server.store.port import Row, Store

    from .listeners import DeliveryEncoder, DeliveryListener
    from .namespace import NamespaceState
    from .namespaces import Namespaces

log = structlog.get_logger(__name__)

REMOVE_AFTER_SECS: Final = 1.0
"""Deliveries that are done are removed with the next commit of its namespace, or after this time together."""


class Outbox:
    """The deliveries of all namespaces that are due."""

    def __init__(self, namespaces: Namespaces, store: Store, encode: DeliveryEncoder) -> None:
        self._namespaces = namespaces
        self._store = store
        self._encode = encode
        self._listeners: list[DeliveryListener] = []
        self._with_done: dict[NamespaceState, None] = {}
        self._removal: asyncio.TimerHandle | None = None

    def take(self, state: NamespaceState, events: Sequence[Event]) -> Sequence[DueDelivery]:
        """The deliveries of a turn, which the next commit writes."""
        due: list[DueDelivery] = []
        if state.fault is not None:
            return due
        for event in events:
            if event.task.options.callback_url is not None:
                try:
                    record = self._encode(event)
                except Exception:
                    # A fault in one delivery must not affect the turn.
                    log.exception("delivery_lost", namespace=state.namespace, task_id=event.task.id)
                    continue
                if record is not None:
                    state.outbox.last += 1
                    due.append(DueDelivery(state.namespace, state.outbox.last, record))
        state.outbox.due += due
        return due

    def publish(self, due: Sequence[DueDelivery]) -> None:
        """Tell of deliveries, which are committed now."""
        for listener in self._listeners:
            try:
                listener(due)
            except Exception:
                # A fault of one listener must not affect the others.
                log.exception("listener_failed", namespace=due[0].namespace)

    def subscribe(self, listener: DeliveryListener) -> Callable[[], None]:
        """Call a listener with all that is committed from now on. Returns a function that removes the listener."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def is_here(self, namespace: str) -> bool:
        """True if this server serves a namespace, so that its deliveries are its to make."""
        return self._namespaces.here(namespace) is not None

    async def namespaces(self) -> list[str]:
        """The namespaces of which anything is due. Raises `StoreError` or `CommitDelayed`, as `read` does."""
        names = {state.number: state.namespace for state in self._namespaces if state.fault is None}
        found, after_key = [], -1
        while rows := await _first_slice(self._store.rows(Table.OUTBOX, after_key=after_key, limit=1)):
            number = namespace_of(rows[0][0])
            if number in names:
                found.append(names[number])
            after_key = key_of(number + 1, 0) - 1
        return found

    async def read(self, namespace: str, after: int, limit: int) -> Sequence[DueDelivery]:
        """Up to `limit` deliveries with numbers above `after`, in order: fewer if they are large, none at the end."""
        state = self._namespaces.here(namespace)
        if state is None or state.fault is not None:
            return ()
        after_key, last_key = key_of(state.number, after), key_of(state.number + 1, 0) - 1
        rows = await _first_slice(self._store.rows(Table.OUTBOX, after_key=after_key, last_key=last_key, limit=limit))
        return [DueDelivery(namespace, number_of(key), record) for key, record in rows]

    def done(self, namespace: str, number: int) -> None:
        """Forget a delivery. It is removed with a later commit, so after a fault it may be due once more."""
        state = self._namespaces.here(namespace)
        if state is None or state.fault is not None:
            return
        state.outbox.done.append(number)
        self._with_done[state] = None
        if self._removal is None:
            self._removal = asyncio.get_running_loop().call_later(REMOVE_AFTER_SECS, self.remove_done)

    def remove_done(self) -> None:
        """Let the end of this turn commit what no other commit has removed meanwhile."""
        if self._removal is not None:
            self._removal.cancel()
            self._removal = None
        states, self._with_done = self._with_done, {}
        for state in states:
            if state.outbox.done and state.fault is None and not state.has_left:
                self._namespaces.driver.mark_dirty(state)

    async def settled(self) -> None:
        """Wait until all that has happened is committed, or the store has failed."""
        if self._namespaces.persistence is not None:
            await self._namespaces.persistence.settle()


async def _first_slice(slices: AsyncIterator[Sequence[Row]]) -> Sequence[Row]:
    """The first slice, which a store makes no larger than is good for memory; empty if there is none."""
    async for rows in slices:
        return rows
    return ()
