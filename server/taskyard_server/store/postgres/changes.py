"""News of owners, replicas and tokens from PostgreSQL, over a connection that listens, and is made anew when lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

import asyncpg

from .address import PostgresAddress
from .links import connected

CHANNEL: Final = "taskyard"
MEMBERS: Final = ""
"""The channel of news of owners and replicas."""
TOKENS: Final = "tokens"
RETRY_SECS: Final = 0.2
RETRY_AT_MOST_SECS: Final = 5.0
PROBE_SECS: Final = 10.0
"""A connection whose other end is gone without a word says nothing, like one where nothing happens."""


class ChangeFeed:
    """Listens while somebody waits for news. `on_listening` is awaited by tests."""

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._news: dict[asyncio.Event, str] = {}
        self._listening: asyncio.Task[None] | None = None
        self.on_listening = asyncio.Event()

    async def heard(self, about: str = MEMBERS) -> AsyncIterator[None]:
        """Something after each change of that kind, and whenever some may have been missed."""
        news = self.subscribe(about)
        try:
            while True:
                await news.wait()
                news.clear()
                yield
        finally:
            self.unsubscribe(news)

    def subscribe(self, about: str = MEMBERS) -> asyncio.Event:
        """Set after each change of that kind, and whenever some may have been missed."""
        event = asyncio.Event()
        self._news[event] = about
        if self._listening is None:
            self._listening = asyncio.ensure_future(self._listen())
        elif self.on_listening.is_set():
            event.set()
        return event

    def unsubscribe(self, event: asyncio.Event) -> None:
        """No more of it."""
        self._news.pop(event, None)

    async def close(self) -> None:
        """Listen no more."""
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening

    def _hear(self, connection: Any, process: int, channel: str, about: object) -> None:
        del connection, process, channel
        for event, wanted in self._news.items():
            if wanted == about:
                event.set()

    def _tell_all(self) -> None:
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
            await connection.add_listener(CHANNEL, self._hear)
            self.on_listening.set()
            # What happened before is heard by nobody else.
            self._tell_all()
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
