"""Uploads of artifacts: in parts, the last of which brings the hash (docs/rules.md, Artifacts)."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias

from taskyard.errors import BadRequest
from taskyard.records.artifacts import Artifact
from taskyard.v1 import artifact_pb2 as pb

PART_BYTES: Final = 1 << 20
DEFAULT_MEDIA_TYPE: Final = "application/octet-stream"
RESTARTS: Final = 5
"""How often an upload begins anew, since the server has less of it than it said."""

Content: TypeAlias = bytes | bytearray | memoryview | Path
"""The bytes of an artifact, or the file that has them."""


class Part(NamedTuple):
    """A part of an artifact. `sha256` is empty but for the last; `size` is that of the whole."""

    offset: int
    data: bytes
    sha256: str
    size: int


class Uploaded(Protocol):
    """The answer to a part."""

    @property
    def artifact(self) -> pb.Artifact:
        """The artifact, once it is complete."""


def media_type_of(name: str, content: Content, media_type: str | None) -> str:
    """Choose the media type of an artifact.

    Args:
        name: Its name.
        content: Its bytes.
        media_type: The one that was given, None if none was.

    Returns:
        The one that was given, else what its name says, else that of the file.
    """
    file = content.name if isinstance(content, Path) else ""
    return media_type or mimetypes.guess_type(name)[0] or mimetypes.guess_type(file)[0] or DEFAULT_MEDIA_TYPE


async def upload(content: Content, send: Callable[[Part], Awaitable[Uploaded]]) -> Artifact:
    """Upload an artifact.

    Args:
        content: Its bytes, or the file that has them.
        send: Sends a part, and repeats it while the server is unavailable.

    Returns:
        The artifact.

    Raises:
        OSError: The file cannot be read.
        TaskyardError: The server refuses it.
    """
    for left in reversed(range(RESTARTS)):
        try:
            return await _upload(content, send)
        except BadRequest as error:
            # The server was started anew, or is another one, and has less of it.
            if not left or not error.reason.startswith("offset:"):
                raise
    raise AssertionError


async def _upload(content: Content, send: Callable[[Part], Awaitable[Uploaded]]) -> Artifact:
    hashed, offset = sha256(), 0
    file = await asyncio.to_thread(content.open, "rb") if isinstance(content, Path) else None
    try:
        size = len(content) if not isinstance(content, Path) else (await asyncio.to_thread(content.stat)).st_size
        while True:
            if file is not None:
                data = await asyncio.to_thread(file.read, PART_BYTES)
            else:
                assert not isinstance(content, Path)
                data = bytes(content[offset : offset + PART_BYTES])
            hashed.update(data)
            is_last = len(data) < PART_BYTES or offset + len(data) == size
            answer = await send(Part(offset, data, hashed.hexdigest() if is_last else "", max(size, offset)))
            offset += len(data)
            if is_last:
                return Artifact.from_message(answer.artifact)
    finally:
        if file is not None:
            await asyncio.to_thread(file.close)
