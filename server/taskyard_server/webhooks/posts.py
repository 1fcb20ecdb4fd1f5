"""Posts deliveries of webhooks over HTTP. Imported with the first delivery: most servers make none.

An address is checked after its name is resolved, and the connection goes to exactly that address, so that no name can
lead into a private network.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterable, Mapping
from typing import Any, Final

import httpcore

from .addresses import AddressRefused, is_public


class Posts:
    """At most this many connections, which stay open between posts."""

    failures: Final = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError)
    """The errors of a post that does not reach its receiver, or gets no answer."""

    def __init__(self, allow_private: bool, most: int) -> None:
        self._http = httpcore.AsyncConnectionPool(network_backend=GuardedBackend(allow_private), max_connections=most)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        """Post once; the status of the answer. Raises `AddressRefused`, and what `failures` names."""
        async with self._http.stream("POST", url, headers=list(headers.items()), content=body) as response:
            return response.status

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Opens connections only to addresses that deliveries may go to: exactly to the address that was checked."""

    def __init__(self, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Resolve, check, dial."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(entry[4][0]) for entry in found]
        usable = [address for address in addresses if self._allow_private or is_public(address)]
        if not usable:
            raise AddressRefused(f"{host} is not a public address")
        for address in usable[:-1]:
            with contextlib.suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return await self._backend.connect_tcp(address, port, timeout, local_address, socket_options)
        return await self._backend.connect_tcp(usable[-1], port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        """Part of httpcore's interface."""
        await asyncio.sleep(seconds)
