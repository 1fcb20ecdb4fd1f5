"""A handler that waits until the test opens it."""

import asyncio
from typing import Any

from taskyard import RunningTask


class Gate:
    """Handles tasks one after the other or at once, all alike.

    `entered` is set once a task runs, `entries` says how many have begun, `cancelled` is set once one was cancelled.
    Setting `open` lets them end.
    """

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.entries = 0
        self.open = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, task: RunningTask) -> Any:
        self.entered.set()
        self.entries += 1
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return task.id
