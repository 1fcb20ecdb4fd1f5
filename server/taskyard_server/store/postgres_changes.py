"""News of owners and replicas from PostgreSQL, over a connection that listens, and is made anew when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

import asyncpg

from .postgres_address import Address
from .postgres_links import connected

CHANNEL: Final = "taskyard"
RETRY_SECS: Final = 0.2
RETRY_AT_MOST_SECS: Final = 5.0
PROBE_SECS: Final = 10.0
"""A connection whose other end is gone without a word says nothing, like one where nothing happens."""


class Changes:
    """Listens while somebody waits for news. `on_listening` is awaited by tests."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._news: set[asyncio.Event] = set()
        self._listening: asyncio.Task[None] | None = None
        self.on_listening = asyncio.Event()

    def subscribe(self) -> asyncio.Event:
        """Set after each change, and whenever some may have been missed."""
        event = asyncio.Event()
        self._news.add(event)
        if self._listening is None:
            self._listening = asyncio.ensure_future(self._listen())
        elif self.on_listening.is_set():
            event.set()
        return event

    def unsubscribe(self, event: asyncio.Event) -> None:
        """No more of it."""
        self._news.discard(event)

    async def close(self) -> None:
        """Listen no more."""
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening

    def _tell(self, *_: Any) -> None:
        for event in self._news:
            event.set()

    async def _listen(self) -> None:
        secs = RETRY_SECS
        number = 0
        while True:
            url = self._address.urls[number % len(self._address.urls)]
            try:
                await self._listen_at(url)
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
                # The statements of others say what is wrong.
                number += 1
            secs = RETRY_SECS if self.on_listening.is_set() else min(secs * 2, RETRY_AT_MOST_SECS)
            self.on_listening.clear()
            await asyncio.sleep(secs)

    async def _listen_at(self, url: str) -> None:
        """Until the connection is lost."""
        connection = await connected(self._address, url)
        lost = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(CHANNEL, self._tell)
            self.on_listening.set()
            # What happened before is heard by nobody else.
            self._tell()
            while not lost.is_set():
                try:
                    async with asyncio.timeout(PROBE_SECS):
                        await lost.wait()
                except TimeoutError:
                    async with asyncio.timeout(PROBE_SECS):
                        await connection.execute("SELECT 1")
        finally:
            if not connection.is_closed():
                connection.terminate()
