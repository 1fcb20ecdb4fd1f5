"""A real Envoy with the files of gateway/, open to the pages of some origins."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from taskyard_server.gateway import Gateway

SECS = 10.0


@asynccontextmanager
async def open_to(address: str, *origins: str) -> AsyncIterator[httpx.AsyncClient]:
    """A gateway to the server at this address, which pages of these origins may call, and a client of it."""
    gateway = Gateway("127.0.0.1:0", address, origins)
    await gateway.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://{gateway.address}", timeout=SECS, trust_env=False) as http:
            yield http
    finally:
        await gateway.stop()
