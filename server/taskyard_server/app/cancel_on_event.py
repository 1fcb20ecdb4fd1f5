"""Work that is given up once something else happens."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def cancel_on_event(work: Awaitable[T], *events: asyncio.Event) -> T | None:
    """The result of `work`, or None if one of the events comes first."""
    task = asyncio.ensure_future(work)
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait((task, *waits), return_when=asyncio.FIRST_COMPLETED)
    for other in waits if task.done() else (task, *waits):
        other.cancel()
    return task.result() if task.done() else None
