"""Connections to PostgreSQL that are made when they are needed, and made anew after they were lost.

What was under way when one is lost may still take effect, at once or late: anyone who repeats it must count on that.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import asyncpg

from taskyard_server.store.port import CommitDelayed, StoreError

from .address import PostgresAddress
from .errors import in_words, is_lost

T = TypeVar("T")
Connection = Any
"""One of asyncpg, whose types its stubs leave open."""

READERS: Final = 4
KEEPALIVE_IDLE_SECS: Final = 10
KEEPALIVE_PROBES: Final = 3


class _Watched(asyncpg.Connection):  # type: ignore[misc, unused-ignore]
    """A connection of which the system notices that its other end is gone."""

    def __init__(self, protocol: Any, transport: Any, *arguments: Any) -> None:
        super().__init__(protocol, transport, *arguments)
        found = transport.get_extra_info("socket")
        if found is None or found.family not in (socket.AF_INET, socket.AF_INET6):
            return
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", KEEPALIVE_IDLE_SECS),
            ("TCP_KEEPINTVL", KEEPALIVE_IDLE_SECS // 2),
            ("TCP_KEEPCNT", KEEPALIVE_PROBES),
        ):
            if (option := getattr(socket, name, None)) is not None:
                found.setsockopt(socket.IPPROTO_TCP, option, value)


class Link:
    """One connection. `session` is run on each that is made. `secs` bounds a use of it."""

    def __init__(self, address: PostgresAddress, session: str, secs: float | None) -> None:
        self._address = address
        self._session = session
        self._secs = secs
        self._lock = asyncio.Lock()
        self._connection: Connection | None = None
        self._host = 0

    async def run(self, use: Callable[[Connection], Awaitable[T]], *, is_opening: bool = False) -> T:
        """The result of a use of the connection. Raises `CommitDelayed` or `StoreError`."""
        async with self._lock:
            try:
                async with asyncio.timeout(self._secs):
                    return await use(await self._connected())
            except (CommitDelayed, StoreError):
                raise
            except Exception as error:
                if is_lost(error):
                    self._drop()
                raise in_words(self._address, error, is_opening=is_opening) from error
            except BaseException:
                # Cancelled: what is under way is not waited for.
                self._drop()
                raise

    async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        """The rows of a statement."""
        return await self.run(lambda connection: connection.fetch(statement, *arguments))

    async def execute(self, statement: str, *arguments: Any) -> None:
        """Run a statement."""
        await self.run(lambda connection: connection.execute(statement, *arguments))

    async def close(self) -> None:
        """Let go of the connection; what is under way is cut off."""
        self._drop()

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._drop()
            self._connection = await self._connect()
        return self._connection

    async def _connect(self) -> Connection:
        """A connection to the first host that takes writes, the one of before first."""
        urls = self._address.urls
        failed: BaseException | None = None
        for number in range(self._host, self._host + len(urls)):
            try:
                connection = await connected(self._address, urls[number % len(urls)])
                await connection.execute(self._session)
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
                # A host that refuses says more than one that does not answer.
                if failed is None or isinstance(failed, OSError):
                    failed = error
                continue
            self._host = number % len(urls)
            return connection
        assert failed is not None
        raise failed

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            connection.terminate()


async def connected(address: PostgresAddress, url: str) -> Connection:
    """A connection to one host."""
    return await asyncpg.connect(
        url,
        timeout=address.connect_secs,
        connection_class=_Watched,
        target_session_attrs=address.session_attrs,
        server_settings=address.server_settings,
        # Statements of commits differ by the tables that they write.
        statement_cache_size=300,
        max_cached_statement_lifetime=0,
    )


class Readers:
    """Some connections for reads."""

    def __init__(self, address: PostgresAddress, session: str, secs: float) -> None:
        self._links = [Link(address, session, secs) for _ in range(READERS)]
        self._unlimited = Link(address, session, None)
        self._idle = list(self._links)
        self._some_idle = asyncio.Semaphore(READERS)

    async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        """The rows of a statement. Raises `CommitDelayed` or `StoreError`."""
        async with self._one() as link:
            return await link.fetch(statement, *arguments)

    async def run(self, use: Callable[[Connection], Awaitable[T]]) -> T:
        """The result of a use of a connection, however long it takes: one of these at a time."""
        try:
            return await self._unlimited.run(use)
        finally:
            await self._unlimited.close()

    async def close(self) -> None:
        """Let go of them all."""
        for link in (*self._links, self._unlimited):
            await link.close()

    @asynccontextmanager
    async def _one(self) -> AsyncIterator[Link]:
        async with self._some_idle:
            # The one that was used last: the others are never made where few are needed.
            link = self._idle.pop()
            try:
                yield link
            finally:
                self._idle.append(link)
