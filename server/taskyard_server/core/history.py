"""What only some tasks have: runs, attempts, retries, tokens, and a time before which they are not due."""

from __future__ import annotations

from typing import Final, NamedTuple

MOST_ATTEMPTS_KEPT: Final = 100


class RetryPolicy(NamedTuple):
    """How often and when a failed attempt is repeated (DESIGN, Retries). Delays are seconds."""

    max_attempts: int = 1
    first_delay_secs: float = 1.0
    multiplier: float = 2.0
    max_delay_secs: float = 60.0
    non_retryable_codes: frozenset[str] = frozenset()

    def delay_secs(self, failed: int, chance: float) -> float:
        """How long to wait after so many failed attempts; `chance`, 0 to 1, spreads the upper half of it."""
        # The exponent is bounded, as is the delay.
        delay = min(self.first_delay_secs * self.multiplier ** min(failed - 1, 1_000), self.max_delay_secs)
        return delay * (0.5 + 0.5 * chance)


class Attempt(NamedTuple):
    """One execution. `started_at` is None if its host has not said that it began, `ended_at` while it is under way."""

    number: int
    host_id: str | None
    started_at: float | None
    ended_at: float | None
    error: str | None
    code: str | None


class History:
    """The course of one task. `attempts` are those of the current run that are over, the newest hundred of them.

    `failed` counts the attempts of the run that its retry policy counts. `tokens_used` is over all attempts, of which
    `tokens_before` were used by earlier ones. `not_before` is when a pending task is due.
    """

    __slots__ = ("attempts", "failed", "held", "last_number", "not_before", "run", "tokens_before", "tokens_used")

    def __init__(self) -> None:
        self.run = 1
        self.attempts: list[Attempt] = []
        self.last_number = 0
        self.failed = 0
        self.held = False
        self.not_before: float | None = None
        self.tokens_before = 0
        self.tokens_used: int | None = None

    def note(
        self, host_id: str | None, started_at: float | None, ended_at: float, error: str | None, code: str | None
    ) -> None:
        """An attempt is over."""
        self.last_number += 1
        self.attempts.append(Attempt(self.last_number, host_id, started_at, ended_at, error, code))
        del self.attempts[:-MOST_ATTEMPTS_KEPT]
        self.tokens_before = self.tokens_used or 0

    def begin_run(self) -> None:
        """The task was resumed."""
        self.run += 1
        self.attempts = []
        self.last_number = self.failed = 0
        self.not_before = None
