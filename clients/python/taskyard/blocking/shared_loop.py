"""The event loop in which blocking clients live if they are not to have one each: that of the yard of a test.

Two loops of one process that both use gRPC take each other's events (grpc issue 25364).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def shared_loop() -> asyncio.AbstractEventLoop | None:
    """Tell where a new blocking client lives.

    Returns:
        The loop, or None for one of its own.

    Raises:
        RuntimeError: It is the loop that runs here, which a blocking call would stop.
    """
    if not _loops:
        return None
    refuse_in(_loops[-1])
    return _loops[-1]


def refuse_in(loop: asyncio.AbstractEventLoop) -> None:
    """Refuse a blocking call in the very loop that must answer it.

    Args:
        loop: The loop.

    Raises:
        RuntimeError: It runs here.
    """
    if asyncio._get_running_loop() is loop:
        raise RuntimeError("SyncClient would block the event loop in which it lives: use Client here")


def share(loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
    """Let new blocking clients live in a loop.

    Args:
        loop: The loop, which runs.

    Returns:
        What ends it.
    """
    _loops.append(loop)
    return lambda: _loops.remove(loop)


_loops: list[asyncio.AbstractEventLoop] = []
