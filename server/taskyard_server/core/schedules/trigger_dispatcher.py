"""The way of triggers: spread by jitter, checked for overlap, fired as a task, ended with that task.

A trigger *arrives* when its delay by jitter is over and the overlap policy lets it go on. From then until its end it is
open. An open trigger fires when `TriggerQueue` comes to it; its task takes one of `max_concurrent` places only once it
is dispatched (docs/rules.md, Trigger places).

This file does not know cadences or due times; `registry.py` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from taskyard_server.core.errors import Refusal
from taskyard_server.core.leases import StopReason
from taskyard_server.core.stats import TriggerCounters
from taskyard_server.core.task import CANCELLED, DONE, TERMINAL, WAITING, Submission, Task
from taskyard_server.core.task_options import IdempotencyKey
from taskyard_server.core.timers import TICKS_PER_SECOND, TimerOrder

from .schedule import (
    LEGAL,
    Overlap,
    Schedule,
    Trigger,
    TriggerEvent,
    TriggerEventKind,
    TriggerState,
)
from .trigger_queue import TriggerQueue
from .trigger_store import TriggerStore

if TYPE_CHECKING:
    from taskyard_server.core.lifecycle import Lifecycle

PENDING, EXECUTING, COMPLETED = TriggerState.PENDING, TriggerState.EXECUTING, TriggerState.COMPLETED
FAILED, SKIPPED = TriggerState.FAILED, TriggerState.SKIPPED

TICK_SECS: Final = 1 / TICKS_PER_SECOND
# Not Final: mypyc would compile the value in, and tests lower it.
MAX_OPEN_PER_SCHEDULE = 1_000
"""Maximum open triggers of one schedule, under any overlap policy."""
FIRST_DEFERRAL_SECS: Final = 1.0
MAX_DEFERRAL_DOUBLINGS: Final = 5
MAX_DEFERRAL_SECS: Final = 30.0
"""A trigger that meets a full queue is tried again after the first delay, which doubles each time up to the maximum."""
TRIGGER_FINGERPRINT: Final = b"trigger"
"""The fingerprint under the key of a trigger's task. The key is the trigger's id, which alone identifies the task."""
MAX_FIRED_PER_CALL: Final = 50
"""Maximum triggers that fire at once when a call makes one; `act_on_one` fires the others."""

OVERLAPS: Final = "an earlier trigger of the schedule has not ended"
TOO_MANY: Final = f"{MAX_OPEN_PER_SCHEDULE} triggers of the schedule have not ended"
REPLACED: Final = "replaced by a later trigger of its schedule"
TASK_GONE: Final = "its task is gone"


class TriggerDispatcher:
    """The triggers of one namespace that have not ended.

    `admit` makes the task of a trigger, None if a queue is full. `pending` and `executing` count the triggers in those
    states. While `on_hold` nothing fires. `events` holds what has happened until `ScheduleRegistry.take_events`.
    """

    def __init__(
        self,
        life: Lifecycle,
        admit: Callable[[float, Submission], Task | None],
        triggers: TriggerStore,
        entropy: Callable[[], int],
    ) -> None:
        self._life = life
        self._admit = admit
        self._triggers = triggers
        self._entropy = entropy
        self.counters = TriggerCounters()
        self.events: list[TriggerEvent] = []
        self.pending = 0
        self.executing = 0
        self.on_hold = False
        self._unspread: list[Trigger] = []
        self._queue = TriggerQueue(life.limits.max_queued_triggers)
        self._delays = life.timers.queue(self._on_delay_end, TimerOrder.TRIGGER_DELAY)
        life.triggered.on_end = self._on_task_end
        life.triggered.on_queued = self._on_task_queued

    # From due to arrived

    def make_due(self, now: float, trigger: Trigger) -> None:
        """Add a trigger that a due time made; it is spread together with all that come due at the same moment."""
        self._add_pending(now, trigger)
        self._unspread.append(trigger)

    def make_due_by_call(self, now: float, trigger: Trigger) -> None:
        """Add a trigger that a call made; it is not spread, and fires at once if it may."""
        self._add_pending(now, trigger)
        self._arrive(now, trigger)
        for _ in range(MAX_FIRED_PER_CALL):
            if not self._fire_one(now):
                break

    def skip(self, now: float, trigger: Trigger, reason: str) -> None:
        """Add a trigger that is skipped as soon as it is due."""
        self._add_pending(now, trigger)
        self._end(now, trigger, SKIPPED, reason)

    def withdraw(self, now: float, schedule: Schedule, reason: str) -> None:
        """Skip the triggers of a schedule that a due time made and that have not fired."""
        for trigger in list(schedule.live):
            if trigger.state is PENDING and not trigger.by_call:
                self._end(now, trigger, SKIPPED, reason)

    def drop(self, schedule: Schedule) -> None:
        """Drop the triggers that have not fired of a schedule that is deleted."""
        schedule.waiting = None
        for trigger in list(schedule.live):
            if trigger.state is PENDING:
                self._leave_pending(trigger)
                # It may still be in `_unspread`, which passes over triggers that are not pending.
                trigger.state = SKIPPED
                del schedule.live[trigger]
                self._triggers.forget(trigger)

    def adopt(self, now: float, trigger: Trigger) -> None:
        """Resume a trigger that was restored after a restart (docs/rules.md, Recovery)."""
        schedule = trigger.schedule
        if trigger.task_id is None:
            # Its task exists if the previous process ended between making it and recording it in the trigger.
            task = self._life.tasks.by_key.get((schedule.spec.task.agent_id, trigger.id))
        else:
            task = self._life.tasks.get(trigger.task_id)
        schedule.live[trigger] = None
        if trigger.state is PENDING and task is None:
            self.pending += 1
            self._unspread.append(trigger)
            return
        schedule.open += 1
        trigger.arrived = True
        self._count_executing(schedule, 1, task is not None and task.state in WAITING)
        if trigger.state is PENDING and task is not None:
            self._transition(trigger, EXECUTING)
            trigger.fired_at = schedule.last_fired_at = task.created_at
            trigger.task_id = schedule.last_task_id = task.id
            self._note_schedule(schedule)
            self._emit(now, trigger, TriggerEventKind.CLAIMED)
        if task is None:
            self._end(now, trigger, FAILED, TASK_GONE)
        elif task.state in TERMINAL:
            self._end_with_task(now, trigger, task)
        else:
            self._life.triggered.triggers[task] = trigger

    def limits_changed(self) -> None:
        """Apply new limits."""
        self._queue.set_max_queued(self._life.limits.max_queued_triggers)

    # With time

    @property
    def has_work(self) -> bool:
        """True if `act_on_one` has something to do now."""
        return bool(self._unspread or self._can_fire)

    @property
    def is_limited(self) -> bool:
        """True if triggers that have arrived wait because their schedule has `max_queued_triggers` queued tasks."""
        return not self.on_hold and self._queue.is_limited

    @property
    def _can_fire(self) -> bool:
        return bool(self._queue) and not self.on_hold

    def act_on_one(self, now: float) -> bool:
        """Spread the triggers that have come due, or fire one; False if there is nothing to do.

        Call only while no due time is left to process, so that all triggers of one moment are spread together.
        """
        if self._unspread:
            self._spread(now)
            return True
        return self._fire_one(now)

    def _spread(self, now: float) -> None:
        """Delay triggers at random, if more than `jitter_threshold` came due at one moment.

        Delays are up to `max_jitter_secs`, and end before the next due time of the schedule. Triggers of one schedule
        keep the order of their due times, and stay behind those that were delayed before.
        """
        limits = self._life.limits
        fresh = sorted(
            (trigger.due_at, trigger.number, trigger) for trigger in self._unspread if trigger.state is PENDING
        )
        self._unspread = []
        spread = len(fresh) > limits.jitter_threshold
        fractions = sorted(self._entropy() / 2**40 for _ in fresh) if spread else [0.0] * len(fresh)
        count_by_schedule = Counter([trigger.schedule for _, _, trigger in fresh])
        last_delay_end = {schedule: _last_delay_end(schedule) for schedule in count_by_schedule}
        delayed: list[tuple[float, Trigger]] = []
        for (due_at, _, trigger), fraction in zip(fresh, fractions, strict=True):
            schedule, max_delay = trigger.schedule, limits.max_jitter_secs
            if count_by_schedule[schedule] == 1 and schedule.next_due is not None:
                max_delay = min(max_delay, max(0.0, schedule.next_due - due_at))
            delay = fraction * max_delay
            if (last := last_delay_end[schedule]) is not None:
                # One tick later: timers do not order the items of one tick.
                delay = max(delay, last - now + TICK_SECS)
            if delay:
                delayed.append((now + delay, trigger))
            else:
                self._arrive(now, trigger)
        # Of the items of one tick, a timer queue acts on the last added first.
        for until, trigger in reversed(delayed):
            self._delay_until(trigger, until)

    def _on_delay_end(self, now: float, trigger: Trigger) -> None:
        """Act on a trigger whose delay is over, by jitter or by a full queue."""
        trigger.fire_at = None
        if trigger.arrived:
            self._queue.add(trigger)
        else:
            self._arrive(now, trigger)

    def _arrive(self, now: float, trigger: Trigger) -> None:
        """Apply the overlap policy: the trigger becomes open, waits for the open ones, or is skipped."""
        schedule = trigger.schedule
        overlap = schedule.spec.overlap
        if schedule.open and overlap is Overlap.SKIP:
            self._end(now, trigger, SKIPPED, OVERLAPS)
            return
        if schedule.open and overlap is Overlap.WAIT:
            if schedule.waiting is not None:
                self._end(now, trigger, SKIPPED, OVERLAPS)
            else:
                schedule.waiting = trigger
            return
        if schedule.open and overlap is Overlap.REPLACE:
            if any(other.by_call and other.arrived and other.due_at > trigger.due_at for other in schedule.live):
                # A trigger by call is not delayed by jitter, so one that is due later may have arrived before.
                self._end(now, trigger, SKIPPED, REPLACED)
                return
            self._replace_open(now, schedule, trigger)
        if schedule.open >= MAX_OPEN_PER_SCHEDULE:
            self._end(now, trigger, SKIPPED, TOO_MANY)
            return
        trigger.arrived = True
        schedule.open += 1
        self._queue.add(trigger)

    def _replace_open(self, now: float, schedule: Schedule, successor: Trigger) -> None:
        """Skip or cancel the open triggers of a schedule, for the one that replaces them."""
        if schedule.waiting is not None:
            # The policy was `wait` when it arrived. Skipped first, since it goes on as soon as no trigger is open.
            self._end(now, schedule.waiting, SKIPPED, REPLACED)
        for trigger in list(schedule.live):
            if trigger is successor or not trigger.arrived:
                continue
            if trigger.state is PENDING:
                self._end(now, trigger, SKIPPED, REPLACED)
            else:
                assert trigger.task_id is not None
                task = self._life.tasks.get(trigger.task_id)
                assert task is not None
                self._life.finish(now, task, CANCELLED, None, REPLACED, StopReason.CANCELLED)

    def _fire_one(self, now: float) -> bool:
        """Fire the next trigger; False if none may."""
        if not self._can_fire:
            return False
        self._fire(now, self._queue.next())
        return True

    def _fire(self, now: float, trigger: Trigger) -> None:
        """Submit the task of a trigger; a full queue defers the trigger, any other refusal fails it."""
        schedule = trigger.schedule
        spec = schedule.spec
        key = IdempotencyKey(trigger.id, TRIGGER_FINGERPRINT)
        submission = spec.task._replace(
            deadline=None if spec.deadline_secs is None else now + spec.deadline_secs,
            options=spec.task.options._replace(key=key, traceparent=trigger.traceparent, trigger_id=trigger.id),
        )
        try:
            task = self._admit(now, submission)
        except Refusal as refusal:
            self._end(now, trigger, FAILED, refusal.message)
            return
        if task is None:
            self._defer(now, trigger)
            return
        self._leave_pending(trigger)
        self._transition(trigger, EXECUTING)
        self._count_executing(schedule, 1, task.state in WAITING)
        trigger.fired_at = schedule.last_fired_at = now
        trigger.task_id = schedule.last_task_id = task.id
        self._note_schedule(schedule)
        self.counters.fired += 1
        self._life.triggered.triggers[task] = trigger
        self._emit(now, trigger, TriggerEventKind.CLAIMED)

    def _defer(self, now: float, trigger: Trigger) -> None:
        """Try again later: a queue is full."""
        delay = min(FIRST_DEFERRAL_SECS * 2 ** min(trigger.deferrals, MAX_DEFERRAL_DOUBLINGS), MAX_DEFERRAL_SECS)
        trigger.deferrals += 1
        self._queue.remove(trigger)
        self._delay_until(trigger, now + delay)
        self.counters.deferred += 1
        self._emit(now, trigger, TriggerEventKind.DEFERRED)

    # To the end

    def _on_task_end(self, now: float, task: Task) -> None:
        """End an executing trigger whose task has ended."""
        self._end_with_task(now, self._life.triggered.triggers.pop(task), task)

    def _end_with_task(self, now: float, trigger: Trigger, task: Task) -> None:
        if task.state is DONE:
            self._end(now, trigger, COMPLETED, None)
        else:
            self._end(now, trigger, FAILED, task.error or f"its task was {task.state.value}")

    def _end(self, now: float, trigger: Trigger, state: TriggerState, reason: str | None) -> None:
        schedule = trigger.schedule
        if trigger.state is PENDING:
            self._leave_pending(trigger)
        else:
            self._count_executing(schedule, -1)
        self._transition(trigger, state)
        trigger.ended_at = now
        trigger.reason = reason
        counters = self.counters
        setattr(counters, state.value, getattr(counters, state.value) + 1)
        self._emit(now, trigger, TriggerEventKind(state.value))
        del schedule.live[trigger]
        self._triggers.retire(trigger)
        if schedule.waiting is trigger:
            schedule.waiting = None
        elif trigger.arrived:
            schedule.open -= 1
            self._release_waiting(now, schedule)

    def _release_waiting(self, now: float, schedule: Schedule) -> None:
        """Let the waiting trigger arrive if no other one is open."""
        waiting = schedule.waiting
        if waiting is not None and not schedule.open:
            schedule.waiting = None
            self._arrive(now, waiting)

    # The steps that these share

    def _add_pending(self, now: float, trigger: Trigger) -> None:
        trigger.schedule.live[trigger] = None
        self.pending += 1
        self._emit(now, trigger, TriggerEventKind.DUE)

    def _delay_until(self, trigger: Trigger, until: float) -> None:
        trigger.fire_at = until
        self._delays.add(until, trigger)

    def _leave_pending(self, trigger: Trigger) -> None:
        """Count a trigger as pending no longer, and take it out of the delays or the queue."""
        self.pending -= 1
        if trigger.fire_at is not None:
            self._delays.remove(trigger.fire_at, trigger)
            trigger.fire_at = None
        elif trigger.arrived:
            self._queue.remove(trigger)

    def _count_executing(self, schedule: Schedule, executing: int, queued: int = 0) -> None:
        self.executing += executing
        self._queue.adjust_counts(schedule, executing, queued)

    def _on_task_queued(self, trigger: Trigger, queued: int) -> None:
        """Count the task of a trigger as queued again (1), or as dispatched or ended (-1)."""
        self._queue.adjust_counts(trigger.schedule, 0, queued)

    def _transition(self, trigger: Trigger, state: TriggerState) -> None:
        assert state in LEGAL[trigger.state], f"{trigger.id} is {trigger.state} and cannot become {state}"
        trigger.state = state

    def _emit(self, now: float, trigger: Trigger, kind: TriggerEventKind) -> None:
        self.events.append(TriggerEvent(now, kind, trigger))
        if self._life.changes is not None:
            self._life.changes.triggers[trigger] = None

    def _note_schedule(self, schedule: Schedule) -> None:
        """Tell the store, if there is one, that a trigger of the schedule fired; a deleted one is gone from it."""
        if self._life.changes is not None and schedule.number:
            self._life.changes.schedules[schedule] = None


def _last_delay_end(schedule: Schedule) -> float | None:
    """When the last delay by jitter of a schedule's triggers ends, None if there is none."""
    return max((each.fire_at for each in schedule.live if each.fire_at is not None and not each.arrived), default=None)
