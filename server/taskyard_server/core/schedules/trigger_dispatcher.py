"""What becomes of triggers: spread by jitter, held up by an overlap, fired as a task, ended with it.

A trigger whose time has come has *arrived*. It is open until it has ended, and waits for its turn to take one of
`max_concurrent` places (scheduler-daemon, Claiming).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from taskyard_server.core.errors import Refusal
from taskyard_server.core.leases import StopReason
from taskyard_server.core.stats import TriggerCounters
from taskyard_server.core.task import CANCELLED, DONE, TERMINAL, WAITING, IdempotencyKey, Submission, Task
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
# Not Final, which would compile it in: tests lower it.
MAX_OPEN = 1_000
"""So many triggers of one schedule may be open, whatever its overlap policy."""
MAX_FIRED_PER_CALL: Final = 50
"""Triggers that fire at once when a call makes one; `act_on_one` fires the others."""
FIRST_DELAY_SECS: Final = 1.0
MOST_DOUBLINGS: Final = 5
LONGEST_DELAY_SECS: Final = 30.0
"""A full queue is looked at again after the first delay, then after twice as long each time, up to the longest."""
BY_TRIGGER: Final = b"trigger"
"""The fingerprint of a trigger's task: its id alone tells what it is."""

OVERLAPS: Final = "an earlier trigger of the schedule has not ended"
TOO_MANY: Final = f"{MAX_OPEN} triggers of the schedule have not ended"
REPLACED: Final = "replaced by a later trigger of its schedule"
TASK_GONE: Final = "its task is gone"


