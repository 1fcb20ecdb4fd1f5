"""Takes the tasks of a deleted namespace out of its scheduler, in slices, so that reference counting frees them.

A scheduler is full of cycles, which the garbage collector sees only where there is little to look at (`gc_policy.py`).
Without this a deleted namespace of a million tasks would stay in memory.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Final

from taskyard_server.core.process_end import end_each, evict_some

if TYPE_CHECKING:
    from taskyard_server.core.scheduler import Scheduler

AT_ONCE: Final = 100
PAUSE_SECS: Final = 0.005
"""After each slice, so that others have most of the time."""

_under_way: set[asyncio.Task[None]] = set()


def empty_soon(scheduler: Scheduler, now: float) -> None:
    """Begin to empty a scheduler that nobody else uses any more."""
    emptying = asyncio.get_running_loop().create_task(empty(scheduler, now))
    _under_way.add(emptying)
    emptying.add_done_callback(_under_way.discard)


async def empty(scheduler: Scheduler, now: float) -> None:
    """End and evict all tasks."""
    scheduler.drain()
    after = 0
    while slice_ := list(islice(scheduler.tasks_after(after), AT_ONCE)):
        after = slice_[-1].seq
        end_each(scheduler, now, slice_)
        _forget_what_happened(scheduler)
        await asyncio.sleep(PAUSE_SECS)
    while evict_some(scheduler, now, AT_ONCE):
        _forget_what_happened(scheduler)
        await asyncio.sleep(PAUSE_SECS)
    _forget_what_happened(scheduler)


def _forget_what_happened(scheduler: Scheduler) -> None:
    scheduler.take_events()
    scheduler.take_stops()
    scheduler.schedules.take_events()
    if scheduler.changes is not None:
        scheduler.changes.take()
