"""The words of the model of schedules: what a caller wants, and the records that the model keeps.

Written from the proto comments and docs/rules.md; nothing here is the core's. Times are seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Final

from .cadences import Cadence

ENDS: Final = ("completed", "failed", "skipped")

PAUSED: Final = "the schedule was paused"
CHANGED: Final = "the schedule was changed"
MISSED: Final = "missed while the scheduler was not running"
OVERLAP: Final = "an earlier trigger of the schedule has not ended"
TOO_MANY: Final = "triggers of the schedule have not ended"
REPLACED: Final = "replaced by a later trigger of its schedule"
GONE: Final = "its task is gone"
IN_THE_PAST: Final = "must be in the future"
KINDS: Final = (PAUSED, CHANGED, MISSED, OVERLAP, TOO_MANY, REPLACED, GONE, IN_THE_PAST)


@cache
def kind_of(reason: str | None) -> str | None:
    """Which kind of reason it is; the error of a task is its own kind."""
    return next((kind for kind in KINDS if reason is not None and kind in reason), reason)


class Refused(Exception):
    """A command that was refused, with its word of the error table (docs/rules.md, Errors)."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Wish:
    """What a schedule shall do."""

    cadence: Cadence
    agent: str = "agent-0"
    action: str = "do"
    priority: int = 0
    deadline_secs: float | None = None
    attempts: int = 1
    overlap: str = "skip"
    catch_up: str = "last"
    window: int = 86_400


@dataclass(eq=False)
class Plan:
    """A schedule. `cursor` is the next due time, `dealt` are all that were dealt with."""

    id: str
    wish: Wish
    created_at: float
    updated_at: float
    since: float
    cursor: float | None
    paused: bool
    resumed_at: float | None = None
    after_pause: str = "none"
    last_fired_at: float | None = None
    last_task: str | None = None
    dealt: set[float] = field(default_factory=set)


@dataclass(eq=False)
class Shot:
    """A trigger. `place` is where a pending one stands: fresh, delayed, waiting, ready or deferred.

    `batch` numbers the triggers that were spread together.
    """

    id: str
    number: int
    plan: Plan
    due_at: float
    key: str
    by_call: bool
    state: str = "pending"
    place: str = "fresh"
    batch: int = 0
    put_off: int = 0
    fire_at: float | None = None
    fired_at: float | None = None
    ended_at: float | None = None
    task: str | None = None
    reason: str | None = None

    @property
    def is_open(self) -> bool:
        """It has arrived, did not end, and does not wait for another one."""
        return self.state == "executing" or (self.state == "pending" and self.place in ("ready", "deferred"))

    @property
    def order(self) -> tuple[float, int]:
        """By due time, then age."""
        return self.due_at, self.number


@dataclass
class Bounds:
    """How many are kept, and how many may be open; small ones show what happens there."""

    kept_of_a_schedule: int
    kept: int
    open: int