class TriggerDispatcher:
    """The triggers of one namespace that have not ended. `admit` makes the task of
    a trigger, None where the queue is full."""

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
        self._fresh: list[Trigger] = []
        self._queue = TriggerQueue(life.limits.max_queued_triggers)
        self._delays = life.timers.queue(self._on_time, TimerOrder.TRIGGER_DELAY)
        life.on_triggered_end = self._on_end
        life.on_triggered_queued = self._on_queued

    # From due to arrived

    def come_due(self, now: float, trigger: Trigger) -> None:
        """A new trigger; it is spread together with all that come due at this moment."""
        self._take_in(now, trigger)
        self._fresh.append(trigger)

    def come_due_by_call(self, now: float, trigger: Trigger) -> None:
        """A new trigger that does not wait for others."""
        self._take_in(now, trigger)
        self._arrive(now, trigger)
        for _ in range(MAX_FIRED_PER_CALL):
            if not self._fire_one(now):
                break

    def never_fire(self, now: float, trigger: Trigger, reason: str) -> None:
        """A new trigger that is skipped as soon as it is due."""
        self._take_in(now, trigger)
        self._end(now, trigger, SKIPPED, reason)

    def withdraw(self, now: float, schedule: Schedule, reason: str) -> None:
        """Skip what came due by itself and has not fired."""
        for trigger in list(schedule.live):
            if trigger.state is PENDING and not trigger.by_call:
                self._end(now, trigger, SKIPPED, reason)

    def drop(self, schedule: Schedule) -> None:
        """Forget what has not fired: the schedule is deleted."""
        schedule.waiting = None
        for trigger in list(schedule.live):
            if trigger.state is PENDING:
                self._leave_pending(trigger)
                # Where it waits to be spread it counts as ended.
                trigger.state = SKIPPED
                del schedule.live[trigger]
                self._triggers.forget(trigger)

    def take_up(self, now: float, trigger: Trigger) -> None:
        """Go on with a trigger that was kept over a restart (scheduler-daemon, Reboot Recovery)."""
        schedule = trigger.schedule
        if trigger.task_id is None:
            # Its task may exist all the same, if the end came between the two.
            task = self._life.keys.get((schedule.spec.task.agent_id, trigger.id))
        else:
            task = self._life.tasks.get(trigger.task_id)
        schedule.live[trigger] = None
        if trigger.state is PENDING and task is None:
            self.pending += 1
            self._fresh.append(trigger)
            return
        schedule.open += 1
        trigger.arrived = True
        self._count_executing(schedule, 1, task is not None and task.state in WAITING)
        if trigger.state is PENDING and task is not None:
            self._become(trigger, EXECUTING)
            trigger.fired_at = schedule.last_fired_at = task.created_at
            trigger.task_id = schedule.last_task_id = task.id
            self._emit(now, trigger, TriggerEventKind.CLAIMED)
        if task is None:
            self._end(now, trigger, FAILED, TASK_GONE)
        elif task.state in TERMINAL:
            self._end_with(now, trigger, task)
        else:
            self._life.triggered[task] = trigger

    def limits_changed(self) -> None:
        """Other limits hold."""
        self._queue.set_max_queued(self._life.limits.max_queued_triggers)

    # With time

    @property
    def has_work(self) -> bool:
        """Whether `act_on_one` has something to do at once."""
        return bool(self._fresh or self._may_fire)

    @property
    def is_held_up(self) -> bool:
        """Whether triggers that have arrived wait because too many tasks of their schedule are queued."""
        return not self.on_hold and self._queue.is_held_up

    @property
    def _may_fire(self) -> bool:
        return bool(self._queue) and not self.on_hold

    def act_on_one(self, now: float) -> bool:
        """Spread what has come due, once no more is due, or fire one trigger; False if there is nothing to do."""
        if self._fresh:
            self._spread(now)
            return True
        return self._fire_one(now)

    def _spread(self, now: float) -> None:
        """More than `jitter_threshold` at once are spread over `max_jitter_secs`, or until a schedule's next due time.

        Those of one schedule keep the order of their due times, also behind those that were spread before.
        """
        limits = self._life.limits
        fresh = sorted((trigger.due_at, trigger.number, trigger) for trigger in self._fresh if trigger.state is PENDING)
        self._fresh = []
        spread = len(fresh) > limits.jitter_threshold
        parts = sorted(self._entropy() / 2**40 for _ in fresh) if spread else [0.0] * len(fresh)
        of_schedule = Counter([trigger.schedule for _, _, trigger in fresh])
        last_spread = {schedule: _last_spread(schedule) for schedule in of_schedule}
        put_off: list[tuple[float, Trigger]] = []
        for (due_at, _, trigger), part in zip(fresh, parts, strict=True):
            schedule, most = trigger.schedule, limits.max_jitter_secs
            if of_schedule[schedule] == 1 and schedule.next_due is not None:
                most = min(most, max(0.0, schedule.next_due - due_at))
            delay = part * most
            if (last := last_spread[schedule]) is not None:
                # A tick later, since what is due in one tick comes in no order.
                delay = max(delay, last - now + TICK_SECS)
            if delay:
                put_off.append((now + delay, trigger))
            else:
                self._arrive(now, trigger)
        # Of those whose delays end in one tick the last that was put off goes first.
        for until, trigger in reversed(put_off):
            self._put_off(trigger, until)

    def _on_time(self, now: float, trigger: Trigger) -> None:
        trigger.fire_at = None
        if trigger.arrived:
            self._queue.add(trigger)
        else:
            self._arrive(now, trigger)

    def _arrive(self, now: float, trigger: Trigger) -> None:
        """Its time has come: what the overlap policy makes of it."""
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
                # A call, which waits for nobody, made one that is due later.
                self._end(now, trigger, SKIPPED, REPLACED)
                return
            self._clear_the_way(now, schedule, trigger)
        if schedule.open >= MAX_OPEN:
            self._end(now, trigger, SKIPPED, TOO_MANY)
            return
        trigger.arrived = True
        schedule.open += 1
        self._queue.add(trigger)

    def _clear_the_way(self, now: float, schedule: Schedule, successor: Trigger) -> None:
        if schedule.waiting is not None:
            # It waits since the policy was another one, and would go on as soon as those before it are gone.
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
        if not self._may_fire:
            return False
        self._fire(now, self._queue.next())
        return True

    def _fire(self, now: float, trigger: Trigger) -> None:
        schedule = trigger.schedule
        spec = schedule.spec
        key = IdempotencyKey(trigger.id, BY_TRIGGER)
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
        self._become(trigger, EXECUTING)
        self._count_executing(schedule, 1, task.state in WAITING)
        trigger.fired_at = schedule.last_fired_at = now
        trigger.task_id = schedule.last_task_id = task.id
        self.counters.fired += 1
        self._life.triggered[task] = trigger
        self._emit(now, trigger, TriggerEventKind.CLAIMED)

    def _defer(self, now: float, trigger: Trigger) -> None:
        """The queue is full: try again later."""
        delay = min(FIRST_DELAY_SECS * 2 ** min(trigger.put_off, MOST_DOUBLINGS), LONGEST_DELAY_SECS)
        trigger.put_off += 1
        self._queue.remove(trigger)
        self._put_off(trigger, now + delay)
        self.counters.deferred += 1
        self._emit(now, trigger, TriggerEventKind.DEFERRED)

    # To the end

    def _on_end(self, now: float, task: Task) -> None:
        """The task of an executing trigger has ended."""
        self._end_with(now, self._life.triggered.pop(task), task)

    def _end_with(self, now: float, trigger: Trigger, task: Task) -> None:
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
        self._become(trigger, state)
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
            self._let_next_in(now, schedule)

    def _let_next_in(self, now: float, schedule: Schedule) -> None:
        """The one that waits goes on, once no earlier one is open."""
        waiting = schedule.waiting
        if waiting is not None and not schedule.open:
            schedule.waiting = None
            self._arrive(now, waiting)

    # The steps that these share

    def _take_in(self, now: float, trigger: Trigger) -> None:
        trigger.schedule.live[trigger] = None
        self.pending += 1
        self._emit(now, trigger, TriggerEventKind.DUE)

    def _put_off(self, trigger: Trigger, until: float) -> None:
        trigger.fire_at = until
        self._delays.add(until, trigger)

    def _leave_pending(self, trigger: Trigger) -> None:
        self.pending -= 1
        if trigger.fire_at is not None:
            self._delays.remove(trigger.fire_at, trigger)
            trigger.fire_at = None
        elif trigger.arrived:
            self._queue.remove(trigger)

    def _count_executing(self, schedule: Schedule, executing: int, queued: int = 0) -> None:
        self.executing += executing
        self._queue.count(schedule, executing, queued)

    def _on_queued(self, trigger: Trigger, queued: int) -> None:
        """The task of a trigger was handed out, ended or is queued again."""
        self._queue.count(trigger.schedule, 0, queued)

    def _become(self, trigger: Trigger, state: TriggerState) -> None:
        assert state in LEGAL[trigger.state], f"{trigger.id} is {trigger.state} and cannot become {state}"
        trigger.state = state

    def _emit(self, now: float, trigger: Trigger, kind: TriggerEventKind) -> None:
        self.events.append(TriggerEvent(now, kind, trigger))


def _last_spread(schedule: Schedule) -> float | None:
    """When the last of those goes on that jitter has put off, None if there is none."""
    return max((its.fire_at for its in schedule.live if its.fire_at is not None and not its.arrived), default=None)
