"""The HTTP connections of the tab executor: those to `executor`, with the certificates of the settings, and all others.

The files are looked at before each request. When they have changed, new requests go over new connections, and the old
ones are closed once nothing is under way on them.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import structlog

from .tab_resolver import Endpoint
from .tls_files import TlsFiles, TlsFilesError

log = structlog.get_logger(__name__)


class _Client:
    """One pool of connections, and how many requests are under way on it."""

    def __init__(self, limits: httpx.Limits, context: ssl.SSLContext | None = None) -> None:
        self.http = httpx.AsyncClient(limits=limits, trust_env=False, verify=True if context is None else context)
        self.users = 0
        self.is_retired = False


class Connections:
    """At most this many to `executor`, and as many to the instances that tabs name."""

    def __init__(self, most: int, files: TlsFiles | None = None) -> None:
        """Read the files. Raises `TlsFilesError`."""
        self._limits = httpx.Limits(max_connections=most, max_keepalive_connections=most)
        self._files = files
        self._others = self._executor = _Client(self._limits)
        if files is not None:
            self._seen = files.marks()
            self._executor = _Client(self._limits, files.context())

    @asynccontextmanager
    async def to(self, endpoint: Endpoint) -> AsyncIterator[httpx.AsyncClient]:
        """The client for a request to this endpoint."""
        client = await self._current() if endpoint.is_executor else self._others
        client.users += 1
        try:
            yield client.http
        finally:
            client.users -= 1
            await self._close_unused(client)

    async def close(self) -> None:
        """Close all connections."""
        for client in {self._others, self._executor}:
            await client.http.aclose()

    async def _current(self) -> _Client:
        files, old = self._files, self._executor
        if files is None or (marks := files.marks()) == self._seen:
            return old
        self._seen = marks
        try:
            self._executor = _Client(self._limits, files.context())
        except TlsFilesError as error:
            # They may be in the middle of being replaced; the next request after another change tries again.
            log.error("executor_certificates_not_replaced", error=str(error))
            return old
        log.info("executor_certificates_replaced")
        old.is_retired = True
        await self._close_unused(old)
        return self._executor

    async def _close_unused(self, client: _Client) -> None:
        if client.is_retired and not client.users:
            await client.http.aclose()
