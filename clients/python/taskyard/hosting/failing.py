"""The exceptions by which a handler fails its task."""

from datetime import timedelta
from typing import Final

MAX_RETRY_MS: Final = 24 * 3_600_000
"""The longest time to the next attempt that the server accepts."""


class ActionFailed(Exception):
    """Raise it in a handler to fail the task with exactly this text.

    Args:
        error: The error text of the task.
        code: The kind of failure, which a retry policy may name as final. Default none.
        retryable: False makes this failure final whatever the retry policy says. Default True.
    """

    def __init__(self, error: str, *, code: str | None = None, retryable: bool = True) -> None:
        super().__init__(error)
        self.code = code
        self.retryable = retryable


class NotRetryable(ActionFailed):
    """Raise it in a handler to fail the task for good, whatever its retry policy says.

    Args:
        reason: The error text of the task.
        code: The kind of failure. Default none.
    """

    def __init__(self, reason: str, *, code: str | None = None) -> None:
        super().__init__(reason, code=code, retryable=False)


class Retry(Exception):
    """Raise it in a handler to have the task attempted again, also if it has no retry policy.

    The policy still says how many attempts there are; without one the server's `maxDeliveries` does.

    Args:
        reason: Why, the error text of this attempt. Default a text that says it is to be attempted again.
        after: The time until the next attempt, exactly, at most 24 hours. Default what the retry policy says; without
            one 1 s.

    Raises:
        TypeError: `after` is no timedelta.
        ValueError: `after` is negative, or longer than 24 hours.
    """

    def __init__(self, reason: str = "", *, after: timedelta | None = None) -> None:
        if after is not None and not isinstance(after, timedelta):
            raise TypeError(f"after: must be a timedelta, such as timedelta(seconds=30), is {after!r}")
        if after is not None and not timedelta(0) <= after <= timedelta(milliseconds=MAX_RETRY_MS):
            raise ValueError(f"after: must be from 0 to 24 hours, is {after}")
        super().__init__(reason or "the handler asks for another attempt")
        self.after = after
