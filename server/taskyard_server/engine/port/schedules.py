"""The part of an engine for schedules and their triggers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol, TypeAlias

from taskyard_server.core.schedules.schedule import CatchUp, Schedule, ScheduleSpec, Trigger, TriggerEvent, TriggerState
from taskyard_server.core.schedules.trigger_store import PageKey

TriggerListener: TypeAlias = Callable[[str, Sequence[TriggerEvent]], None]
"""Called with a namespace and what happened to its triggers, in order, soon after. It must not block or raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerFilter:
    """Which triggers a listing wants; the due times are from the first, and before the second."""

    schedule_id: str | None = None
    states: frozenset[TriggerState] | None = None
    due_from: float = -inf
    due_before: float = inf


@dataclass(frozen=True, slots=True)
class TriggerPage:
    """Part of a listing, latest due first. `next_before` is where the next page starts, None at the end."""

    triggers: list[Trigger]
    next_before: PageKey | None


class SchedulePort(Protocol):
    """The part of an engine that keeps schedules and fires their triggers. Times are seconds."""

    async def create(
        self, namespace: str, schedule_id: str | None, spec: ScheduleSpec, paused: bool = False
    ) -> Schedule:
        """Make a schedule; the same one again is answered with the first.

        Raises `AlreadyExists`, `BadRequest` for a time that has passed, `Unavailable` while it drains.
        """

    async def get(self, namespace: str, schedule_id: str) -> Schedule:
        """The schedule, or `NotFound`."""

    async def list_schedules(self, namespace: str, after: int) -> list[Schedule]:
        """The schedules made after the one of this number, in order."""

    async def update(
        self, namespace: str, schedule_id: str, change: Callable[[ScheduleSpec], ScheduleSpec]
    ) -> Schedule:
        """Let a schedule do what `change` makes of what it does. Raises `NotFound`, `BadRequest`."""

    async def delete(self, namespace: str, schedule_id: str) -> None:
        """Forget a schedule and what has not fired of it. Raises `NotFound`."""

    async def pause(self, namespace: str, schedule_id: str) -> Schedule:
        """Let nothing come due any more. Raises `NotFound`."""

    async def resume(self, namespace: str, schedule_id: str, catch_up: CatchUp) -> Schedule:
        """Let a paused schedule go on, and make up for what it missed by a policy. Raises `NotFound`."""

    async def trigger(self, namespace: str, schedule_id: str, key: str | None, traceparent: str | None) -> Trigger:
        """Make a trigger that is due now. Raises `NotFound`, `Unavailable` while it drains."""

    async def preview(self, namespace: str, schedule_id: str, count: int, after: float | None) -> list[float]:
        """The next due times, after now or another time. Raises `NotFound`."""

    async def get_trigger(self, namespace: str, trigger_id: str) -> Trigger:
        """The trigger, or `NotFound`."""

    async def list_triggers(
        self, namespace: str, trigger_filter: TriggerFilter, before: PageKey | None, limit: int
    ) -> TriggerPage:
        """Up to `limit` matching triggers before a place in the listing, as they were when they were read."""

    def subscribe(self, listener: TriggerListener) -> Callable[[], None]:
        """Be told of all that happens to triggers from now on; returns the way to end that."""
