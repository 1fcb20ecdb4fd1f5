"""Naive schedules of one namespace, written from the proto comments and docs/rules.md alone.

Each method is one command, which also takes the tape of what the core told, and must use it up. The model knows nothing
of how the core stores things: due times are found by looking at every schedule.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from math import floor, inf, nextafter

from .event_tape import Entry, OfTask, OfTrigger, Ticks, tick_of
from .model_dispatcher import ModelFiring
from .model_records import CHANGED, MISSED, PAUSED, Bounds, Plan, Refused, Shot, Wish

MOST_FIRED_BY_A_CALL = 50
"""What else may fire then does so with the next `advance`."""

AT_ONCE = 50
"""One call of `advance` deals with so many due times and triggers at most."""
NOISE = 0.01
"""By so many seconds the wall clock may seem to go another way."""


class Model:
    """The front door. `cursor_of` is where the core's cursor of a schedule stands, where the order is its choice."""

    def __init__(
        self,
        limits: dict[str, float],
        bounds: Bounds,
        delay_of: Callable[[str], float | None],
        number_of: Callable[[str], int],
        cursor_of: Callable[[str], float | None],
    ) -> None:
        self.limits = limits
        self.plans: dict[str, Plan] = {}
        self.firing = ModelFiring(limits, bounds, delay_of)
        self.skew = self.looked_at = 0.0
        self.latest = -inf
        self.given: Counter[str] = self.firing.given
        self._number_of = number_of
        self._cursor_of = cursor_of

    def clock(self, wish: Wish, now: float) -> float:
        return now + self.skew if wish.cadence.by_wall else now

    def shown(self, wish: Wish, now: float) -> float:
        """The clock as a record shows it, in whole microseconds."""
        return floor(self.clock(wish, now) * 1e6 + 0.5) / 1e6

    def note_wall(self, now: float, wall: float) -> None:
        if abs(wall - now - self.skew) > NOISE:
            self.skew = wall - now
        self.looked_at = now
        clock = now + self.skew
        is_set_back = clock < self.latest - self.limits["poll_secs"]
        self.latest = clock if is_set_back else max(self.latest, clock)
        if is_set_back:
            self.given["the wall clock was set back"] += 1
            for plan in self.plans.values():
                if plan.wish.cadence.by_wall:
                    self._look_anew(now, plan)

    def recover(self, now: float) -> None:
        """After a restart both clocks may show any time."""
        for plan in self.plans.values():
            self._look_anew(now, plan)

    def _look_anew(self, now: float, plan: Plan) -> None:
        """The first time to come that was not dealt with is next, unless another one is still to be dealt with."""
        clock = self.shown(plan.wish, now)
        plan.resumed_at = None if plan.resumed_at is None else min(plan.resumed_at, clock)
        if not plan.wish.cadence.by_wall and plan.since > clock:
            self.given["an interval begins anew"] += 1
            plan.since = clock
            plan.dealt.clear()
        first = self._new_from(plan, plan.wish.cadence.next_after(clock, plan.since))
        if first is not None and (plan.cursor is None or first < plan.cursor):
            self.given["a time that was leaped over is to come"] += 1
            plan.cursor = first

    def _new_from(self, plan: Plan, at: float | None) -> float | None:
        """The first due time from this one on that was not dealt with."""
        while at is not None and at in plan.dealt:
            at = plan.wish.cadence.next_after(at, plan.since)
        return at

    # Commands

    def create(self, now: float, schedule_id: str | None, wish: Wish, paused: bool, chosen: str | None) -> Plan:
        """`chosen` is the id that the core gave."""
        first = self.plans.get(schedule_id or "")
        if first is not None:
            if (first.wish, first.paused) != (wish, paused):
                raise Refused("already_exists")
            return first
        if self.firing.hold:
            raise Refused("unavailable")
        if len(self.plans) >= self.limits["max_schedules"]:
            raise Refused("queue_full")
        since = self.shown(wish, now)
        cursor = self._first(wish, since)
        plan = Plan(schedule_id or chosen or "?", wish, now, now, since, cursor, paused)
        self.plans[plan.id] = plan
        return plan

    def get(self, schedule_id: str) -> Plan:
        if schedule_id not in self.plans:
            raise Refused("not_found")
        return self.plans[schedule_id]

    def update(self, now: float, schedule_id: str, wish: Wish) -> Plan:
        plan = self.get(schedule_id)
        if wish == plan.wish:
            return plan
        if wish.cadence != plan.wish.cadence:
            since = self.shown(wish, now)
            cursor = self._first(wish, since)
            self.firing.skip(now, plan, CHANGED)
            plan.since, plan.cursor, plan.resumed_at = since, cursor, None
            plan.dealt.clear()
        plan.wish, plan.updated_at = wish, now
        return plan

    def delete(self, schedule_id: str) -> None:
        self.firing.drop(self.get(schedule_id))
        del self.plans[schedule_id]

    def pause(self, now: float, schedule_id: str) -> Plan:
        plan = self.get(schedule_id)
        if not plan.paused:
            plan.paused, plan.updated_at = True, now
            self.firing.skip(now, plan, PAUSED)
        return plan

    def resume(self, now: float, schedule_id: str, catch_up: str) -> Plan:
        plan = self.get(schedule_id)
        if plan.paused:
            plan.paused, plan.updated_at = False, now
            plan.resumed_at, plan.after_pause = self.shown(plan.wish, now), catch_up
        return plan

    def trigger(self, now: float, schedule_id: str, key: str | None) -> Shot:
        plan, firing = self.get(schedule_id), self.firing
        first = None if key is None else firing.known(schedule_id, key)
        if first is not None:
            return first
        if firing.hold:
            raise Refused("unavailable")
        shot = self._new(plan, self.shown(plan.wish, now), key)
        firing.come(now, shot)
        firing.arrive(now, shot)
        for _ in range(MOST_FIRED_BY_A_CALL):
            if firing.may_fire():
                firing.fire(now)
        return shot

    def tasks_changed(self, now: float) -> None:
        """A command to tasks: what it did to them."""
        while isinstance(head := self.firing.head(), OfTask):
            self.firing.happened(now, head, take=True)

    def used_up(self) -> None:
        """The core tells no more than it should."""
        if self.firing.tape:
            raise AssertionError(f"the core tells {self.firing.tape[0]!r}, expected no more")

    # Time

    def advance(self, now: float, most: int, ticks: Ticks, more: bool) -> None:
        """What a call that answered `more` must have done."""
        acts = self._let_time_pass(now, most, ticks)
        steps = self._take_steps(now, min(most, AT_ONCE), more)
        if not more:
            if acts == most or steps == min(most, AT_ONCE):
                raise AssertionError(f"advance did {acts} and {steps} things of {most}, and says that no more is due")
            self.firing.left_over &= self.firing.hold
        elif acts < most and steps < min(most, AT_ONCE) and not self.firing.left_over:
            raise AssertionError(f"advance did {acts} and {steps} things of {most}, and says that more is due")

    def due(self, now: float) -> list[Plan]:
        """The schedules that have a due time which has come."""
        return [
            plan
            for plan in self.plans.values()
            if plan.cursor is not None and not plan.paused and tick_of(plan.cursor) <= self.clock(plan.wish, now) * 8
        ]

    def next_due(self) -> float | None:
        """When the schedules want to be looked at, None if never, 0 if at once; delays are told by the whole core."""
        if self.firing.may_fire() or self.firing.at("fresh"):
            return 0.0
        active = [plan for plan in self.plans.values() if plan.cursor is not None and not plan.paused]
        dues = [tick_of(plan.cursor or 0) / 8 - (self.skew if plan.wish.cadence.by_wall else 0) for plan in active]
        if any(plan.wish.cadence.by_wall for plan in active):
            dues.append(self.looked_at + self.limits["poll_secs"])
        return min(dues, default=None)

    def _let_time_pass(self, now: float, most: int, ticks: Ticks) -> int:
        firing, acts = self.firing, 0
        while acts < most:
            delayed, head = firing.next_delayed(now), firing.head()
            by_time = isinstance(head, OfTask) and (
                head.kind == "evicted" or (head.kind == "changed" and head.state != "cancelled")
            )
            if isinstance(head, OfTask) and by_time and (delayed is None or ticks.of(head) <= delayed[0]):
                firing.happened(now, head, take=True)
            elif delayed is not None:
                firing.go_on(now, delayed[1])
            else:
                break
            acts += 1
        return acts

    def _take_steps(self, now: float, most: int, more: bool) -> int:
        firing, steps = self.firing, 0
        while steps < most:
            due = self.due(now)
            if due:
                self._take_due(now, due)
            elif firing.at("fresh"):
                firing.spread(now)
            elif firing.may_fire():
                ready = firing.next_is("deferred", "failed") or isinstance(firing.head(), OfTask)
                if more and firing.left_over and not ready:
                    break
                firing.fire(now)
            else:
                break
            steps += 1
        return steps

    def _take_due(self, now: float, due: list[Plan]) -> None:
        """One due time of one schedule; which one is the core's choice."""
        firing, head = self.firing, self.firing.head()
        told = [plan for plan in due if isinstance(head, OfTrigger) and (head.kind, head.schedule) == ("due", plan.id)]
        known = [plan for plan in due if firing.known(plan.id, _key(plan.cursor or 0))]
        new = [entry for entry in firing.tape if isinstance(entry, OfTrigger) and entry.kind == "due"]
        dues = {(entry.schedule, entry.due_at) for entry in new}
        passed = [plan for plan in known if (plan.id, plan.cursor) not in dues]
        silent = [plan for plan in passed if self._cursor_of(plan.id) != plan.cursor]
        if not told and not silent:
            raise AssertionError(f"{[plan.id for plan in due]} are due, but the core tells {head!r}")
        plan = silent[0] if silent else told[0]
        at = plan.cursor
        assert at is not None
        reason, later = self._decide(plan, at, self.clock(plan.wish, now))
        plan.dealt.add(at)
        plan.cursor = self._new_from(plan, later)
        if silent:
            self.given["due with a known key"] += 1
            return
        shot = self._new(plan, at, _key(at), by_call=False)
        firing.come(now, shot)
        if reason is not None:
            firing.end(now, shot, "skipped", reason)

    def _decide(self, plan: Plan, at: float, clock: float) -> tuple[str | None, float | None]:
        """Why a due time is skipped, None if it fires; and the next one to deal with."""
        cadence, since, on_time = plan.wish.cadence, plan.since, self.limits["poll_secs"]
        in_a_pause = plan.resumed_at is not None and at <= plan.resumed_at
        if not in_a_pause and clock - at <= on_time:
            return None, cadence.next_after(at, since)
        until = plan.resumed_at if in_a_pause and plan.resumed_at is not None else clock
        policy, why = (plan.after_pause, PAUSED) if in_a_pause else (plan.wish.catch_up, MISSED)
        last = cadence.last_until(until, since)
        self.given[f"{why}: {policy}"] += 1
        if policy == "all":
            # A time that is on time is not missed, however short the window is.
            oldest = until - plan.wish.window if in_a_pause else min(until - plan.wish.window, clock - on_time)
            return (None, cadence.next_after(at, since)) if at > oldest else (why, cadence.next_after(oldest, since))
        later = last is not None and last > at
        if policy == "last":
            missed = cadence.last_until(until if in_a_pause else nextafter(clock - on_time, -inf), since)
            is_last = missed is None or missed <= at
            return (None, cadence.next_after(at, since)) if is_last else (why, missed)
        if later and last is not None and not in_a_pause and clock - last <= on_time:
            return why, last
        return why, cadence.next_after(until, since)

    def _first(self, wish: Wish, since: float) -> float:
        first = wish.cadence.next_after(since, since)
        if first is None:
            raise Refused("bad_request")
        return first

    def _new(self, plan: Plan, due_at: float, key: str | None, by_call: bool = True) -> Shot:
        """Its id and number are taken from what the core tells next."""
        firing, head = self.firing, self.firing.head()
        if not isinstance(head, OfTrigger) or (head.kind, head.schedule) != ("due", plan.id):
            raise AssertionError(f"{plan.id} has a new trigger, but the core tells {head!r}")
        number = self._number_of(head.trigger)
        if number <= max((shot.number for shot in firing.shots.values()), default=0):
            raise AssertionError(f"{head.trigger} is no younger than those before it")
        return Shot(head.trigger, number, plan, due_at, key or head.trigger, by_call)

    def take_tape(self, tape: deque[Entry]) -> None:
        """What the core told at the command that follows."""
        self.firing.tape = deque(tape)


def _key(due: float) -> str:
    """A due time in milliseconds."""
    return f"{due * 1000:.0f}"
