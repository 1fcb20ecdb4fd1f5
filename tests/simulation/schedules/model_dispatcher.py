"""What becomes of the triggers of the model: plain lists, everything found by looking at every trigger.

The model follows the tape: it says what must come next on it, and takes ids, the delays of jitter and the ends of tasks
from there. What the tape has beyond that, or lacks, is a disagreement.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from math import inf

from .event_tape import ENDED, WAITING, Entry, OfTask, OfTrigger, tick_of
from .model_records import GONE, IN_THE_PAST, OVERLAP, REPLACED, TOO_MANY, Bounds, Plan, Shot

MOST_DELAY: float = 30.0


class ModelFiring:
    """The triggers of one namespace. `limits` are the core's by name; `delay_of` is when the core lets one go on."""

    def __init__(self, limits: dict[str, float], bounds: Bounds, delay_of: Callable[[str], float | None]) -> None:
        self.limits = limits
        self.bounds = bounds
        self.delay_of = delay_of
        self.shots: dict[str, Shot] = {}
        self.ended: list[Shot] = []
        self._live: dict[Shot, None] = {}
        self._of: dict[Plan, dict[Shot, None]] = {}
        self._keys: dict[tuple[str, str], Shot] = {}
        self.counts: Counter[str] = Counter()
        self.tasks: dict[str, tuple[str, str, str | None, str | None]] = {}
        """Of each task: its agent, state, error and key."""
        self.hold = False
        self.tape: deque[Entry] = deque()
        self.given: Counter[str] = Counter()
        self.left_over = False
        """True if triggers ended before their turn, so that the core may find something to do that comes to nothing."""
        self.down = False
        """True if the schedules are not there, but the tasks are."""
        self._batches = 0

    # What there is

    def live(self, plan: Plan | None = None) -> list[Shot]:
        return list(self._live if plan is None else self._of.get(plan, ()))

    def at(self, place: str, plan: Plan | None = None) -> list[Shot]:
        """The pending ones that stand there, by due time."""
        found = [shot for shot in self.live(plan) if shot.state == "pending" and shot.place == place]
        return sorted(found, key=lambda shot: shot.order)

    def opened(self, plan: Plan) -> list[Shot]:
        return [shot for shot in self.live(plan) if shot.is_open]

    def executing(self) -> list[Shot]:
        return [shot for shot in self.live() if shot.state == "executing"]

    def may_fire(self) -> list[Shot]:
        """Those that have arrived, of schedules of which fewer tasks are queued than may be."""
        queued = Counter(shot.plan for shot in self.executing() if self.tasks[shot.task][1] in WAITING)
        most = self.limits["max_queued_triggers"]
        return [] if self.hold else [shot for shot in self.at("ready") if queued[shot.plan] < most]

    def is_full(self, agent: str) -> bool:
        queued = [its for its, state, _, _ in self.tasks.values() if state in WAITING]
        return len(queued) >= self.limits["max_queue_size"] or queued.count(agent) >= self.limits["max_per_agent"]

    def known(self, schedule_id: str, key: str) -> Shot | None:
        return self._keys.get((schedule_id, key))

    # The tape

    def head(self) -> Entry | None:
        return self.tape[0] if self.tape else None

    def next_is(self, *kinds: str) -> bool:
        head = self.head()
        return isinstance(head, OfTrigger) and head.kind in kinds

    def told(self, now: float, kind: str, shot: Shot) -> None:
        """The core must tell this next."""
        expected = OfTrigger(now, kind, shot.id, shot.plan.id, shot.due_at)
        head = self.tape.popleft() if self.tape else None
        if head != expected:
            raise AssertionError(f"the core tells {head!r}, expected {expected!r}")

    # What is kept

    def hold_on_to(self, shot: Shot, owned: bool = True) -> None:
        self.shots[shot.id] = shot
        if owned:
            self._keys[shot.plan.id, shot.key] = shot
        if shot.ended_at is None:
            self._live[shot] = self._of.setdefault(shot.plan, {})[shot] = None
        else:
            self.ended.append(shot)

    def forget(self, shot: Shot) -> None:
        del self.shots[shot.id]
        if self._keys.get((shot.plan.id, shot.key)) is shot:
            del self._keys[shot.plan.id, shot.key]
        if shot in self._live:
            del self._live[shot], self._of[shot.plan][shot]
        else:
            self.ended.remove(shot)

    # From due to arrived

    def come(self, now: float, shot: Shot) -> None:
        """A new trigger."""
        if (first := self.known(shot.plan.id, shot.key)) is not None:
            raise AssertionError(f"{shot.id} has the key of {first.id}")
        self.hold_on_to(shot)
        self.told(now, "due", shot)

    def spread(self, now: float) -> None:
        """All that came due and was not spread yet."""
        batch = self.at("fresh")
        most = self.limits["max_jitter_secs"]
        spread = len(batch) > self.limits["jitter_threshold"] and most > 0
        self._batches += 1
        spread_before = {
            plan: max((each.fire_at for each in self.at("delayed", plan) if each.fire_at is not None), default=None)
            for plan in {shot.plan for shot in batch}
        }
        goes_on: dict[Plan, float] = {}
        for shot in batch:
            plan = shot.plan
            before = spread_before[plan]
            if before is not None and before + 0.125 <= now:
                # It is overdue itself, and goes on within this advance or the next.
                before = None
            alone = sum(each.plan is plan for each in batch) == 1
            period = inf if plan.cursor is None else max(0.0, plan.cursor - shot.due_at)
            until = now + (min(most, period) if alone else most) if spread else now
            if before is None and until == now:
                self.arrive(now, shot)
                continue
            fire_at = self.delay_of(shot.id)
            earliest = now if before is None else before + 0.125
            latest = max(until, earliest)
            earliest = max(earliest, goes_on.get(plan, earliest))
            if fire_at is None or not earliest - 1e-6 <= fire_at <= latest + 1e-6:
                raise AssertionError(f"{shot.id} goes on at {fire_at}, and may from {earliest} to {latest}")
            shot.place, shot.fire_at, shot.batch = "delayed", fire_at, self._batches
            goes_on[plan] = fire_at
        if spread:
            self.given["jitter"] += 1

    def next_delayed(self, now: float) -> tuple[int, Shot] | None:
        """What may go on by now: by the eighth of a second, there the last batch first, in it by due time."""
        found = [
            (tick_of(shot.fire_at), -shot.batch, shot.order, shot)
            for shot in [*self.at("delayed"), *self.at("deferred")]
            if shot.fire_at is not None and tick_of(shot.fire_at) <= now * 8
        ]
        if not found:
            return None
        tick, _, _, shot = min(found, key=lambda each: each[:3])
        return tick, shot

    def go_on(self, now: float, shot: Shot) -> None:
        """Its delay is over."""
        shot.fire_at = None
        if shot.place == "deferred":
            shot.place = "ready"
        else:
            self.arrive(now, shot)

    def arrive(self, now: float, shot: Shot) -> None:
        """Its time has come: the overlap policy decides."""
        plan, overlap = shot.plan, shot.plan.wish.overlap
        if opened := self.opened(plan):
            self.given[f"overlap {overlap}"] += 1
        if opened and overlap == "skip":
            self.end(now, shot, "skipped", OVERLAP)
        elif opened and overlap == "wait":
            if self.at("waiting", plan):
                self.end(now, shot, "skipped", OVERLAP)
            else:
                shot.place, shot.fire_at = "waiting", None
        else:
            if opened and overlap == "replace" and any(each.by_call and each.due_at > shot.due_at for each in opened):
                self.end(now, shot, "skipped", REPLACED)
                return
            if opened and overlap == "replace":
                self._replace(now, [*opened, *self.at("waiting", plan)])
            if len(self.opened(plan)) >= self.bounds.open:
                self.end(now, shot, "skipped", TOO_MANY)
            else:
                shot.place, shot.fire_at = "ready", None

    def _replace(self, now: float, earlier: list[Shot]) -> None:
        """All that came before goes, in whatever order."""
        while earlier:
            head = self.head()
            if isinstance(head, OfTask) and head.state == "cancelled" and head.error == REPLACED:
                shot = next((shot for shot in earlier if shot.task == head.task), None)
                if shot is not None:
                    self.happened(now, head, take=True)
                    earlier.remove(shot)
                    continue
            elif isinstance(head, OfTrigger) and head.kind == "skipped":
                shot = next((shot for shot in earlier if shot.id == head.trigger), None)
                if shot is not None and shot.state == "pending":
                    self.end(now, shot, "skipped", REPLACED)
                    earlier.remove(shot)
                    continue
            raise AssertionError(f"to be replaced: {[shot.id for shot in earlier]}, but the core tells {head!r}")

    # From arrived to fired

    def fire(self, now: float) -> None:
        """Of the schedules of which the fewest execute, the one that was due first goes."""
        execute = Counter(shot.plan for shot in self.executing())
        shot = min(self.may_fire(), key=lambda shot: (execute[shot.plan], shot.order))
        wish = shot.plan.wish
        if wish.deadline_secs is not None and wish.deadline_secs <= 0:
            self.end(now, shot, "failed", IN_THE_PAST)
            return
        if self.is_full(wish.agent):
            shot.place, shot.fire_at = "deferred", now + min(2.0**shot.put_off, MOST_DELAY)
            self._batches += 1
            shot.batch = self._batches
            shot.put_off += 1
            self.counts["deferred"] += 1
            self.told(now, "deferred", shot)
            return
        head = self.head()
        if not isinstance(head, OfTask) or (head.kind, head.state, head.agent, head.key) != (
            "submitted",
            "queued",
            wish.agent,
            shot.id,
        ):
            raise AssertionError(f"{shot.id} is to be fired, but the core tells {head!r}")
        self.happened(now, head, take=True)
        self.counts["fired"] += 1
        self.claimed(now, shot, head.task, now)

    def claimed(self, now: float, shot: Shot, task: str, fired_at: float) -> None:
        shot.state, shot.task, shot.fire_at = "executing", task, None
        shot.fired_at = shot.plan.last_fired_at = fired_at
        shot.plan.last_task = task
        self.told(now, "claimed", shot)

    # To the end

    def happened(self, now: float, entry: OfTask, take: bool = False) -> None:
        """Something happened to a task, at the head of the tape if `take`."""
        if take:
            self.tape.popleft()
        if entry.kind == "evicted":
            del self.tasks[entry.task]
            return
        self.tasks[entry.task] = (entry.agent, entry.state, entry.error, entry.key)
        if entry.state in ENDED and not self.down:
            for shot in self.executing():
                if shot.task == entry.task:
                    self.end_with(now, shot)

    def end_with(self, now: float, shot: Shot) -> None:
        """As its task ended."""
        _, state, error, _ = self.tasks[shot.task or ""]
        if state == "done":
            self.end(now, shot, "completed", None)
        else:
            self.end(now, shot, "failed", error or f"its task was {state}")

    def end(self, now: float, shot: Shot, state: str, reason: str | None) -> None:
        was_open, plan = shot.is_open, shot.plan
        self.left_over |= shot.state == "pending"
        shot.state, shot.ended_at, shot.reason, shot.fire_at = state, now, reason, None
        self.told(now, state, shot)
        self.counts[state] += 1
        self.keep(shot)
        waiting = self.at("waiting", plan)
        if was_open and waiting and not self.opened(plan):
            self.arrive(now, waiting[0])

    def keep(self, shot: Shot) -> None:
        """One more has ended: the oldest goes if these are too many."""
        del self._live[shot], self._of[shot.plan][shot]
        self.ended.append(shot)
        same = [other for other in self.ended if other.plan.id == shot.plan.id]
        if len(same) > self.bounds.kept_of_a_schedule:
            self.forget(same[0])
        elif len(self.ended) > self.bounds.kept:
            self.forget(self.ended[0])

    def skip(self, now: float, plan: Plan, reason: str) -> None:
        """What came due by itself and has not fired, in whatever order."""
        withdrawn = [shot for shot in self.live(plan) if shot.state == "pending" and not shot.by_call]
        while withdrawn:
            head = self.head()
            shot = next((its for its in withdrawn if isinstance(head, OfTrigger) and its.id == head.trigger), None)
            if shot is None:
                raise AssertionError(f"to be skipped: {[its.id for its in withdrawn]}, but the core tells {head!r}")
            withdrawn.remove(shot)
            self.end(now, shot, "skipped", reason)

    def drop(self, plan: Plan) -> None:
        """The schedule is deleted."""
        for shot in self.live(plan):
            if shot.state == "pending":
                self.left_over = True
                self.forget(shot)
        self._keys = {key: shot for key, shot in self._keys.items() if key[0] != plan.id}

    # After a restart

    def take_up(self, now: float, born: dict[str, float], shots: Sequence[Shot]) -> None:
        """What was kept goes on, in whatever order; `born` is when each task that is there was submitted."""
        by_key = {key: task for task, (_, _, _, key) in self.tasks.items() if key is not None}
        lost: list[Shot] = []
        for shot in shots:
            shot.fire_at, shot.put_off = None, 0
            if shot.state == "pending":
                shot.place = "fresh"
                if shot.id in by_key:
                    lost.append(shot)
            elif shot.task not in self.tasks or self.tasks[shot.task][1] in ENDED:
                lost.append(shot)
        while lost:
            head = self.head()
            if not isinstance(head, OfTrigger) or head.trigger not in [shot.id for shot in lost]:
                raise AssertionError(f"to be taken up: {[shot.id for shot in lost]}, but the core tells {head!r}")
            shot = next(shot for shot in lost if shot.id == head.trigger)
            lost.remove(shot)
            if shot.state == "pending":
                self.claimed(now, shot, by_key[shot.id], born[by_key[shot.id]])
            if shot.task not in self.tasks:
                self.end(now, shot, "failed", GONE)
            elif self.tasks[shot.task][1] in ENDED:
                self.end_with(now, shot)
