"""Asks the gateway's Envoy over the socket of its administration.

By hand, since an HTTP client takes longer to import than Envoy takes to start.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from io import BytesIO
from pathlib import Path
from typing import Any, Final, cast

END_OF_HEAD: Final = b"\r\n\r\n"


class NotAnswered(Exception):
    """Nothing listens at the socket, or the connection ended before the answer did."""


async def is_ready(socket: Path) -> bool:
    """True if it serves."""
    try:
        status, _ = await _get(socket, "/ready")
    except NotAnswered:
        return False
    return status == HTTPStatus.OK


async def listeners(socket: Path) -> dict[str, tuple[str, int]]:
    """Where it listens, host and port, by the names of its listeners. Raises `NotAnswered`."""
    _, body = await _get(socket, "/listeners?format=json")
    statuses = json.loads(body)["listener_statuses"]
    addresses = {each["name"]: each["local_address"]["socket_address"] for each in statuses}
    return {name: (address["address"], address["port_value"]) for name, address in addresses.items()}


class _Received:
    """A file that `HTTPResponse` reads in the place of a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> BytesIO:
        return BytesIO(self._data)


async def _get(socket: Path, target: str) -> tuple[int, bytes]:
    """Status and body of an answer. Raises `NotAnswered`."""
    try:
        reader, writer = await asyncio.open_unix_connection(socket)
        try:
            writer.write(f"GET {target} HTTP/1.1\r\nhost: envoy\r\nconnection: close".encode() + END_OF_HEAD)
            response = HTTPResponse(cast(Any, _Received(await reader.read())))
        finally:
            writer.close()
        response.begin()
        return response.status, response.read()
    except (OSError, HTTPException) as error:
        raise NotAnswered(str(error)) from None
