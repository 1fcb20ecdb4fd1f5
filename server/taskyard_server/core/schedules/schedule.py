"""The records of schedules and their triggers, and the one table of legal trigger transitions (scheduler-daemon).

This file decides nothing: `schedules.py` says when a trigger comes due, `firing.py` what becomes of it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from taskyard_server.core.task import Submission

from .processed_times import TimeRange


class Cadence(Protocol):
    """When a schedule is due, as a value. Times are seconds, on the wall clock or on the steady one."""

    @property
    def by_wall(self) -> bool:
        """Whether its times are those of the wall clock, and not of the steady one, which never jumps."""

    def next_after(self, at: float, since: float) -> float | None:
        """The first due time after `at`, None if there is none; `since` is when the schedule took up this cadence."""

    def last_until(self, at: float, since: float) -> float | None:
        """The latest due time that is not after `at`, None if there is none."""


class Overlap(StrEnum):
    """What becomes of a trigger while one before it is open."""

    SKIP = "skip"
    WAIT = "wait"
    ALLOW = "allow"
    REPLACE = "replace"


class CatchUp(StrEnum):
    """Which of the due times that were missed are made up for."""

    LAST = "last"
    ALL = "all"
    NONE = "none"


DEFAULT_WINDOW_SECS: Final = 86_400


class ScheduleSpec(NamedTuple):
    """What a schedule shall do. `task` is what it submits, each time with `deadline_secs` of its own if given."""

    cadence: Cadence
    time_zone: str
    task: Submission
    deadline_secs: float | None = None
    display_name: str | None = None
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.LAST
    catch_up_window_secs: int = DEFAULT_WINDOW_SECS


class TriggerState(StrEnum):
    """Where a trigger stands; the values are the documented words (scheduler-daemon, State Flow)."""

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
    """A schedule. Read at once, and written by the core alone.

    `since` is when it took up its cadence, on the cadence's clock, and `next_due` the next time that has not been
    `dealt` with; both go on while it is paused. Times until `resumed_at` passed in a pause, and go by `after_pause`.
    `live` are its triggers that have not ended; those that have arrived are counted by `open`, one may be `waiting` for
    them. `ready` are those that may fire, in the order of due times; `executing` have fired, the tasks of `queued` of
    them wait to be handed out.
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
    "due_at",
    "ended_at",
    "fire_at",
    "fired_at",
    "id",
    "key",
    "number",
    "put_off",
    "reason",
    "schedule",
    "state",
    "task_id",
    "traceparent",
)


class Trigger:
    """One firing of a schedule. `due_at` is on the clock of its cadence, all other times on the steady one.

    `by_call` tells that no due time made it. While it is pending, `fire_at` is when it may go on, None where it waits
    for something else; `arrived` tells that its time has come, so that it counts as open.
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
        self.put_off = 0
        self.fire_at: float | None = None
        self.fired_at: float | None = None
        self.ended_at: float | None = None
        self.task_id: str | None = None
        self.reason: str | None = None

    def __copy__(self) -> Trigger:
        """The trigger as it stands. A compiled object is copied by nobody else."""
        copy = Trigger(
            self.id, self.number, self.schedule, self.due_at, self.key, self.traceparent, by_call=self.by_call
        )
        for name in TRIGGER_FIELDS:
            setattr(copy, name, getattr(self, name))
        return copy


class TriggerEventKind(StrEnum):
    """What happened to a trigger."""

    DUE = "due"
    DEFERRED = "deferred"
    CLAIMED = "claimed"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"


class TriggerEvent(NamedTuple):
    """One thing that happened to one trigger, to be read at once."""

    at: float
    kind: TriggerEventKind
    trigger: Trigger
