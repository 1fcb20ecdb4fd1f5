"""The settings of retry policies, by action (docs/rules.md, Retries)."""

from typing import Annotated, Final

from pydantic import Field

from taskyard_server.core.history import RetryPolicy

from .setting_types import Count, CountOrZero, Float, Section

RETRY_DEFAULTS: Final = RetryPolicy()


class RetrySettings(Section):
    """A retry policy, as on a task."""

    max_attempts: Count = Field(default=RETRY_DEFAULTS.max_attempts, description="Attempts in all, the first included.")
    first_delay_ms: CountOrZero = Field(
        default=round(RETRY_DEFAULTS.first_delay_secs * 1000), description="Milliseconds before the second attempt."
    )
    multiplier: Annotated[Float, Field(ge=1, allow_inf_nan=False)] = Field(
        default=RETRY_DEFAULTS.multiplier, description="Factor by which the delay grows after each failed attempt."
    )
    max_delay_ms: CountOrZero = Field(
        default=round(RETRY_DEFAULTS.max_delay_secs * 1000),
        description="Longest delay between two attempts, in milliseconds.",
    )
    non_retryable_codes: list[Annotated[str, Field(min_length=1, max_length=1_024)]] = Field(
        default=[], description="Error codes after which a task is not attempted again."
    )

    def policy(self) -> RetryPolicy:
        """The same in the core's terms."""
        return RetryPolicy(
            max_attempts=self.max_attempts,
            first_delay_secs=self.first_delay_ms / 1000,
            multiplier=self.multiplier,
            max_delay_secs=self.max_delay_ms / 1000,
            non_retryable_codes=frozenset(self.non_retryable_codes),
        )
