"""The fate of a task's execution when it was cancelled or paused (docs/rules.md, Waiting for a stop)."""

from enum import StrEnum
from typing import Final

from taskyard.v1 import task_pb2 as pb
from taskyard.values.convert import Span, seconds

MAX_WAIT_SECS: Final = 60.0


class Stopping(StrEnum):
    """The answer to whether anything of a task may still run after a cancel or a pause that has waited for that."""

    RELEASED = "released"
    """Its host has said that nothing runs any more."""
    PRESUMED = "presumed"
    """The time of its lease is over, and its host has said nothing: it may still run."""
    NOT_RUNNING = "not_running"
    """No host had it."""
    WAITING = "waiting"
    """The wait was over before its host said anything."""


STOPPING_OF_NUMBER: Final = {pb.Stopping.Outcome.Value(outcome.value): outcome for outcome in Stopping}


def wait_ms(wait: Span | None) -> int | None:
    """Convert how long a call waits for a host.

    Args:
        wait: The span, None for no wait.

    Returns:
        The milliseconds, None for no wait.

    Raises:
        ValueError: The span is negative, or longer than a minute.
    """
    if wait is None:
        return None
    secs = seconds(wait)
    if not 0 <= secs <= MAX_WAIT_SECS:
        raise ValueError(f"wait: is from 0 to {MAX_WAIT_SECS:g} s, not {secs:g} s")
    return round(secs * 1000)
