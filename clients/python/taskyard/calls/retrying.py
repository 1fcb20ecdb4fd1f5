"""When to try again, and for how long: shared by all calls of the SDK.

A client does not notice an outage that is shorter than its patience. A longer one raises the error that it caused.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from taskyard.errors import (
    CallCancelled,
    DeadlineExceeded,
    Internal,
    NotOwner,
    TaskyardError,
    TooManyRequests,
    Unavailable,
)

FIRST_DELAY_SECS: Final = 0.1
MAX_DELAY_SECS: Final = 0.5
"""A restart of the server takes one to three seconds, and nobody is to wait much longer than that."""

SILENCE: Final = "no server answers"
"""How an error begins whose server is down, see `explaining`."""
BROKEN: Final = (Unavailable, Internal, CallCancelled, DeadlineExceeded, TooManyRequests)
"""The errors after which a stream may be opened again: a server that goes away causes any but the last of these."""
QUICK_DELAYS_SECS: Final = (0.02, 0.05)
QUICK_TRIES: Final = 20
"""A namespace changes its owner within half a second, and calls that come meanwhile are to wait no longer than that."""
MAX_SPREAD: Final = 1.25
"""Who is told when to come again comes up to this much later, so that not all of them do at once."""

T = TypeVar("T")

log = logging.getLogger("taskyard")


class Notice:
    """Tells people once that no server can be reached, when the first try has failed, and that one can be again."""

    def __init__(self) -> None:
        self._is_out = False

    def failed(self, error: TaskyardError, patience_secs: float) -> None:
        """Note that a call has failed.

        Args:
            error: How.
            patience_secs: How long it is tried again, in seconds.
        """
        # Only what is raw has come of a connection; a server that drains says so itself, and another takes over.
        if not self._is_out and isinstance(error, Unavailable) and "raw" in error.details and patience_secs > 0:
            self._is_out = True
            log.warning("%s: trying again for %g s", error.reason, patience_secs)

    def worked(self) -> None:
        """Note that a call was answered."""
        if self._is_out:
            self._is_out = False
            log.warning("the server answers again")


def given_up(error: TaskyardError, patience_secs: float) -> TaskyardError:
    """Say in the error of an outage for how long there were further tries.

    Args:
        error: The error of the last try.
        patience_secs: How long it was tried, in seconds.

    Returns:
        The error.
    """
    tried = f", tried for {patience_secs:g} s"
    # Where the reason says what to do instead, time is none of it.
    if error.reason.startswith(SILENCE) and patience_secs > 0 and not error.reason.endswith(tried):
        error.reason += tried
        error.args = (error.reason,)
    return error


class Backoff:
    """The delays between tries: each is twice the one before, up to a maximum, and randomly up to a half shorter.

    Randomness keeps clients that lost the same server from reconnecting at the same time.

    Args:
        first_secs: The first delay in seconds.
        max_secs: The longest delay in seconds.
    """

    def __init__(self, first_secs: float = FIRST_DELAY_SECS, max_secs: float = MAX_DELAY_SECS) -> None:
        self._first = first_secs
        self._max = max_secs
        self._next = first_secs
        self._quick_tries = 0

    def delay(self, error: TaskyardError | None = None) -> float:
        """Choose the next delay.

        Args:
            error: Why it is tried again. If it came too often, the delay is no shorter than the server says; if it came
                to the wrong server, the first delays are short. Default unknown.

        Returns:
            How long to wait before the next try, in seconds.
        """
        if isinstance(error, NotOwner) and self._quick_tries < QUICK_TRIES:
            self._quick_tries += 1
            return random.uniform(*QUICK_DELAYS_SECS)
        delay = self._next * random.uniform(0.5, 1)
        self._next = min(self._next * 2, self._max)
        if isinstance(error, TooManyRequests) and error.retry_after is not None:
            return max(delay, error.retry_after.total_seconds() * random.uniform(1, MAX_SPREAD))
        return delay

    def reset(self) -> None:
        """Begin with the first delay again, after a success."""
        self._next = self._first
        self._quick_tries = 0


def backoff_within(patience_secs: float) -> Backoff:
    """Choose delays that leave room for several tries.

    Args:
        patience_secs: The longest outage to sit out, in seconds.

    Returns:
        The delays.
    """
    max_secs = min(MAX_DELAY_SECS, patience_secs / 4)
    return Backoff(min(FIRST_DELAY_SECS, max_secs), max_secs)


class Outage:
    """The time since something last worked, compared with the caller's patience.

    Args:
        patience_secs: The longest outage to sit out, in seconds.
        notice: Tells people of it. Default nobody is told.
    """

    def __init__(self, patience_secs: float, notice: Notice | None = None) -> None:
        self._patience = patience_secs
        self._notice = notice
        self._backoff = backoff_within(patience_secs)
        self._since: float | None = None

    def end(self) -> None:
        """Note that it works."""
        if self._since is not None and self._notice is not None:
            self._notice.worked()
        self._since = None
        self._backoff.reset()

    async def wait(self, error: TaskyardError) -> None:
        """Note that it does not work, and wait before the next try.

        Args:
            error: Why it does not work.

        Raises:
            TaskyardError: The error, once the outage is longer than the patience.
        """
        now = asyncio.get_running_loop().time()
        if self._since is None:
            self._since = now
        if self._notice is not None:
            self._notice.failed(error, self._patience)
        left = self._since + self._patience - now
        if left <= 0:
            raise given_up(error, self._patience)
        await asyncio.sleep(min(self._backoff.delay(error), left))


async def call_persistently(
    call: Callable[[bool], Awaitable[T]], patience_secs: float, is_safe: bool = True, notice: Notice | None = None
) -> tuple[T, bool]:
    """Repeat a call while the server is unavailable, or takes no more calls of this caller.

    Args:
        call: Makes the call. It is told whether an earlier try may have had an effect.
        patience_secs: How long to try, in seconds.
        is_safe: Whether the call may be repeated after it may have had an effect. Default True. Otherwise it is
            repeated only as long as it comes to servers that do not own what it names.
        notice: Tells people of an outage. Default nobody is told.

    Returns:
        What the call returns, and whether an earlier try may have had an effect.

    Raises:
        TaskyardError: What the call raised; `Unavailable`, `TooManyRequests` and `CallCancelled` only after the
            patience. A server that stops ends calls as cancelled; those that are cancelled here raise no
            `TaskyardError`.
    """
    outage = Outage(patience_secs, notice)
    repeated = False
    while True:
        try:
            answer = await call(repeated)
        except NotOwner as error:
            await outage.wait(error)
        except (Unavailable, CallCancelled, TooManyRequests) as error:
            if not is_safe:
                raise
            await outage.wait(error)
            repeated = True
        else:
            outage.end()
            return answer, repeated
