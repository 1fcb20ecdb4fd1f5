"""Chunks of a task's output, made of what its handler says: text, bytes or JSON, each as large as the server takes."""

import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from taskyard.v1.output_pb2 import NewChunk
from taskyard.values.convert import MAX_DEPTH, check_depth, value_from

MAX_BYTES: Final = 65_536
"""The most that the server takes in one chunk, encoded."""
CHANNEL: Final = re.compile(r"[\w./-]{1,64}", re.ASCII)

Piece: TypeAlias = tuple[NewChunk, int]
"""A chunk, and its bytes."""


def pieces_of(said: Any, channel: str) -> list[Piece]:
    """Make chunks of what is said.

    Args:
        said: A text, bytes, or any other JSON value.
        channel: The channel.

    Returns:
        The chunks, none for an empty text and no bytes. A text is cut between characters.

    Raises:
        TypeError: It is not JSON.
        ValueError: The channel is malformed, the JSON is too large or too deep, or the text is no valid Unicode.
    """
    if not isinstance(channel, str) or not CHANNEL.fullmatch(channel):
        raise ValueError(f"channel: must have 1 to 64 letters, digits, '.', '_', '-' or '/', is {channel!r}")
    match said:
        case str():
            chunks = [NewChunk(channel=channel, text=part) for part in _text_parts(said)]
        case bytes() | bytearray() | memoryview():
            data = bytes(said)
            parts = (data[begin : begin + MAX_BYTES] for begin in range(0, len(data), MAX_BYTES))
            chunks = [NewChunk(channel=channel, binary=part) for part in parts]
        case _:
            check_depth(said, MAX_DEPTH)
            value = value_from(said, "chunk")
            if (size := value.ByteSize()) > MAX_BYTES:
                raise ValueError(f"chunk: must be at most {MAX_BYTES:,} bytes when encoded, is {size:,}")
            chunks = [NewChunk(channel=channel, json=value)]
    return [(chunk, chunk.ByteSize()) for chunk in chunks]


def _text_parts(text: str) -> Iterator[str]:
    data = text.encode()
    if len(data) <= MAX_BYTES:
        if text:
            yield text
        return
    begin = 0
    while begin < len(data):
        end = min(begin + MAX_BYTES, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        yield data[begin:end].decode()
        begin = end
