"""The protocol of a host and its worker processes: frames of a kind and bytes, over one pipe for each direction."""

import asyncio
import os
import struct
from enum import IntEnum
from typing import Final

HEADER: Final = struct.Struct(">BI")


class Kind(IntEnum):
    """The content of a frame."""

    SETUP = 1
    """To the worker, first: how it is set up, pickled."""
    TASK = 2
    """To the worker: an `Assignment`."""
    READY = 3
    """From the worker: it is set up."""
    UNFIT = 4
    """From the worker: why it cannot be set up, as text. It ends."""
    TAKEN = 5
    """From the worker: it has read the task, and begins."""
    PROGRESS = 6
    """From the worker: a `Report` of progress."""
    TOKENS = 7
    """From the worker: the tokens used so far in decimal digits, empty for none."""
    OUTCOME = 8
    """From the worker: the final `Report`, empty if the handler was stopped before it had an outcome."""
    LAST = 9
    """From the worker: as `OUTCOME`. It ends."""
    LOG = 10
    """From the worker: a record of `logging`, pickled."""
    OUTPUT = 11
    """From the worker: a `NewChunk` of its task's output. While there is no room for it, nothing more is read."""
    MUTE = 12
    """To the worker, before a task that can say nothing: why, as text."""
    FLUSH = 14
    """From the worker: it waits for a byte of its pipe `kept`, which says that its output until here is kept."""
    LARGEST = 13
    """To the worker, before a task: the most bytes of a payload in decimal digits, where it does not know them."""


def frame(kind: Kind, data: bytes = b"") -> bytes:
    """Build a frame.

    Args:
        kind: What it holds.
        data: The bytes. Default none.

    Returns:
        The frame.
    """
    return HEADER.pack(kind, len(data)) + data


async def read_frame(reader: asyncio.StreamReader) -> tuple[Kind, bytes] | None:
    """Read the next frame.

    Args:
        reader: The pipe.

    Returns:
        What it holds, None at the end of the pipe, also within a frame.
    """
    try:
        kind, length = HEADER.unpack(await reader.readexactly(HEADER.size))
        return Kind(kind), await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def read_frame_now(pipe: int) -> tuple[Kind, bytes] | None:
    """Read the next frame from a blocking pipe.

    Args:
        pipe: Its file descriptor.

    Returns:
        What it holds, None at the end of the pipe.
    """
    header = _read(pipe, HEADER.size)
    if len(header) < HEADER.size:
        return None
    kind, length = HEADER.unpack(header)
    data = _read(pipe, length)
    return None if len(data) < length else (Kind(kind), data)


def write_all(pipe: int, data: bytes) -> None:
    """Write to a blocking pipe.

    Args:
        pipe: Its file descriptor.
        data: What to write.

    Raises:
        BrokenPipeError: Nobody reads it any more.
    """
    left = memoryview(data)
    while left:
        left = left[os.write(pipe, left) :]


def _read(pipe: int, length: int) -> bytes:
    parts = []
    while length and (part := os.read(pipe, min(length, 1 << 20))):
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
