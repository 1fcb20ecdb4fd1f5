"""When to try again, and for how long: what all calls of the SDK share.

An outage shorter than the client's patience passes unnoticed; one that is longer ends in the error that it caused.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from .errors import CallCancelled, DeadlineExceeded, Internal, TaskyardError, Unavailable

FIRST_DELAY_SECS: Final = 0.1
MAX_DELAY_SECS: Final = 3.0

BROKEN: Final = (Unavailable, Internal, CallCancelled, DeadlineExceeded)
"""How a stream ends that may be opened again: a server that goes away shows as any of these."""

T = TypeVar("T")


class Backoff:
    """The delays between tries: each twice the one before up to a most, shortened at random by up to a half.

    The chance keeps clients that lost the same server from coming back all at once.
    """

    def __init__(self, first_secs: float = FIRST_DELAY_SECS, max_secs: float = MAX_DELAY_SECS) -> None:
        self._first = first_secs
        self._most = max_secs
        self._next = first_secs

    def delay(self) -> float:
        """Seconds to wait before the next try."""
        delay = self._next
        self._next = min(delay * 2, self._most)
        return delay * random.uniform(0.5, 1)

    def reset(self) -> None:
        """Something worked: begin with the first delay again."""
        self._next = self._first


def backoff_within(patience_secs: float) -> Backoff:
    """Delays that leave room for several tries, however short the patience."""
    most = min(MAX_DELAY_SECS, patience_secs / 4)
    return Backoff(min(FIRST_DELAY_SECS, most), most)


class Outage:
    """How long something has not worked, and whether that is longer than the caller has patience for."""

    def __init__(self, patience_secs: float) -> None:
        self._patience = patience_secs
        self._backoff = backoff_within(patience_secs)
        self._since: float | None = None

    def over(self) -> None:
        """It works."""
        self._since = None
        self._backoff.reset()

    async def bear(self, error: TaskyardError) -> None:
        """Wait before the next try; raises the error once patience is at its end."""
        now = asyncio.get_running_loop().time()
        if self._since is None:
            self._since = now
        left = self._since + self._patience - now
        if left <= 0:
            raise error
        await asyncio.sleep(min(self._backoff.delay(), left))


async def persistent(call: Callable[[], Awaitable[T]], patience_secs: float) -> tuple[T, bool]:
    """The call's answer, and whether it took more than one try. It is repeated while the server is unavailable.

    Raises what the call raises; `Unavailable` only after it was tried for so many seconds.
    """
    outage = Outage(patience_secs)
    repeated = False
    while True:
        try:
            return await call(), repeated
        except Unavailable as error:
            await outage.bear(error)
            repeated = True
