"""Removes the rows of deleted namespaces from a store, in small slices that hold up no commit.

That a namespace is deleted stands in its own row, which is removed last: so a removal goes on after a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import structlog

from taskyard_server.core.errors import Unavailable
from taskyard_server.store.objects import ObjectsError
from taskyard_server.store.port import CommitDelayed

if TYPE_CHECKING:
    from taskyard_server.store.port import Store

log = structlog.get_logger(__name__)

REMOVED_AT_ONCE: Final = 500
PAUSE_SECS: Final = 0.01
REPEAT_AFTER_SECS: Final = 1.0
"""Delay before a removal that failed, as with a full disk, goes on."""


class Removals:
    """The deleted namespaces of a store whose rows are not all removed.

    Before these `remove_objects` removes what they speak of, so that it is known as long as it is there.
    """

    def __init__(self, store: Store) -> None:
        self.remove_objects: Callable[[int], Awaitable[None]]
        self._store = store
        self._numbers: asyncio.Queue[int] = asyncio.Queue()

    def add(self, number: int) -> None:
        """Remove the rows of a namespace, whose deletion is committed."""
        self._numbers.put_nowait(number)

    async def run(self) -> None:
        """Remove what is to be removed, until cancelled. Raises `StoreError`."""
        while True:
            number = await self._numbers.get()
            await self._objects(number)
            rows = 0
            while removed := await self._slice(number):
                rows += removed
                await asyncio.sleep(PAUSE_SECS)
            log.info("namespace_removed", number=number, rows=rows)

    async def _objects(self, number: int) -> None:
        while True:
            try:
                return await self.remove_objects(number)
            except (ObjectsError, Unavailable) as error:
                log.warning("removal_delayed", number=number, reason=str(error))
                await asyncio.sleep(REPEAT_AFTER_SECS)

    async def _slice(self, number: int) -> int:
        while True:
            try:
                return await self._store.remove_namespace(number, REMOVED_AT_ONCE)
            except CommitDelayed as error:
                log.warning("removal_delayed", number=number, reason=str(error))
                await asyncio.sleep(REPEAT_AFTER_SECS)
