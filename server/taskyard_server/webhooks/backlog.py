"""The webhooks that wait in the store because there is no room for them in memory, or since a server before this one.

A delivery that is committed goes on at once while there is room, unless others of its namespace wait: then it waits
with them, so that those of one namespace begin in the order of their numbers. Namespaces alternate.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import structlog

from taskyard_server.engine.outbox import Outbox
from taskyard_server.engine.views import DueDelivery
from taskyard_server.store.port import CommitDelayed, StoreError

log = structlog.get_logger(__name__)

READ_AT_ONCE: Final = 100
REPEAT_AFTER_SECS: Final = 1.0
"""Delay before a read that failed is repeated."""
UNKNOWN: Final = 1 << 62
"""The last number of a namespace that was not heard of yet."""


class Backlog:
    """Passes the deliveries of an outbox on by `add`, as far as there is `room`: for how many there is.

    Those that wait are read once there is room for `read_at`, or as many as one read brings.
    """

    def __init__(
        self, outbox: Outbox, room: Callable[[], int], add: Callable[[DueDelivery], None], read_at: int
    ) -> None:
        self._outbox = outbox
        self._room = room
        self._add = add
        self._read_at = min(read_at, READ_AT_ONCE)
        self._after: dict[str, int] = {}  # The namespaces that wait, next first: the last number that went on
        self._last: dict[str, int] = {}  # ... and the last number that is committed
        self._forgotten = 0
        self._is_open = False
        self._changed = asyncio.Event()
        self._empty = asyncio.Event()
        outbox.subscribe(self._committed)

    @property
    def is_empty(self) -> bool:
        """True if nothing waits in the store alone."""
        return self._is_open and not self._after

    async def emptied(self) -> None:
        """Wait until nothing waits in the store alone."""
        await self._empty.wait()

    def room_made(self) -> None:
        """There is room for one more than before."""
        if self._after:
            self._changed.set()

    def forget(self, namespace: str) -> None:
        """Pass on nothing more of what a namespace has until now: it was deleted."""
        self._forgotten += 1
        self._after.pop(namespace, None)
        self._last.pop(namespace, None)
        self._changed.set()

    async def run(self) -> None:
        """Read what waits, until cancelled; before that nothing goes on."""
        while not self._is_open:
            await self._attempt(self._open())
        while True:
            while self._after and self._room() >= self._read_at:
                await self._attempt(self._read())
            if not self._after:
                self._empty.set()
            self._changed.clear()
            await self._changed.wait()

    def begin(self, namespace: str) -> None:
        """Look for what waits of a namespace that is served from now on."""
        if self._is_open and namespace not in self._after:
            self._wait(namespace, 0, UNKNOWN)

    def leave(self, namespace: str) -> None:
        """Deliveries of a namespace that wait are another replica's from now on."""
        self._after.pop(namespace, None)
        self._last.pop(namespace, None)

    def _committed(self, due: Sequence[DueDelivery]) -> None:
        for delivery in due:
            namespace, number = delivery.namespace, delivery.number
            if not self._is_open:
                self._wait(namespace, 0, number)
            elif namespace in self._after or self._room() <= 0:
                self._wait(namespace, number - 1, number)
            else:
                self._add(delivery)

    def _wait(self, namespace: str, after: int, last: int) -> None:
        self._after.setdefault(namespace, after)
        self._last[namespace] = last
        self._empty.clear()
        self._changed.set()

    async def _attempt(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (CommitDelayed, StoreError) as error:
            log.warning("outbox_unread", reason=str(error))
            await asyncio.sleep(REPEAT_AFTER_SECS)

    async def _open(self) -> None:
        """Find what was due before."""
        for namespace in await self._outbox.namespaces():
            if namespace not in self._after:
                self._wait(namespace, 0, UNKNOWN)
        self._is_open = True

    async def _read(self) -> None:
        """Pass on what waits of the next namespace."""
        namespace, after = next(iter(self._after.items()))
        last = self._last[namespace]
        forgotten = self._forgotten
        found = await self._outbox.read(namespace, after, min(self._room(), READ_AT_ONCE))
        if forgotten != self._forgotten:
            # What was read may be of a namespace that was deleted since.
            return
        for delivery in found:
            # Others may have taken the room meanwhile.
            if self._room() <= 0:
                break
            self._add(delivery)
            after = delivery.number
        # It goes to the end, behind those that wait like it.
        if self._after.pop(namespace, None) is None:
            # It has left meanwhile.
            return
        is_read = not found and self._last[namespace] == last
        if is_read or after >= self._last[namespace]:
            del self._last[namespace]
        else:
            self._after[namespace] = after
