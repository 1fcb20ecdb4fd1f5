"""The triggers that are kept: found by id and by key, listed by due time, forgotten when there are too many."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterator

from taskyard_server.core.errors import NotFound

from .schedule import Schedule, Trigger

# Not Final, which would compile them in: tests lower them.
MAX_KEPT_PER_SCHEDULE = 100
MAX_KEPT = 100_000
"""So many ended triggers are kept of a schedule, and in all; what has not ended always is."""

PageKey = tuple[float, int]
"""Where a trigger stands in a listing: its due time, and its number."""


class DueOrder:
    """TriggerStore by due time; of equal ones the older first."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Trigger]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, trigger: Trigger) -> None:
        """Nearly always at the end."""
        insort(self._entries, (trigger.due_at, trigger.number, trigger))

    def remove(self, trigger: Trigger) -> None:
        """Forget one that was added."""
        del self._entries[bisect_left(self._entries, (trigger.due_at, trigger.number))]

    def latest_first(self, before: PageKey | None) -> Iterator[Trigger]:
        """Those before a place, or all. Not to be held across a command."""
        entries = self._entries
        end = len(entries) if before is None else bisect_left(entries, before)
        for index in range(end - 1, -1, -1):
            yield entries[index][2]


class _ScheduleTriggers:
    """The triggers of one schedule, which may be deleted by now."""

    __slots__ = ("by_due", "by_key", "ended")

    def __init__(self) -> None:
        self.by_due = DueOrder()
        self.by_key: dict[str, Trigger] = {}
        self.ended: OrderedDict[Trigger, None] = OrderedDict()


class TriggerStore:
    """The triggers of one namespace, and the source of their ids. `entropy` returns 40 random bits."""

    def __init__(self, entropy: Callable[[], int]) -> None:
        self._entropy = entropy
        self._by_id: dict[str, Trigger] = {}
        self._by_due = DueOrder()
        self._kept: dict[str, _ScheduleTriggers] = {}
        self._ended: OrderedDict[Trigger, None] = OrderedDict()
        self._last = 0

    def new(
        self,
        now: float,
        schedule: Schedule,
        due_at: float,
        key: str | None = None,
        traceparent: str | None = None,
        by_call: bool = False,
    ) -> Trigger | None:
        """A pending trigger, or None if the schedule has one of this key; without a key its id is the key."""
        if key is not None and self.find(schedule.id, key) is not None:
            return None
        self._last += 1
        trigger_id = f"trg_{int(now * 1000):012x}{self._last:010x}{self._entropy():010x}"
        trigger = Trigger(
            trigger_id, self._last, schedule, due_at, key or trigger_id, traceparent or self._new_trace(), by_call
        )
        self.restore(trigger)
        return trigger

    def restore(self, trigger: Trigger, owned: bool = True) -> None:
        """Keep a trigger as it is; one that is not `owned`, since its schedule is deleted, holds no key."""
        self._last = max(self._last, trigger.number)
        kept = self._kept.get(trigger.schedule.id)
        if kept is None:
            kept = self._kept[trigger.schedule.id] = _ScheduleTriggers()
        kept.by_due.add(trigger)
        if owned:
            kept.by_key[trigger.key] = trigger
        self._by_id[trigger.id] = trigger
        self._by_due.add(trigger)

    def get(self, trigger_id: str) -> Trigger:
        """The trigger; raises `NotFound` for one that never was or is no longer kept."""
        trigger = self._by_id.get(trigger_id)
        if trigger is None:
            raise NotFound("trigger not found")
        return trigger

    def find(self, schedule_id: str, key: str) -> Trigger | None:
        """The trigger of a schedule with this key."""
        kept = self._kept.get(schedule_id)
        return None if kept is None else kept.by_key.get(key)

    def latest_first(self, before: PageKey | None, schedule_id: str | None) -> Iterator[Trigger]:
        """Those of a schedule, or all, before a place in the listing. Not to be held across a command."""
        if schedule_id is None:
            return self._by_due.latest_first(before)
        kept = self._kept.get(schedule_id)
        return iter(()) if kept is None else kept.by_due.latest_first(before)

    def disown(self, schedule_id: str) -> None:
        """The schedule is deleted: another one of its name has keys of its own."""
        kept = self._kept.get(schedule_id)
        if kept is not None:
            kept.by_key.clear()

    def retire(self, trigger: Trigger) -> None:
        """The trigger has ended; it is kept until newer ones are too many."""
        kept = self._kept[trigger.schedule.id]
        kept.ended[trigger] = None
        self._ended[trigger] = None
        if len(kept.ended) > MAX_KEPT_PER_SCHEDULE:
            self.forget(next(iter(kept.ended)))
        elif len(self._ended) > MAX_KEPT:
            self.forget(next(iter(self._ended)))

    def forget(self, trigger: Trigger) -> None:
        """Keep it no longer."""
        schedule_id = trigger.schedule.id
        kept = self._kept[schedule_id]
        kept.by_due.remove(trigger)
        if kept.by_key.get(trigger.key) is trigger:
            del kept.by_key[trigger.key]
        kept.ended.pop(trigger, None)
        if not kept.by_due:
            del self._kept[schedule_id]
        del self._by_id[trigger.id]
        self._by_due.remove(trigger)
        self._ended.pop(trigger, None)

    def _new_trace(self) -> str:
        """A W3C trace context that begins here."""
        bits = 0
        for _ in range(5):
            bits = bits << 40 | self._entropy()
        return f"00-{bits >> 64 & (1 << 128) - 1 or 1:032x}-{bits & (1 << 64) - 1 or 1:016x}-01"
