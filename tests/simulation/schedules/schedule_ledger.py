"""What no policy may break: it learns from the core's records and events alone, and knows nothing of the model.

No due time fires twice, over restarts and jumps of the clock; none is passed over without a trigger, but in a run of
missed ones after one that was skipped for that; a trigger ends once, and fires at most one task; no more execute than
may; nothing fires early, or while its schedule is paused unless a call made it; jitter keeps bounds and order. A
schedule goes back only with the clock, and only to the first time to come that has no trigger.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.schedules.schedule import Schedule, Trigger

from .cadences import Cadence, times
from .event_tape import Entry, OfTask, OfTrigger
from .model_records import ENDS, MISSED, PAUSED


class Cursor(NamedTuple):
    """Where a schedule stood before a command. `epoch` begins anew with each cadence that it takes up."""

    epoch: int
    cadence: Cadence
    since: float
    at: float | None
    window: int
    policy: str
    resumed_at: float | None
    after_pause: str


class ScheduleLedger:
    """What was seen of the triggers of one namespace over all restarts."""

    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}
        self._seen: dict[tuple[str, int, str], str] = {}
        self._claimed: dict[str, str] = {}
        self._ended: set[str] = set()
        self._keys: set[tuple[str, str]] = set()
        self._executing: set[str] = set()
        self._tasks: dict[str, str] = {}
        self._before: dict[str, Cursor] = {}
        self._delayed: set[str] = set()

    def began(self, schedule_id: str) -> None:
        """The schedule is another one now, or has another cadence."""
        self._epochs[schedule_id] = self._epochs.get(schedule_id, 0) + 1
        self._before.pop(schedule_id, None)

    def tasks_gone(self) -> None:
        """The tasks went with their process."""
        self._tasks.clear()

    def restarted(self) -> None:
        """What executed is taken up or ends; its delays begin anew."""
        self._delayed.clear()

    def lost(self, trigger_id: str) -> None:
        """The record that this trigger fired was lost."""
        self._executing.discard(trigger_id)

    def see(self, core: Scheduler, now: float, tape: Iterable[Entry], triggers: dict[str, Trigger]) -> None:
        """All that came of one command to `triggers`."""
        dues: dict[str, dict[float, Trigger]] = {}
        for entry in tape:
            if isinstance(entry, OfTask):
                self._see_task(entry)
                continue
            trigger = triggers[entry.trigger]
            if entry.kind == "due":
                self._keys.add((entry.schedule, trigger.key))
                if not trigger.by_call:
                    self._see_due(core, now, entry, trigger)
                    dues.setdefault(entry.schedule, {})[entry.due_at] = trigger
            elif entry.kind == "claimed":
                self._see_claimed(entry, trigger)
            elif entry.kind in ENDS:
                if entry.trigger in self._ended:
                    raise AssertionError(f"{entry.trigger} ends twice")
                self._ended.add(entry.trigger)
                self._executing.discard(entry.trigger)
        if any(isinstance(entry, OfTask) and entry.state == "assigned" and entry.key for entry in tape):
            self._see_places(core)
        self._see_delays(core, now)
        for schedule in core.schedules.after(0):
            before = self._before.get(schedule.id)
            if before is not None and before.since != schedule.since:
                # An interval that has begun anew is due at other times.
                self.began(schedule.id)
            elif before is not None:
                self._see_moved(core, now, before, schedule, dues.get(schedule.id, {}))
            self._before[schedule.id] = self._cursor(schedule)

    def _see_task(self, entry: OfTask) -> None:
        if entry.kind == "submitted" and entry.key is not None and entry.key.startswith("trg_"):
            if entry.state == "rejected":
                raise AssertionError(f"{entry.key} left a rejected task")
            if entry.key in self._tasks:
                raise AssertionError(f"{entry.key} has two tasks")
            self._tasks[entry.key] = entry.task

    def _see_due(self, core: Scheduler, now: float, entry: OfTrigger, trigger: Trigger) -> None:
        clock = core.schedules.clock_of(trigger.schedule, now)
        if entry.due_at > clock:
            raise AssertionError(f"{entry.trigger} of {entry.due_at} is due at {clock}")
        key = (entry.schedule, self._epochs[entry.schedule], trigger.key)
        if key in self._seen:
            raise AssertionError(f"{entry.due_at} of {entry.schedule} is due as {self._seen[key]} and {entry.trigger}")
        self._seen[key] = entry.trigger

    def _see_claimed(self, entry: OfTrigger, trigger: Trigger) -> None:
        if trigger.schedule.paused and not trigger.by_call:
            raise AssertionError(f"{entry.trigger} fires while its schedule is paused")
        task = self._tasks.get(entry.trigger)
        if entry.trigger in self._executing or task is None or self._claimed.get(entry.trigger, task) != task:
            raise AssertionError(f"{entry.trigger} fires again, or without a task")
        self._claimed[entry.trigger] = task
        self._executing.add(entry.trigger)

    def _see_places(self, core: Scheduler) -> None:
        """Once the task of a trigger was handed out, no more of them are in flight than may be."""
        flying = [task.id for task in core.tasks_after(0) if task.options.trigger_id and task.lease is not None]
        if len(flying) > core.limits.max_concurrent:
            raise AssertionError(f"of triggers are in flight: {flying}")

    def _see_delays(self, core: Scheduler, now: float) -> None:
        """What jitter has put off: those of a schedule go on in the order of their due times."""
        of_schedule: dict[str, list[Trigger]] = {}
        delayed = [each for each in core.schedules.triggers_before(None) if each.fire_at is not None]
        for trigger in sorted(delayed, key=lambda each: each.number):
            if not trigger.deferrals:
                of_schedule.setdefault(trigger.schedule.id, []).append(trigger)
                if trigger.id not in self._delayed and (trigger.fire_at or 0.0) < now:
                    raise AssertionError(f"{trigger.id} is put off until {trigger.fire_at}, which has passed")
                self._delayed.add(trigger.id)
        for each in of_schedule.values():
            for one, other in pairwise(each):
                # Where the clock was set back, the younger one may be due earlier.
                if one.due_at <= other.due_at and (one.fire_at or 0.0) > (other.fire_at or 0.0):
                    raise AssertionError(f"{one.id} goes on at {one.fire_at}, {other.id} at {other.fire_at}")

    def _see_moved(
        self, core: Scheduler, now: float, before: Cursor, schedule: Schedule, dues: dict[float, Trigger]
    ) -> None:
        """Each due time between the two places of the cursor has a trigger, or may have none."""
        if before.epoch != self._epochs[schedule.id] or schedule.next_due == before.at:
            return
        clock = core.schedules.clock_of(schedule, now)
        # The clock may have been set back before the command.
        before = before._replace(resumed_at=schedule.resumed_at)
        if schedule.next_due is not None and (before.at is None or schedule.next_due < before.at):
            self._see_gone_back(before, schedule, schedule.next_due, clock)
            return
        until = clock if schedule.next_due is None else schedule.next_due
        if before.at is None or until < before.at:
            raise AssertionError(f"{schedule.id} goes back from {before.at} to {until}")
        in_a_run = False
        for at in times(before.cadence, before.since, before.at, until):
            if at is None:
                in_a_run = True
                continue
            trigger, is_known = dues.get(at), (schedule.id, _key(at)) in self._keys
            if at == schedule.next_due:
                break
            if trigger is None and (self._is_seen(schedule, at) or (is_known and at > clock)):
                # It came before the clock was set back.
                continue
            # What passed in a pause is dealt with, also if the clock has gone back since.
            if at > max(clock, before.resumed_at or clock):
                raise AssertionError(f"{schedule.id} passes {at} by, which is to come")
            if trigger is not None:
                in_a_run = any(why in (trigger.reason or "") for why in (MISSED, PAUSED))
            elif is_known:
                in_a_run = True
            elif not in_a_run or self._is_wanted(core, before, at, clock):
                raise AssertionError(f"{schedule.id} has lost {at}")

    def _see_gone_back(self, before: Cursor, schedule: Schedule, to: float, clock: float) -> None:
        """It was leaped over, is to come, and those before it have been."""
        if to <= clock or self._is_seen(schedule, to):
            raise AssertionError(f"{schedule.id} goes back from {before.at} to {to} at {clock}")
        for at in times(before.cadence, before.since, clock, to):
            is_known = at is None or self._is_seen(schedule, at) or (schedule.id, _key(at)) in self._keys
            if at is not None and clock < at < to and not is_known:
                raise AssertionError(f"{schedule.id} goes back to {to}, and loses {at}")

    def _is_seen(self, schedule: Schedule, at: float) -> bool:
        """True if this due time made a trigger."""
        return (schedule.id, self._epochs[schedule.id], _key(at)) in self._seen

    def _is_wanted(self, core: Scheduler, before: Cursor, at: float, clock: float) -> bool:
        """True if the policy wants a trigger of this time, of which there is none."""
        in_a_pause = before.resumed_at is not None and at <= before.resumed_at
        until = before.resumed_at if in_a_pause and before.resumed_at is not None else clock
        policy = before.after_pause if in_a_pause else before.policy
        last = before.cadence.last_until(until, before.since)
        if policy == "all":
            return at > until - before.window
        if policy == "last":
            return at == last
        return not in_a_pause and at == last and clock - at <= core.limits.poll_secs

    def _cursor(self, schedule: Schedule) -> Cursor:
        spec = schedule.spec
        return Cursor(
            self._epochs[schedule.id],
            spec.cadence,  # type: ignore[arg-type]
            schedule.since,
            schedule.next_due,
            spec.catch_up_window_secs,
            spec.catch_up,
            schedule.resumed_at,
            schedule.after_pause,
        )

    def tasks_agree(self, tasks: Sequence[str]) -> None:
        """Each of the tasks that have a trigger's id for a key is that of one trigger."""
        fired = list(self._claimed.values())
        if len(set(fired)) != len(fired) or not set(fired) >= set(tasks):
            raise AssertionError("a task has two triggers, or none")


def _key(due: float) -> str:
    """The key of a due time: in milliseconds."""
    return f"{due * 1000:.0f}"
