"""The triggers that are retained: found by id and by key, listed by due time, dropped when there are too many.

This file knows nothing of states: its callers report which triggers have ended.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterator

from taskyard_server.core.changes import Changes
from taskyard_server.core.errors import NotFound

from .schedule import Schedule, Trigger

# Not Final: mypyc would compile the values in, and tests lower them.
MAX_ENDED_PER_SCHEDULE = 100
MAX_ENDED = 100_000
"""Maximum ended triggers retained, of one schedule and of all. Triggers that have not ended always are."""

PageKey = tuple[float, int]
"""The position of a trigger in a listing: its due time and its number."""


class DueOrder:
    """Triggers by due time, ties by number."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Trigger]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, trigger: Trigger) -> None:
        """Insert a trigger, nearly always at the end."""
        insort(self._entries, (trigger.due_at, trigger.number, trigger))

    def remove(self, trigger: Trigger) -> None:
        """Remove a trigger that was added."""
        del self._entries[bisect_left(self._entries, (trigger.due_at, trigger.number))]

    def latest_first(self, before: PageKey | None) -> Iterator[Trigger]:
        """The triggers before a position, or all, latest first. Do not hold the iterator across a command."""
        entries = self._entries
        end = len(entries) if before is None else bisect_left(entries, before)
        for index in range(end - 1, -1, -1):
            yield entries[index][2]


class _ScheduleTriggers:
    """The triggers of one schedule, which may have been deleted since."""

    __slots__ = ("by_due", "by_key", "ended")

    def __init__(self) -> None:
        self.by_due = DueOrder()
        self.by_key: dict[str, Trigger] = {}
        self.ended: OrderedDict[Trigger, None] = OrderedDict()


class TriggerStore:
    """The triggers of one namespace, and the source of their ids. `entropy` returns 40 random bits."""

    def __init__(self, entropy: Callable[[], int], changes: Changes | None = None) -> None:
        self._entropy = entropy
        self._changes = changes
        self._by_id: dict[str, Trigger] = {}
        self._by_due = DueOrder()
        self._by_schedule: dict[str, _ScheduleTriggers] = {}
        self._ended: OrderedDict[Trigger, None] = OrderedDict()
        self._last_number = 0

    def new(
        self,
        now: float,
        schedule: Schedule,
        due_at: float,
        key: str | None = None,
        traceparent: str | None = None,
        by_call: bool = False,
    ) -> Trigger | None:
        """Make a pending trigger; None if the schedule has one with this key. The key defaults to the trigger's id."""
        if key is not None and self.find(schedule.id, key) is not None:
            return None
        self._last_number += 1
        trigger_id = f"trg_{int(now * 1000):012x}{self._last_number:010x}{self._entropy():010x}"
        trigger = Trigger(
            trigger_id,
            self._last_number,
            schedule,
            due_at,
            key or trigger_id,
            traceparent or self._new_trace(),
            by_call,
        )
        self.restore(trigger)
        return trigger

    def restore(self, trigger: Trigger, owned: bool = True) -> None:
        """Add a trigger as it is. `owned` is false where its schedule was deleted: it then holds no key."""
        self._last_number = max(self._last_number, trigger.number)
        of_schedule = self._by_schedule.get(trigger.schedule.id)
        if of_schedule is None:
            of_schedule = self._by_schedule[trigger.schedule.id] = _ScheduleTriggers()
        of_schedule.by_due.add(trigger)
        if owned:
            of_schedule.by_key[trigger.key] = trigger
        self._by_id[trigger.id] = trigger
        self._by_due.add(trigger)

    @property
    def last_number(self) -> int:
        """The number of the last trigger that was made."""
        return self._last_number

    def continue_after(self, number: int) -> None:
        """Let numbers go on after this one."""
        self._last_number = max(self._last_number, number)

    def get(self, trigger_id: str) -> Trigger:
        """The trigger; raises `NotFound` if it never existed or is no longer retained."""
        trigger = self._by_id.get(trigger_id)
        if trigger is None:
            raise NotFound("trigger not found")
        return trigger

    def find(self, schedule_id: str, key: str) -> Trigger | None:
        """The trigger of a schedule with this key, or None."""
        of_schedule = self._by_schedule.get(schedule_id)
        return None if of_schedule is None else of_schedule.by_key.get(key)

    def latest_first(self, before: PageKey | None, schedule_id: str | None) -> Iterator[Trigger]:
        """The triggers of a schedule, or of all, before a position. Do not hold the iterator across a command."""
        if schedule_id is None:
            return self._by_due.latest_first(before)
        of_schedule = self._by_schedule.get(schedule_id)
        return iter(()) if of_schedule is None else of_schedule.by_due.latest_first(before)

    def release_keys(self, schedule_id: str) -> None:
        """Free the keys of a deleted schedule: a new schedule with its id starts without any."""
        of_schedule = self._by_schedule.get(schedule_id)
        if of_schedule is not None:
            of_schedule.by_key.clear()

    def retire(self, trigger: Trigger) -> None:
        """Count a trigger as ended, and drop the oldest ended one beyond the limits."""
        of_schedule = self._by_schedule[trigger.schedule.id]
        of_schedule.ended[trigger] = None
        self._ended[trigger] = None
        if len(of_schedule.ended) > MAX_ENDED_PER_SCHEDULE:
            self.forget(next(iter(of_schedule.ended)))
        elif len(self._ended) > MAX_ENDED:
            self.forget(next(iter(self._ended)))

    def forget(self, trigger: Trigger) -> None:
        """Drop a trigger."""
        schedule_id = trigger.schedule.id
        of_schedule = self._by_schedule[schedule_id]
        of_schedule.by_due.remove(trigger)
        if of_schedule.by_key.get(trigger.key) is trigger:
            del of_schedule.by_key[trigger.key]
        of_schedule.ended.pop(trigger, None)
        if not of_schedule.by_due:
            del self._by_schedule[schedule_id]
        del self._by_id[trigger.id]
        self._by_due.remove(trigger)
        self._ended.pop(trigger, None)
        if self._changes is not None:
            self._changes.trigger_gone(trigger)

    def _new_trace(self) -> str:
        """A W3C traceparent that starts a new trace."""
        bits = 0
        for _ in range(5):
            bits = bits << 40 | self._entropy()
        return f"00-{bits >> 64 & (1 << 128) - 1 or 1:032x}-{bits & (1 << 64) - 1 or 1:016x}-01"
