"""The port for schedules and their triggers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol, TypeAlias, TypeVar

from taskyard_server.core.schedules.schedule import CatchUp, Schedule, ScheduleSpec, Trigger, TriggerEvent, TriggerState
from taskyard_server.core.schedules.trigger_store import PageKey

T = TypeVar("T")

TriggerListener: TypeAlias = Callable[[str, Sequence[TriggerEvent]], None]
"""Called with a namespace and its new trigger events, in order. It must not block or raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerFilter:
    """Which triggers a listing returns: those due from `due_from` on and before `due_before`; None matches all."""

    schedule_id: str | None = None
    states: frozenset[TriggerState] | None = None
    due_from: float = -inf
    due_before: float = inf


@dataclass(frozen=True, slots=True)
class TriggerPage:
    """One page of a listing, latest due time first. `next_before` starts the next page; None on the last one."""

    triggers: list[Trigger]
    next_before: PageKey | None


class SchedulePort(Protocol):
    """Commands on schedules, and their triggers."""

    async def create(
        self,
        namespace: str,
        schedule_id: str | None,
        spec: ScheduleSpec,
        paused: bool = False,
        *,
        show: Callable[[Schedule], T],
    ) -> T:
        """Create a schedule. Creating an identical one again returns the first.

        Raises `AlreadyExists`, `BadRequest` for a due time that has passed, and `Unavailable` while the engine drains.
        """

    async def get(self, namespace: str, schedule_id: str, *, show: Callable[[Schedule], T]) -> T:
        """The schedule. Raises `NotFound`."""

    async def list_schedules(self, namespace: str, after: int, *, show: Callable[[list[Schedule]], T]) -> T:
        """The schedules with a number above `after`, in order of creation."""

    async def update(
        self,
        namespace: str,
        schedule_id: str,
        change: Callable[[ScheduleSpec], ScheduleSpec],
        *,
        show: Callable[[Schedule], T],
    ) -> T:
        """Replace the specification of a schedule by what `change` returns for it. Raises `NotFound`, `BadRequest`."""

    async def delete(self, namespace: str, schedule_id: str) -> None:
        """Remove a schedule and its triggers that have not fired. Raises `NotFound`."""

    async def pause(self, namespace: str, schedule_id: str, *, show: Callable[[Schedule], T]) -> T:
        """Stop a schedule from coming due. Raises `NotFound`."""

    async def resume(self, namespace: str, schedule_id: str, catch_up: CatchUp, *, show: Callable[[Schedule], T]) -> T:
        """Resume a paused schedule, and handle its missed due times by `catch_up`. Raises `NotFound`."""

    async def trigger(
        self,
        namespace: str,
        schedule_id: str,
        key: str | None,
        traceparent: str | None,
        *,
        show: Callable[[Trigger], T],
    ) -> T:
        """Create a trigger that is due now. Raises `NotFound`, and `Unavailable` while the engine drains."""

    async def preview(self, namespace: str, schedule_id: str, count: int, after: float | None) -> list[float]:
        """The next `count` due times, after `after` or now. Raises `NotFound`."""

    async def get_trigger(self, namespace: str, trigger_id: str, *, show: Callable[[Trigger], T]) -> T:
        """The trigger. Raises `NotFound`."""

    async def list_triggers(
        self, namespace: str, trigger_filter: TriggerFilter, before: PageKey | None, limit: int
    ) -> TriggerPage:
        """Up to `limit` matching triggers before the position `before`, as copies."""

    def subscribe(self, listener: TriggerListener) -> Callable[[], None]:
        """Call a listener with all trigger events from now on. Returns a function that removes the listener."""
