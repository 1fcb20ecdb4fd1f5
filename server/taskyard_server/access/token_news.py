"""Changes of tokens by other replicas of a store: a directory learns of them here.

A token that was made elsewhere lets its bearer in at once, and one that was revoked elsewhere lets nobody in and ends
the calls under way (docs/operate/security.md, Gateways and replicas).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from taskyard_server.store.port import CommitDelayed, StoreError

from .token_directory import TokenDirectory
from .token_text import PREFIX, is_whole

if TYPE_CHECKING:
    from taskyard_server.store.shared_port import SharedStore

log = structlog.get_logger(__name__)

READ_SECS: Final = 60.0
"""How often all of them are read without news: for when they were last used, and in case that news got lost."""
TOGETHER_SECS: Final = 0.05
"""Least time between two readings of all."""
AGAIN_SECS: Final = 0.5
"""After a failure."""
LOOK_SECS: Final = 0.2
"""Least time between two looks for new tokens, however many come that nobody knows."""
NEW_SECS: Final = 60.0
"""So long ago a token may have been made that such a look finds: the rest has been read."""
MAX_LOOKING: Final = 1_000


class TokenNews:
    """Lets a directory follow the tokens of a store that replicas share."""

    def __init__(self, directory: TokenDirectory, store: SharedStore) -> None:
        self._directory = directory
        self._store = store
        self._reading = asyncio.Lock()
        self._readings = 0
        self._read = 0
        self._look: asyncio.Task[None] | None = None
        self._looked_at = float("-inf")
        self._looking = 0

    async def run(self) -> None:
        """Follow them, until cancelled."""
        news = asyncio.Event()
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._listen(news))
            parts.create_task(self._follow(news))

    async def refresh(self) -> None:
        """Read all of them, in a reading that begins after this call. Raises `CommitDelayed` or `StoreError`."""
        # Anyone who goes away must not end what others wait for.
        await asyncio.shield(asyncio.ensure_future(self._refresh(self._readings + 1)))

    async def look_for(self, secret: str) -> bool:
        """True if a token that was not known is one by now: it may have been made by another replica just now."""
        if not secret.startswith(PREFIX) or not is_whole(secret) or self._looking >= MAX_LOOKING:
            return False
        self._looking += 1
        try:
            if self._look is None:
                self._look = asyncio.ensure_future(self._look_for_new())
            await asyncio.shield(self._look)
        except (CommitDelayed, StoreError) as error:
            log.warning("tokens_not_read", reason=str(error))
            return False
        finally:
            self._looking -= 1
        return self._directory.knows(secret)

    async def _listen(self, news: asyncio.Event) -> None:
        async for _ in self._store.token_changes():
            news.set()

    async def _follow(self, news: asyncio.Event) -> None:
        while True:
            try:
                async with asyncio.timeout(READ_SECS):
                    await news.wait()
            except TimeoutError:
                pass
            news.clear()
            try:
                await self.refresh()
            except (CommitDelayed, StoreError) as error:
                log.warning("tokens_not_read", reason=str(error))
                news.set()
                await asyncio.sleep(AGAIN_SECS)
            else:
                await asyncio.sleep(TOGETHER_SECS)

    async def _refresh(self, wanted: int) -> None:
        async with self._reading:
            if self._read >= wanted:
                return
            self._readings = wanted
            await self._directory.refresh()
            self._read = wanted

    async def _look_for_new(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._looked_at + LOOK_SECS - loop.time()))
        # Anyone who comes from now on has to wait for the next one.
        self._look, self._looked_at = None, loop.time()
        await self._directory.look(NEW_SECS)
