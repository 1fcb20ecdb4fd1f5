"""How failed attempts of a task are repeated (docs/rules.md, Retries)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from taskyard.v1 import task_pb2 as pb

from .renamed import old_milliseconds, warn
from .values.convert import milliseconds

FIRST_DELAY: Final = timedelta(seconds=1)
MAX_DELAY: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, init=False)
class RetryPolicy:
    """How failed attempts are repeated (docs/rules.md, Retries).

    Attributes:
        max_attempts: How many attempts there are in all, the first included. Default 1.
        first_delay: The delay before the second attempt. Default 1 s.
        multiplier: How much longer each delay is than the one before. Default 2.
        max_delay: The longest delay. Default 60 s.
        non_retryable_codes: The error codes after which there is no further attempt. Default none.

    Args:
        max_attempts: How many attempts there are in all, the first included. Default 1.
        first_delay: The delay before the second attempt. Default 1 s.
        multiplier: How much longer each delay is than the one before. Default 2.
        max_delay: The longest delay. Default 60 s.
        non_retryable_codes: The error codes after which there is no further attempt. Default none.
        first_delay_ms: The old form of `first_delay`, in milliseconds.
        max_delay_ms: The old form of `max_delay`, in milliseconds.

    Raises:
        TypeError: A delay is not a timedelta.
    """

    max_attempts: int
    first_delay: timedelta
    multiplier: float
    max_delay: timedelta
    non_retryable_codes: tuple[str, ...]

    first_delay_ms = old_milliseconds("RetryPolicy.first_delay_ms", "first_delay")
    max_delay_ms = old_milliseconds("RetryPolicy.max_delay_ms", "max_delay")

    def __init__(
        self,
        max_attempts: int = 1,
        first_delay: timedelta = FIRST_DELAY,
        multiplier: float = 2.0,
        max_delay: timedelta = MAX_DELAY,
        non_retryable_codes: tuple[str, ...] = (),
        *,
        first_delay_ms: int | None = None,
        max_delay_ms: int | None = None,
    ) -> None:
        if first_delay_ms is not None:
            warn("RetryPolicy(first_delay_ms=)", "first_delay=, a timedelta")
            first_delay = timedelta(milliseconds=first_delay_ms)
        if max_delay_ms is not None:
            warn("RetryPolicy(max_delay_ms=)", "max_delay=, a timedelta")
            max_delay = timedelta(milliseconds=max_delay_ms)
        for name, span in (("first_delay", first_delay), ("max_delay", max_delay)):
            if not isinstance(span, timedelta):
                raise TypeError(f"{name}: is a timedelta, not {span!r}")
        if isinstance(non_retryable_codes, str):
            raise TypeError("non_retryable_codes: is a sequence of codes, not one code")
        values: dict[str, Any] = {
            "max_attempts": max_attempts,
            "first_delay": first_delay,
            "multiplier": multiplier,
            "max_delay": max_delay,
            "non_retryable_codes": tuple(non_retryable_codes),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_message(cls, message: pb.RetryPolicy) -> RetryPolicy:
        """Convert a message. Absent fields have the documented defaults.

        Args:
            message: The policy as the server sends it.

        Returns:
            The policy.
        """
        fields: dict[str, Any] = {field.name: value for field, value in message.ListFields()}
        for name in ("first_delay", "max_delay"):
            if f"{name}_ms" in fields:
                fields[name] = timedelta(milliseconds=fields.pop(f"{name}_ms"))
        return cls(**fields | {"non_retryable_codes": tuple(message.non_retryable_codes)})

    def to_message(self) -> pb.RetryPolicy:
        """Convert to a message.

        Returns:
            The policy with every field set.

        Raises:
            ValueError: A number does not fit.
        """
        return pb.RetryPolicy(
            max_attempts=self.max_attempts,
            first_delay_ms=milliseconds(self.first_delay),
            multiplier=self.multiplier,
            max_delay_ms=milliseconds(self.max_delay),
            non_retryable_codes=self.non_retryable_codes,
        )
