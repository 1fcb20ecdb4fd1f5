"""The entry point of schedules: the commands on them, and when their triggers come due.

`now` is on the steady clock, as everywhere in the core. Cron goes by the wall clock, which may jump: the engine reports
it by `note_wall`. A schedule processes its due times in order and each of them once. After the wall clock was set back,
only unprocessed due times fire: those that a jump forward passed over, and those before the schedule began.

This file does not know how a trigger fires; `trigger_dispatcher.py` does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from math import floor, inf, nextafter
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

MAX_MISSED_PER_SCHEDULE: Final = 1_000
"""Maximum live triggers of one schedule while missed due times fire: an outage must not make a million."""
CLOCK_NOISE_SECS: Final = 0.01
"""The two clocks are read one after the other: a smaller change of their difference means nothing."""

# Not Final: mypyc would compile the value in, and tests lower it.
MAX_RECOMPUTED_PER_CALL = 100
"""Maximum schedules recomputed in one call after the wall clock was set back; each takes about 0.1 ms."""

PAUSED = "the schedule was paused"
CHANGED = "the schedule was changed"
MISSED = "missed while the scheduler was not running"


class ScheduleRegistry:
    """The schedules of one namespace. `admit` is the scheduler's admission: the new task, None if a queue is full."""

    def __init__(
        self, life: Lifecycle, admit: Callable[[float, Submission], Task | None], entropy: Callable[[], int]
    ) -> None:
        self._life = life
        self._entropy = entropy
        self._schedules: dict[str, Schedule] = {}
        self._triggers = TriggerStore(entropy, life.changes)
        self._dispatcher = TriggerDispatcher(life, admit, self._triggers, entropy)
        self._wall_dues: TimerQueue[Schedule] = TimerQueue()
        self._steady_dues: TimerQueue[Schedule] = TimerQueue()
        self._wall_offset = 0.0
        self._wall_noted_at = 0.0
        self._latest_wall = -inf
        # The wall clock was set back to that time, and these may now have an earlier due time. With each goes when it
        # took up its cadence: one that takes up another in the meantime has its due time by the present clock.
        self._set_back_to = 0.0
        self._to_recompute: deque[tuple[Schedule, float]] = deque()
        self._last_number = 0
        self.wall_may_jump = True
        """True if the wall clock is looked at again and again, since it may be set. Not where a test moves it."""

    # Commands

    def create(self, now: float, schedule_id: str | None, spec: ScheduleSpec, paused: bool = False) -> Schedule:
        """Make a schedule, or return the one that has this id and is equal.

        Raises `AlreadyExists` for an id of another schedule, `BadRequest` for a time that has passed,
        `TooManySchedules`, and `Unavailable` while the scheduler drains.
        """
        if schedule_id is not None and (first := self._schedules.get(schedule_id)) is not None:
            if first.spec != spec or first.paused != paused:
                raise AlreadyExists("scheduleId: is that of another schedule")
            return first
        self._life.readers.require(spec.task.options)
        if self._dispatcher.on_hold:
            raise Unavailable("the scheduler is draining")
        if len(self._schedules) >= (limit := self._life.limits.max_schedules):
            raise TooManySchedules(limit)
        since = self._clock_of(spec, now)
        next_due = _first_due(spec, since)
        self._last_number += 1
        if schedule_id is None:
            schedule_id = f"sch_{int(now * 1000):012x}{self._last_number:010x}{self._entropy():010x}"
        schedule = self._schedules[schedule_id] = Schedule(schedule_id, spec, now, since, next_due, paused)
        schedule.number = self._last_number
        self._note(schedule)
        self._arm(schedule)
        return schedule

    def get(self, schedule_id: str) -> Schedule:
        """The schedule; raises `NotFound`."""
        schedule = self._schedules.get(schedule_id)
        if schedule is None:
            raise NotFound("schedule not found")
        return schedule

    def after(self, number: int) -> list[Schedule]:
        """The schedules made after the one with this number, in order."""
        return [schedule for schedule in self._schedules.values() if schedule.number > number]

    def update(self, now: float, schedule_id: str, spec: ScheduleSpec) -> Schedule:
        """Replace what a schedule does. A new cadence skips what has not fired, and starts now.

        Raises `NotFound`, or `BadRequest` as `create` does.
        """
        schedule = self.get(schedule_id)
        if spec == schedule.spec:
            return schedule
        self._life.readers.require(spec.task.options)
        is_new_cadence = spec.cadence != schedule.spec.cadence
        if is_new_cadence:
            since = self._clock_of(spec, now)
            next_due = _first_due(spec, since)
            self._disarm(schedule)
            self._dispatcher.withdraw(now, schedule, CHANGED)
            schedule.since, schedule.next_due, schedule.resumed_at = since, next_due, None
            schedule.processed_times = ()
        schedule.spec = spec
        schedule.updated_at = now
        self._note(schedule)
        if is_new_cadence:
            self._arm(schedule)
        return schedule

    def delete(self, schedule_id: str) -> None:
        """Delete a schedule and its triggers that have not fired; its tasks go on. Raises `NotFound`."""
        schedule = self.get(schedule_id)
        self._disarm(schedule)
        self._dispatcher.drop(schedule)
        self._triggers.release_keys(schedule_id)
        del self._schedules[schedule_id]
        if self._life.changes is not None:
            self._life.changes.schedule_gone(schedule)
        # The triggers that are retained for a while refer to the schedule, and need no payload.
        schedule.spec = schedule.spec._replace(task=schedule.spec.task._replace(params=None, options=NO_OPTIONS))

    def pause(self, now: float, schedule_id: str) -> Schedule:
        """Stop a schedule from coming due, and skip what has not fired. Raises `NotFound`."""
        schedule = self.get(schedule_id)
        if not schedule.paused:
            self._disarm(schedule)
            schedule.paused = True
            schedule.updated_at = now
            self._note(schedule)
            self._dispatcher.withdraw(now, schedule, PAUSED)
        return schedule

    def resume(self, now: float, schedule_id: str, catch_up: CatchUp = CatchUp.NONE) -> Schedule:
        """End a pause; `catch_up` decides which of the due times in the pause fire. Raises `NotFound`."""
        schedule = self.get(schedule_id)
        if schedule.paused:
            schedule.paused = False
            schedule.updated_at = now
            self._note(schedule)
            schedule.resumed_at = self._clock_of(schedule.spec, now)
            schedule.after_pause = catch_up
            self._arm(schedule)
        return schedule

    def trigger(self, now: float, schedule_id: str, key: str | None = None, traceparent: str | None = None) -> Trigger:
        """Make a trigger that is due now, or return the schedule's trigger with this key.

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
        self._dispatcher.make_due_by_call(now, trigger)
        return trigger

    def get_trigger(self, trigger_id: str) -> Trigger:
        """The trigger; raises `NotFound`."""
        return self._triggers.get(trigger_id)

    def triggers_before(self, before: tuple[float, int] | None, schedule_id: str | None = None) -> Iterator[Trigger]:
        """The triggers before this due time and number, or all, of one schedule or of all, latest due first.

        Do not hold the iterator across a command.
        """
        return self._triggers.latest_first(before, schedule_id)

    def clock_of(self, schedule: Schedule, now: float) -> float:
        """The present time on the clock of a schedule's cadence."""
        return self._clock_of(schedule.spec, now)

    # Time

    def note_wall(self, now: float, wall: float) -> None:
        """Report the wall clock's time. If it was set back by more than a poll, due times by it are recomputed."""
        if abs(wall - now - self._wall_offset) > CLOCK_NOISE_SECS:
            self._wall_offset = wall - now
        self._wall_noted_at = now
        clock = now + self._wall_offset
        if clock >= self._latest_wall - self._life.limits.poll_secs:
            self._latest_wall = max(self._latest_wall, clock)
            return
        self._latest_wall = clock
        self._set_back_to = _whole_micros(clock)
        self._to_recompute.clear()
        for schedule in self._schedules.values():
            if schedule.spec.cadence.by_wall:
                self._resumed_by(schedule, self._set_back_to)
                self._to_recompute.append((schedule, schedule.since))
        for _ in range(MAX_RECOMPUTED_PER_CALL):
            if not self._recompute_one():
                break

    def next_due(self) -> float | None:
        """When `advance` has work, or the wall clock is to be reported again; None while nothing can come due."""
        if self._dispatcher.has_work or self._to_recompute:
            return 0.0
        steady, wall = self._steady_dues.next_tick(), self._wall_dues.next_tick()
        due = None if steady is None else steady / TICKS_PER_SECOND
        if wall is not None:
            poll = wall / TICKS_PER_SECOND - self._wall_offset
            if self.wall_may_jump:
                poll = min(poll, self._wall_noted_at + self._life.limits.poll_secs)
            due = poll if due is None else min(due, poll)
        return due

    def advance(self, now: float, max_items: int) -> bool:
        """Process due times, then fire triggers, `max_items` of both at most; whether more may be left."""
        return all(
            self._recompute_one() or self._process_due(now) or self._dispatcher.act_on_one(now)
            for _ in range(max_items)
        )

    def limits_changed(self) -> None:
        """Apply new limits."""
        self._dispatcher.limits_changed()

    def hold(self) -> None:
        """Fire nothing from now on: the scheduler drains."""
        self._dispatcher.on_hold = True

    # After a restart

    @property
    def last_numbers(self) -> tuple[int, int]:
        """The numbers of the last schedule and of the last trigger."""
        return self._last_number, self._triggers.last_number

    def continue_after(self, schedule: int, trigger: int) -> None:
        """Let numbers go on after these."""
        self._last_number = max(self._last_number, schedule)
        self._triggers.continue_after(trigger)

    def restore(self, schedule: Schedule) -> None:
        """Add a stored schedule, oldest first. `recover` follows once all schedules and triggers are there."""
        schedule.live, schedule.open, schedule.waiting, schedule.ready = {}, 0, None, []
        schedule.executing = schedule.queued = 0
        self._last_number = max(self._last_number, schedule.number)
        self._schedules[schedule.id] = schedule

    def restore_trigger(self, trigger: Trigger) -> None:
        """Add a stored trigger, after its schedule unless that was deleted; ended ones in the order of their ends."""
        trigger.arrived, trigger.fire_at, trigger.deferrals = False, None, 0
        schedule = trigger.schedule
        self._triggers.restore(trigger, self._schedules.get(schedule.id) is schedule)
        if trigger.ended_at is not None:
            self._triggers.retire(trigger)

    def recover(self, now: float) -> None:
        """Resume what was restored, once the tasks are there: executing and pending triggers, missed due times."""
        live = [trigger for trigger in self._triggers.latest_first(None, None) if trigger.ended_at is None]
        for trigger in reversed(live):
            self._dispatcher.adopt(now, trigger)
        for schedule in self._schedules.values():
            # The clock may show an earlier time than it did to the previous process.
            clock = self._clock_of(schedule.spec, now)
            self._resumed_by(schedule, clock)
            self._recompute_due(schedule, clock)
            self._arm(schedule)

    # Figures

    def take_events(self) -> list[TriggerEvent]:
        """The events of triggers since the last call, in order."""
        taken, self._dispatcher.events = self._dispatcher.events, []
        return taken

    def __len__(self) -> int:
        return len(self._schedules)

    @property
    def limited_by(self) -> str | None:
        """The configuration key whose limit makes triggers wait that are due; None if no limit does."""
        if self._life.ready.holds_triggered:
            return "maxConcurrent"
        return "maxQueuedTriggers" if self._dispatcher.is_limited else None

    @property
    def counters(self) -> TriggerCounters:
        """Counts of triggers since the start."""
        return self._dispatcher.counters

    def add_to(self, totals: Totals) -> None:
        """Add this namespace's figures to `totals`."""
        totals.schedules += len(self._schedules)
        totals.triggers_pending += self._dispatcher.pending
        totals.triggers_executing += self._dispatcher.executing
        totals.triggers.add(self._dispatcher.counters)

    # What comes due

    def _process_due(self, now: float) -> bool:
        """Process one due time of one schedule; False if none has come."""
        for dues, clock in ((self._steady_dues, now), (self._wall_dues, now + self._wall_offset)):
            tick = dues.next_tick()
            if tick is not None and tick <= int(clock * TICKS_PER_SECOND):
                schedule = dues.pop(tick)
                assert schedule.next_due is not None
                due = schedule.next_due
                reason, later = self._decide_missed(schedule, due, clock)
                following = later if reason is None else schedule.spec.cadence.next_after(due, schedule.since)
                schedule.processed_times = processed_times.add(schedule.processed_times, due, following)
                schedule.next_due = processed_times.first_unprocessed(schedule.processed_times, later)
                self._note(schedule)
                self._arm(schedule)
                trigger = self._triggers.new(now, schedule, due, f"{due * 1000:.0f}")
                if trigger is not None and reason is None:
                    self._dispatcher.make_due(now, trigger)
                elif trigger is not None:
                    self._dispatcher.skip(now, trigger, reason or "")
                return True
        return False

    def _recompute_one(self) -> bool:
        """Recompute one schedule after the wall clock was set back; False if none is left."""
        while self._to_recompute:
            schedule, since = self._to_recompute.popleft()
            is_same = schedule.since == since and schedule.spec.cadence.by_wall
            if is_same and self._schedules.get(schedule.id) is schedule:
                # From when the clock was set back: what has come due since then is not lost.
                self._recompute_due(schedule, self._set_back_to)
                return True
        return False

    def _recompute_due(self, schedule: Schedule, clock: float) -> None:
        """Find the next due time again: the clock may have gone back behind unprocessed due times before it."""
        if schedule.since > clock and not schedule.spec.cadence.by_wall:
            # An interval that starts in the future would start late.
            schedule.since, schedule.processed_times = clock, ()
            self._note(schedule)
        following = schedule.spec.cadence.next_after(clock, schedule.since)
        due = processed_times.first_unprocessed(schedule.processed_times, following)
        if due is not None and (schedule.next_due is None or due < schedule.next_due):
            self._disarm(schedule)
            schedule.next_due = due
            self._note(schedule)
            self._arm(schedule)

    def _decide_missed(self, schedule: Schedule, due: float, clock: float) -> tuple[str | None, float | None]:
        """Decide a due time that has come: the reason to skip it, None to fire it; and the schedule's next due time.

        Missed due times that do not fire are passed over together after the first of them: after a long outage a
        schedule of every second must cost no more than a daily one.
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
            if due > window_from and len(schedule.live) >= MAX_MISSED_PER_SCHEDULE:
                return TOO_MANY, cadence.next_after(min(until, on_time_from), since)
            if due > window_from:
                return None, cadence.next_after(due, since)
            return reason, cadence.next_after(window_from, since)
        if policy is CatchUp.LAST:
            # The last one that was missed: one that is on time fires besides.
            last = cadence.last_until(min(until, nextafter(on_time_from, -inf)), since)
            return (None, cadence.next_after(due, since)) if last is None or last <= due else (reason, last)
        last = cadence.last_until(until, since)
        if last is not None and last > due and last >= on_time_from:
            return reason, last
        return reason, cadence.next_after(until, since)

    def _clock_of(self, spec: ScheduleSpec, now: float) -> float:
        return _whole_micros(now + self._wall_offset if spec.cadence.by_wall else now)

    def _dues_of(self, schedule: Schedule) -> TimerQueue[Schedule]:
        return self._wall_dues if schedule.spec.cadence.by_wall else self._steady_dues

    def _arm(self, schedule: Schedule) -> None:
        if schedule.next_due is not None and not schedule.paused:
            self._dues_of(schedule).add(schedule.next_due, schedule)

    def _disarm(self, schedule: Schedule) -> None:
        if schedule.next_due is not None:
            self._dues_of(schedule).remove(schedule.next_due, schedule)

    def _note(self, schedule: Schedule) -> None:
        """Tell the store, if there is one, that the schedule changed."""
        if self._life.changes is not None:
            self._life.changes.schedules[schedule] = None

    def _resumed_by(self, schedule: Schedule, clock: float) -> None:
        """A resume under a clock that was ahead counts as one at `clock`."""
        if schedule.resumed_at is not None and clock < schedule.resumed_at:
            schedule.resumed_at = clock
            self._note(schedule)


def _first_due(spec: ScheduleSpec, since: float) -> float:
    next_due = spec.cadence.next_after(since, since)
    if next_due is None:
        raise BadRequest("at: must be in the future")
    return next_due


def _whole_micros(clock: float) -> float:
    """Rounded to microseconds, halves up, as responses show times: a time that a caller sends back stays equal."""
    return floor(clock * 1e6 + 0.5) / 1e6
