"""The records of schedules and triggers, and the one table of trigger transitions (docs/rules.md, Schedules).

This file decides nothing: `registry.py` decides when a trigger comes due, `trigger_dispatcher.py` when it fires.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from taskyard_server.core.task import Submission

from .processed_times import TimeRange


class Cadence(Protocol):
    """When a schedule is due, as a value. Times are seconds, on the wall clock or on the steady clock."""

    @property
    def by_wall(self) -> bool:
        """True if its times are on the wall clock. Otherwise they are on the steady clock, which never jumps."""

    def next_after(self, at: float, since: float) -> float | None:
        """The first due time after `at`, None if there is none. `since` is when the schedule got this cadence."""

    def last_until(self, at: float, since: float) -> float | None:
        """The last due time that is not after `at`, None if there is none."""


class Overlap(StrEnum):
    """The policy for a trigger that comes due while an earlier one of its schedule is open."""

    SKIP = "skip"
    WAIT = "wait"
    ALLOW = "allow"
    REPLACE = "replace"


class CatchUp(StrEnum):
    """The due times that still fire of those that were missed."""

    LAST = "last"
    ALL = "all"
    NONE = "none"


DEFAULT_CATCH_UP_WINDOW_SECS: Final = 86_400


class ScheduleSpec(NamedTuple):
    """The content of a schedule. Each time it submits `task`, with a deadline of `deadline_secs` from then if given."""

    cadence: Cadence
    time_zone: str
    task: Submission
    deadline_secs: float | None = None
    display_name: str | None = None
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.LAST
    catch_up_window_secs: int = DEFAULT_CATCH_UP_WINDOW_SECS


class TriggerState(StrEnum):
    """The state of a trigger; the values are the documented ones (docs/rules.md, Triggers)."""

    PENDING = "pending"
    EXECUTING = "executing"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"


LEGAL: Final[dict[TriggerState, frozenset[TriggerState]]] = {
    TriggerState.PENDING: frozenset({TriggerState.EXECUTING, TriggerState.SKIPPED, TriggerState.FAILED}),
    TriggerState.EXECUTING: frozenset({TriggerState.COMPLETED, TriggerState.FAILED}),
    TriggerState.COMPLETED: frozenset(),
    TriggerState.FAILED: frozenset(),
    TriggerState.SKIPPED: frozenset(),
}


class Schedule:
    """A schedule. Only the core writes it; callers read it before their next command.

    Due times: `since` is when the schedule got its cadence, and `next_due` is its first unprocessed due time, both on
    the clock of the cadence. They stay set during a pause. Due times up to `resumed_at` fell into a pause, and
    `after_pause` decides which of them fire. `processed_times` are the due times that need no further trigger.

    Triggers: `live` holds those that have not ended. `open` counts the live ones that have arrived, and `waiting` is
    the one that waits until none is open. `ready` holds those that may fire, by due time. `executing` counts those that
    have fired, and `queued` the tasks of these that wait for a host.
    """

    __slots__ = (
        "after_pause",
        "created_at",
        "executing",
        "id",
        "last_fired_at",
        "last_task_id",
        "live",
        "next_due",
        "number",
        "open",
        "paused",
        "processed_times",
        "queued",
        "ready",
        "resumed_at",
        "since",
        "spec",
        "updated_at",
        "waiting",
    )

    def __init__(
        self, schedule_id: str, spec: ScheduleSpec, now: float, since: float, next_due: float | None, paused: bool
    ) -> None:
        self.id = schedule_id
        self.number = 0
        self.spec = spec
        self.created_at = self.updated_at = now
        self.since = since
        self.next_due = next_due
        self.processed_times: tuple[TimeRange, ...] = ()
        self.paused = paused
        self.resumed_at: float | None = None
        self.after_pause = CatchUp.NONE
        self.last_fired_at: float | None = None
        self.last_task_id: str | None = None
        self.live: dict[Trigger, None] = {}
        self.open = 0
        self.waiting: Trigger | None = None
        self.ready: list[tuple[float, int, Trigger]] = []
        self.executing = 0
        self.queued = 0


TRIGGER_FIELDS: Final = (
    "arrived",
    "by_call",
    "deferrals",
    "due_at",
    "ended_at",
    "fire_at",
    "fired_at",
    "id",
    "key",
    "number",
    "reason",
    "schedule",
    "state",
    "task_id",
    "traceparent",
)


class Trigger:
    """One firing of a schedule. `due_at` is on the clock of the cadence, all other times are on the steady clock.

    A trigger `by_call` was made by a request, not by a due time. While a trigger is pending, `fire_at` is when it may
    go on, None if it does not wait for a time. Once it has `arrived`, it counts as open. `deferrals` counts how often
    a full queue delayed it.
    """

    __slots__ = TRIGGER_FIELDS

    def __init__(
        self,
        trigger_id: str,
        number: int,
        schedule: Schedule,
        due_at: float,
        key: str,
        traceparent: str,
        by_call: bool,
    ) -> None:
        self.id = trigger_id
        self.number = number
        self.schedule = schedule
        self.due_at = due_at
        self.key = key
        self.traceparent = traceparent
        self.by_call = by_call
        self.state = TriggerState.PENDING
        self.arrived = False
        self.deferrals = 0
        self.fire_at: float | None = None
        self.fired_at: float | None = None
        self.ended_at: float | None = None
        self.task_id: str | None = None
        self.reason: str | None = None

    def __copy__(self) -> Trigger:
        """A shallow copy. `copy.copy` cannot copy a compiled object without this method."""
        copy = Trigger(
            self.id, self.number, self.schedule, self.due_at, self.key, self.traceparent, by_call=self.by_call
        )
        for name in TRIGGER_FIELDS:
            setattr(copy, name, getattr(self, name))
        return copy


class TriggerEventKind(StrEnum):
    """The kind of a trigger's event."""

    DUE = "due"
    DEFERRED = "deferred"
    CLAIMED = "claimed"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"


class TriggerEvent(NamedTuple):
    """One thing that happened to one trigger. `trigger` is the live object: read it before the next command."""

    at: float
    kind: TriggerEventKind
    trigger: Trigger
