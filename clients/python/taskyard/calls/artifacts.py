"""Uploads of artifacts, in parts, the last of which brings the hash; and what is damaged (docs/rules.md, Artifacts)."""

from __future__ import annotations

import asyncio
import contextlib
import mimetypes
from collections.abc import Awaitable, Callable, Iterator
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import IO, Final, NamedTuple, Protocol, TypeAlias

from taskyard.errors import BadRequest, Internal
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


def parts_of(content: Content) -> Iterator[Part]:
    """Cut an artifact into parts.

    Args:
        content: Its bytes, or the file that has them.

    Yields:
        The parts, at least one.

    Raises:
        OSError: The file cannot be read.
    """
    hashed, offset = sha256(), 0
    with contextlib.ExitStack() as opened:
        file: IO[bytes] = opened.enter_context(content.open("rb") if isinstance(content, Path) else BytesIO(content))
        size = content.stat().st_size if isinstance(content, Path) else len(content)
        data = file.read(PART_BYTES)
        while True:
            following = file.read(PART_BYTES)
            hashed.update(data)
            # A file may grow meanwhile.
            yield Part(offset, data, "" if following else hashed.hexdigest(), max(size, offset + len(data)))
            if not following:
                return
            offset += len(data)
            data = following


def has_lost_some(error: BadRequest) -> bool:
    """Find out whether an upload was refused since the server has less of it, so that it must begin anew.

    Args:
        error: The refusal.

    Returns:
        True if the server was started anew, or another one goes on.
    """
    return error.reason.startswith("offset:")


def damaged(task_id: str, name: str) -> Internal:
    """Make the error of an artifact that was read, and does not have the hash that its task states.

    Args:
        task_id: The task.
        name: The name of the artifact.

    Returns:
        The error.
    """
    return Internal(f"the artifact {name} of {task_id} has other bytes than its hash says")


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
        parts, answer = parts_of(content), None
        try:
            while (part := await asyncio.to_thread(next, parts, None)) is not None:
                answer = await send(part)
        except BadRequest as error:
            if not left or not has_lost_some(error):
                raise
        else:
            assert answer is not None
            return Artifact.from_message(answer.artifact)
    raise AssertionError
