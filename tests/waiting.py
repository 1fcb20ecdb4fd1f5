"""How tests wait for what happens beside them, in processes, threads and sockets: until it has, and never for a while.

One limit holds for all of them. It says that something will never happen, so it is far above what the slowest machine
needs: no test knows how fast it runs (docs/develop/testing.md, Rules for tests).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, Final, TypeVar

T = TypeVar("T")

LIMIT_SECS: Final = 60.0
"""Seconds after which what a test waits for will not come any more."""
PAUSE_SECS: Final = 0.005
"""Seconds between two looks."""


async def until(
    condition: Callable[[], T | Awaitable[T]],
    is_met: Callable[[T], Any] = bool,
    *,
    despite: tuple[type[Exception], ...] = (),
) -> T:
    """What `condition` returns, or awaits, once `is_met` holds of it: repeated until then, or for `LIMIT_SECS`.

    The errors `despite` which it goes on say that it is not yet so.
    """
    gives_up_at = time.monotonic() + LIMIT_SECS
    while True:
        try:
            found = condition()
            result: T = await found if isawaitable(found) else found
            if is_met(result):
                return result
            last: object = result
        except despite as error:
            last = error
        assert time.monotonic() < gives_up_at, f"it has not come in {LIMIT_SECS:.0f} s, but {last!r}"
        await asyncio.sleep(PAUSE_SECS)


def until_in_thread(condition: Callable[[], T], is_met: Callable[[T], Any] = bool) -> T:
    """The same for a test, or a thread of one, without an event loop."""
    gives_up_at = time.monotonic() + LIMIT_SECS
    while not is_met(found := condition()):
        assert time.monotonic() < gives_up_at, f"it has not come in {LIMIT_SECS:.0f} s, but {found!r}"
        time.sleep(PAUSE_SECS)
    return found
