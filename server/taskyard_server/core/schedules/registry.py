"""The front door of schedules: what may be done with them, and when their triggers come due.

`now` is steady, as everywhere in the core. Cron looks at the wall clock, which may jump: whoever drives the core says
how it stands by `note_wall`. A schedule deals with each of its due times once, in order. Where the clock goes back,
only those come that were not dealt with: they were leaped over, or lie before the schedule's beginning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from math import floor, inf
from typing import TYPE_CHECKING, Final

from taskyard_server.core.errors import AlreadyExists, BadRequest, NotFound, TooManySchedules, Unavailable
from taskyard_server.core.stats import Totals, TriggerCounters
from taskyard_server.core.task import NO_OPTIONS, Submission, Task
from taskyard_server.core.timers import TICKS_PER_SECOND, TimerQueue

from . import processed_times
from .schedule import CatchUp, Schedule, ScheduleSpec, Trigger, TriggerEvent
from .trigger_dispatcher import TOO_MANY, TriggerDispatcher
from .trigger_store import TriggerStore

if TYPE_CHECKING:
    from taskyard_server.core.lifecycle import Lifecycle

MAX_MISSED: Final = 1_000
"""So many triggers of one schedule are caught up at once: an outage must not make a million."""
NOISE_SECS: Final = 0.01
"""The clocks are read one after the other: smaller differences mean nothing."""

# Not Final, which would compile it in: tests lower it.
MAX_LOOKS_PER_CALL = 100
"""Schedules that are looked at in one step after the wall clock was set back; each takes about 0.1 ms."""

PAUSED = "the schedule was paused"
CHANGED = "the schedule was changed"
MISSED = "missed while the scheduler was not running"


class ScheduleRegistry:
    """The schedules of one namespace. `admit` is the scheduler's own."""

    def __init__(
        self, life: Lifecycle, admit: Callable[[float, Submission], Task | None], entropy: Callable[[], int]
    ) -> None:
        self._life = life
        self._entropy = entropy
        self._schedules: dict[str, Schedule] = {}
        self._triggers = TriggerStore(entropy)
        self._dispatcher = TriggerDispatcher(life, admit, self._triggers, entropy)
        self._wall_dues: TimerQueue[Schedule] = TimerQueue()
        self._steady_dues: TimerQueue[Schedule] = TimerQueue()
        self._skew = 0.0
        self._looked_at = 0.0
        self._latest = -inf
        # The schedules that were not looked at since the wall clock was set back.
        self._set_back: deque[Schedule] = deque()
        self._last = 0

    # Commands

    def create(self, now: float, schedule_id: str | None, spec: ScheduleSpec, paused: bool = False) -> Schedule:
        """Make a schedule, or answer with the one that has this id and is just the same.

        Raises `AlreadyExists` for an id of another schedule, `BadRequest` for a time that has passed,
        `TooManySchedules`, and `Unavailable` while the scheduler drains.
        """
        if schedule_id is not None and (first := self._schedules.get(schedule_id)) is not None:
            if first.spec != spec or first.paused != paused:
                raise AlreadyExists("scheduleId: is that of another schedule")
            return first
        if self._dispatcher.on_hold:
            raise Unavailable("the scheduler is draining")
        if len(self._schedules) >= (most := self._life.limits.max_schedules):
            raise TooManySchedules(most)
        since = self._clock_of(spec, now)
        next_due = _first_due(spec, since)
        self._last += 1
        if schedule_id is None:
            schedule_id = f"sch_{int(now * 1000):012x}{self._last:010x}{self._entropy():010x}"
        schedule = self._schedules[schedule_id] = Schedule(schedule_id, spec, now, since, next_due, paused)
        schedule.number = self._last
        self._await_next(schedule)
        return schedule

    def get(self, schedule_id: str) -> Schedule:
        """The schedule, or `NotFound`."""
        schedule = self._schedules.get(schedule_id)
        if schedule is None:
            raise NotFound("schedule not found")
        return schedule

    def after(self, number: int) -> list[Schedule]:
        """The schedules made after the one of this number, in order."""
        return [schedule for schedule in self._schedules.values() if schedule.number > number]

    def update(self, now: float, schedule_id: str, spec: ScheduleSpec) -> Schedule:
        """Let a schedule do something else from now on. Raises `NotFound`, or `BadRequest` as `create` does."""
        schedule = self.get(schedule_id)
        if spec == schedule.spec:
            return schedule
        begins_anew = spec.cadence != schedule.spec.cadence
        if begins_anew:
            since = self._clock_of(spec, now)
            next_due = _first_due(spec, since)
            self._await_no_more(schedule)
            self._dispatcher.withdraw(now, schedule, CHANGED)
            schedule.since, schedule.next_due, schedule.resumed_at = since, next_due, None
            schedule.processed_times = ()
        schedule.spec = spec
        schedule.updated_at = now
        if begins_anew:
            self._await_next(schedule)
        return schedule

    def delete(self, schedule_id: str) -> None:
        """Forget a schedule and what has not fired of it; its tasks go on. Raises `NotFound`."""
        schedule = self.get(schedule_id)
        self._await_no_more(schedule)
        self._dispatcher.drop(schedule)
        self._triggers.disown(schedule_id)
        del self._schedules[schedule_id]
        # Its triggers are kept for a while, and need no payload for that.
        schedule.spec = schedule.spec._replace(task=schedule.spec.task._replace(params=None, options=NO_OPTIONS))

    def pause(self, now: float, schedule_id: str) -> Schedule:
        """Let nothing come due any more, and skip what has not fired. Raises `NotFound`."""
        schedule = self.get(schedule_id)
        if not schedule.paused:
            self._await_no_more(schedule)
            schedule.paused = True
            schedule.updated_at = now
            self._dispatcher.withdraw(now, schedule, PAUSED)
        return schedule

    def resume(self, now: float, schedule_id: str, catch_up: CatchUp = CatchUp.NONE) -> Schedule:
        """Let a paused schedule go on; `catch_up` says which of the times that it missed. Raises `NotFound`."""
        schedule = self.get(schedule_id)
        if schedule.paused:
            schedule.paused = False
            schedule.updated_at = now
            schedule.resumed_at = self._clock_of(schedule.spec, now)
            schedule.after_pause = catch_up
            self._await_next(schedule)
        return schedule

    def trigger(self, now: float, schedule_id: str, key: str | None = None, traceparent: str | None = None) -> Trigger:
        """Make a trigger that is due now, or answer with the one that the schedule has of this key.

        Raises `NotFound`, or `Unavailable` while the scheduler drains.
        """
        schedule = self.get(schedule_id)
        if key is not None and (first := self._triggers.find(schedule_id, key)) is not None:
            return first
        if self._dispatcher.on_hold:
            raise Unavailable("the scheduler is draining")
        due_at = self._clock_of(schedule.spec, now)
        trigger = self._triggers.new(now, schedule, due_at, key, traceparent, by_call=True)
        assert trigger is not None
        self._dispatcher.come_due_by_call(now, trigger)
        return trigger

    def get_trigger(self, trigger_id: str) -> Trigger:
        """The trigger, or `NotFound`."""
        return self._triggers.get(trigger_id)

    def triggers_before(self, before: tuple[float, int] | None, schedule_id: str | None = None) -> Iterator[Trigger]:
        """Latest due first: those before the one of this due time and number, of a schedule or of all.

        Not to be held across a command.
        """
        return self._triggers.latest_first(before, schedule_id)

    def clock_of(self, schedule: Schedule, now: float) -> float:
        """The present time on the clock of a schedule's cadence."""
        return self._clock_of(schedule.spec, now)

    # Time

    def note_wall(self, now: float, wall: float) -> None:
        """How the wall clock stands. Where it was set back by more than a poll, cron looks anew at what is to come."""
        if abs(wall - now - self._skew) > NOISE_SECS:
            self._skew = wall - now
        self._looked_at = now
        clock = now + self._skew
        if clock >= self._latest - self._life.limits.poll_secs:
            self._latest = max(self._latest, clock)
            return
        self._latest = clock
        self._set_back = deque(schedule for schedule in self._schedules.values() if schedule.spec.cadence.by_wall)
        for _ in range(MAX_LOOKS_PER_CALL):
            if not self._look_at_one_anew(now):
                break

    def next_due(self) -> float | None:
        """When `advance` has something to do, or the wall clock is to be looked at; None while nothing can come due."""
        if self._dispatcher.has_work or self._set_back:
            return 0.0
        steady, wall = self._steady_dues.next_tick(), self._wall_dues.next_tick()
        due = None if steady is None else steady / TICKS_PER_SECOND
        if wall is not None:
            look = min(wall / TICKS_PER_SECOND - self._skew, self._looked_at + self._life.limits.poll_secs)
            due = look if due is None else min(due, look)
        return due

    def advance(self, now: float, most: int) -> bool:
        """Let come due what is due, then fire, at most so many things; whether there is more to do."""
        return all(
            self._look_at_one_anew(now) or self._take_due(now) or self._dispatcher.act_on_one(now) for _ in range(most)
        )

    def limits_changed(self) -> None:
        """Other limits hold."""
        self._dispatcher.limits_changed()

    def hold(self) -> None:
        """Fire nothing from now on."""
        self._dispatcher.on_hold = True

    # After a restart

    def restore(self, schedule: Schedule) -> None:
        """Take a schedule that was kept, oldest first; `recover` follows once all are there."""
        schedule.live, schedule.open, schedule.waiting, schedule.ready = {}, 0, None, []
        schedule.executing = schedule.queued = 0
        self._last = max(self._last, schedule.number)
        self._schedules[schedule.id] = schedule

    def restore_trigger(self, trigger: Trigger) -> None:
        """Take a trigger that was kept, with its schedule restored or deleted; oldest ends first."""
        trigger.arrived, trigger.fire_at, trigger.put_off = False, None, 0
        schedule = trigger.schedule
        self._triggers.restore(trigger, self._schedules.get(schedule.id) is schedule)
        if trigger.ended_at is not None:
            self._triggers.retire(trigger)

    def recover(self, now: float) -> None:
        """Go on with what was restored, once the tasks are there: what executed, what was pending, what was missed."""
        live = [trigger for trigger in self._triggers.latest_first(None, None) if trigger.ended_at is None]
        for trigger in reversed(live):
            self._dispatcher.take_up(now, trigger)
        for schedule in self._schedules.values():
            # The clock may show an earlier time than to the process before.
            self._look_anew(now, schedule)
            self._await_next(schedule)

    # Figures

    def take_events(self) -> list[TriggerEvent]:
        """What has happened to triggers since this was last called, in order."""
        taken, self._dispatcher.events = self._dispatcher.events, []
        return taken

    def __len__(self) -> int:
        return len(self._schedules)

    @property
    def limited_by(self) -> str | None:
        """The configuration key that triggers wait for, whose time has come."""
        if self._life.ready.holds_triggered:
            return "maxConcurrent"
        return "maxQueuedTriggers" if self._dispatcher.is_held_up else None

    @property
    def counters(self) -> TriggerCounters:
        """Counts of triggers since the start."""
        return self._dispatcher.counters

    def add_to(self, totals: Totals) -> None:
        """Add this namespace's figures to those of others."""
        totals.schedules += len(self._schedules)
        totals.triggers_pending += self._dispatcher.pending
        totals.triggers_executing += self._dispatcher.executing
        totals.triggers.add(self._dispatcher.counters)

    # What comes due

    def _take_due(self, now: float) -> bool:
        """Deal with one due time of one schedule; False if none has come."""
        for dues, clock in ((self._steady_dues, now), (self._wall_dues, now + self._skew)):
            tick = dues.next_tick()
            if tick is not None and tick <= int(clock * TICKS_PER_SECOND):
                schedule = dues.pop(tick)
                assert schedule.next_due is not None
                due = schedule.next_due
                reason, later = self._decide(schedule, due, clock)
                following = later if reason is None else schedule.spec.cadence.next_after(due, schedule.since)
                schedule.processed_times = processed_times.add(schedule.processed_times, due, following)
                schedule.next_due = processed_times.first_unprocessed(schedule.processed_times, later)
                self._await_next(schedule)
                trigger = self._triggers.new(now, schedule, due, f"{due * 1000:.0f}")
                if trigger is not None and reason is None:
                    self._dispatcher.come_due(now, trigger)
                elif trigger is not None:
                    self._dispatcher.never_fire(now, trigger, reason or "")
                return True
        return False

    def _look_at_one_anew(self, now: float) -> bool:
        """Look at one schedule after the clock was set back; False if all were looked at."""
        while self._set_back:
            schedule = self._set_back.popleft()
            if self._schedules.get(schedule.id) is schedule and schedule.spec.cadence.by_wall:
                self._look_anew(now, schedule)
                return True
        return False

    def _look_anew(self, now: float, schedule: Schedule) -> None:
        """The clock may have gone back: what is to come and was not dealt with may lie before what is due next."""
        clock = self._clock_of(schedule.spec, now)
        if schedule.resumed_at is not None:
            schedule.resumed_at = min(schedule.resumed_at, clock)
        if schedule.since > clock and not schedule.spec.cadence.by_wall:
            # An interval that has not begun yet would begin late.
            schedule.since, schedule.processed_times = clock, ()
        following = schedule.spec.cadence.next_after(clock, schedule.since)
        due = processed_times.first_unprocessed(schedule.processed_times, following)
        if due is not None and (schedule.next_due is None or due < schedule.next_due):
            self._await_no_more(schedule)
            schedule.next_due = due
            self._await_next(schedule)

    def _decide(self, schedule: Schedule, due: float, clock: float) -> tuple[str | None, float | None]:
        """Why a due time that has come is skipped, None if it fires, and the schedule's next one.

        Of those that were missed, one after the other is dealt with only as far as it fires or is the first that does
        not: a schedule of every second must not cost more after a long outage than one of every day.
        """
        spec, since = schedule.spec, schedule.since
        cadence, on_time_secs = spec.cadence, self._life.limits.poll_secs
        if schedule.resumed_at is not None and due <= schedule.resumed_at:
            policy, until, reason, on_time_from = schedule.after_pause, schedule.resumed_at, PAUSED, inf
        else:
            policy, until, reason, on_time_from = spec.catch_up, clock, MISSED, clock - on_time_secs
            if due >= on_time_from:
                return None, cadence.next_after(due, since)
        if policy is CatchUp.ALL:
            window_from = min(until - spec.catch_up_window_secs, on_time_from)
            if due > window_from and len(schedule.live) >= MAX_MISSED:
                return TOO_MANY, cadence.next_after(min(until, on_time_from), since)
            if due > window_from:
                return None, cadence.next_after(due, since)
            return reason, cadence.next_after(window_from, since)
        last = cadence.last_until(until, since)
        if policy is CatchUp.LAST and (last is None or last <= due):
            return None, cadence.next_after(due, since)
        if last is not None and last > due and (policy is CatchUp.LAST or last >= on_time_from):
            return reason, last
        return reason, cadence.next_after(until, since)

    def _clock_of(self, spec: ScheduleSpec, now: float) -> float:
        # Whole microseconds, halves up, as times are shown: a time that a caller gives back is the same.
        return floor((now + self._skew if spec.cadence.by_wall else now) * 1e6 + 0.5) / 1e6

    def _dues_of(self, schedule: Schedule) -> TimerQueue[Schedule]:
        return self._wall_dues if schedule.spec.cadence.by_wall else self._steady_dues

    def _await_next(self, schedule: Schedule) -> None:
        if schedule.next_due is not None and not schedule.paused:
            self._dues_of(schedule).add(schedule.next_due, schedule)

    def _await_no_more(self, schedule: Schedule) -> None:
        if schedule.next_due is not None:
            self._dues_of(schedule).remove(schedule.next_due, schedule)


def _first_due(spec: ScheduleSpec, since: float) -> float:
    next_due = spec.cadence.next_after(since, since)
    if next_due is None:
        raise BadRequest("at: must be in the future")
    return next_due
