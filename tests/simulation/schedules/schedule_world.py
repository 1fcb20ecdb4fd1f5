"""One seeded random history of schedules, given to the core and to the model, which must agree after every step.

A history is a chain of lives: a scheduler with random limits, which is restarted now and then with what an engine keeps
of schedules and triggers. Its tasks are then gone, or still there. Every random choice comes from the seed. What
happens to tasks is real: they are claimed, end, expire, are paused and resumed by the core under test.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any, Final
from unittest.mock import patch

from taskyard_server.core.errors import Refusal
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.leases import Lease
from taskyard_server.core.limits import Limits
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.schedules import processed_times
from taskyard_server.core.schedules import trigger_dispatcher as firing
from taskyard_server.core.schedules import trigger_store as triggers
from taskyard_server.core.schedules.registry import ScheduleRegistry
from taskyard_server.core.schedules.schedule import CatchUp, TriggerEvent
from tests.simulation.indexes import same
from tests.simulation.simulator import Mismatch

from .event_tape import OfTask, OfTrigger, Ticks, record, tape_of
from .model_records import Refused, Shot
from .model_schedules import Model
from .random_choices import BOUNDS, WEIGHTS, Chances
from .schedule_agreement import agree, listings_agree, of_plan, of_schedule, of_shot, of_trigger, spec_of
from .schedule_ledger import ScheduleLedger
from .stored_schedules import Kept, let_go_of
from .task_commands import HOST, TaskCommands

START: Final = 1_700_000_000.0
OF_SCHEDULES: Final = ("create", "update", "delete", "pause", "resume", "trigger")
MOST_TURNS: Final = 5_000
"""Within so many calls `advance` must come to an end."""


class Simulation(TaskCommands):
    """The history of one seed. `given` counts commands, and what came of them."""

    test = "schedules/test_schedule_simulation.py"

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.steps = 0
        self.given: Counter[str] = Counter()
        self.chances = Chances(seed)
        self.now = START + self.chances.below(10**6)
        self._entropy = partial(Random(f"ids of {seed}").getrandbits, 40)
        self._last: deque[str] = deque(maxlen=20)
        self._over_at = 0
        self._commands: dict[str, Callable[[], None]] = {
            name: getattr(self, f"_{name.replace(' ', '_')}") for name in WEIGHTS
        }

    def run(self, steps: int) -> None:
        """Take so many steps; raises `Mismatch`."""
        for _ in range(steps):
            self.steps += 1
            try:
                if self.steps > self._over_at:
                    self._begin_life()
                with self._bounded():
                    self._commands[self.chances.command()]()
                    self._check()
            except Exception as error:
                why = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
                raise Mismatch(self.seed, self.steps, why, list(self._last), self.test) from error

    def counts(self) -> Counter[str]:
        """What was given, and what came of it, of all lives."""
        return self.given + self.model.given

    # Lives

    def _begin_life(self) -> None:
        chances = self.chances
        chances.new_mood()
        self._over_at = self.steps + chances.one_of([50, 300, 1000])
        self._limits = chances.limits()
        self._bounds = chances.one_of(BOUNDS)
        self._skew = chances.one_of([0.0, 0.0, 3600.0, -0.3])
        if self.steps > 1:
            self.given.update(self.model.given)
        self.ledger = ScheduleLedger()
        self.core = self._new_core()
        self.model = self._new_model()
        self._told = record(self.core)
        self._leases: list[Lease] = []
        self._fired: str | None = None  # what fired last, if that is the last record which was made
        self.core.register(self.now, HOST, None, HostProfile())
        self._log("begin", sorted(self._limits.items()), self._bounds)
        self._note_wall()

    def _new_core(self) -> Scheduler:
        return Scheduler(Limits(**self._limits), self._entropy)

    def _new_model(self) -> Model:
        def delay_of(trigger_id: str) -> float | None:
            return self.core.schedules.get_trigger(trigger_id).fire_at

        def number_of(trigger_id: str) -> int:
            return self._triggers[trigger_id].number

        def cursor_of(schedule_id: str) -> float | None:
            return self.core.schedules.get(schedule_id).next_due

        return Model(self._limits, self._bounds, delay_of, number_of, cursor_of)

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        """The core's bounds are those of this life."""
        kept = {"MAX_ENDED_PER_SCHEDULE": self._bounds.kept_of_a_schedule, "MAX_ENDED": self._bounds.kept}
        unbounded = patch.object(processed_times, "MAX_RANGES", 10**9)
        with (
            patch.multiple(triggers, **kept),
            patch.object(firing, "MAX_OPEN_PER_SCHEDULE", self._bounds.open),
            unbounded,
        ):
            yield

    def _restart(self) -> None:
        """The process ends at any time. Its tasks are gone with it, or were kept; the wall clock goes on."""
        chances, before, model = self.chances, self.core.schedules, self.model
        if chances.under(0.3):
            self._trigger()
        tasks_stay = chances.under(0.6) and not model.firing.hold
        lost = self._fired if tasks_stay and chances.under(0.8) else None
        kept = Kept(self.core, [shot.id for shot in model.firing.ended], lost)
        if lost is not None:
            self.given["restart between submit and record"] += 1
            self._lose(lost)
        if tasks_stay:
            let_go_of(self.core._life, before)
            self._told = record(self.core)
            model.firing.down = True
            for _ in range(chances.below(4)):
                # What the tasks still did before the schedules are back.
                self._commands[chances.one_of(["claim", "complete", "cancel", "fail"])]()
            self.core.schedules = ScheduleRegistry(self.core._life, self.core._admission.admit, self._entropy)
        else:
            if chances.under(0.5):
                # The steady clock begins at the wall clock's time.
                self.now, self._skew = self.now + self._skew, 0.0
            self.core = Scheduler(Limits(**self._limits), self._entropy)
            self.core.register(self.now, HOST, None, HostProfile())
            self._leases.clear()
            self.ledger.tasks_gone()
        self.now += chances.secs(chances.one_of([0.1, 5, 500]))
        old, self.model = model, self._new_model()
        self.model.plans = old.plans
        for shot in [*old.firing.live(), *old.firing.ended]:
            self.model.firing.hold_on_to(shot, self.model.plans.get(shot.plan.id) is shot.plan)
        self.model.firing.left_over = True
        if tasks_stay:
            self.model.firing.tasks = old.firing.tasks
        self.given.update(old.given)
        self.ledger.restarted()
        self._told = record(self.core)
        kept.restore(self.core.schedules)
        self._note_wall()
        born = {task.id: task.created_at for task in self.core.tasks_after(0)}
        live = self.model.firing.live()
        self._both(
            f"restart, tasks {'stay' if tasks_stay else 'gone'}",
            (lost,),
            lambda: self.core.recover(self.now),
            lambda: self._take_up(born, live),
        )

    def _take_up(self, born: dict[str, float], live: list[Shot]) -> None:
        self.model.firing.take_up(self.now, born, live)
        self.model.recover(self.now)

    def _lose(self, trigger_id: str) -> None:
        shot = self.model.firing.shots[trigger_id]
        shot.state, shot.task, shot.fired_at = "pending", None, None
        self.ledger.lost(trigger_id)

    def _drain(self) -> None:
        """And, after a while, another process."""
        self.model.firing.hold = True
        self._both("drain", (), self.core.drain, lambda: None)
        self._over_at = min(self._over_at, self.steps + 40)

    # Giving a command to both

    def _both(self, name: str, args: tuple[Any, ...], core: Callable[[], Any], model: Callable[[], Any]) -> Any:
        """The core's answer, None where both refused."""
        self._log(name, *args)
        answer, refusal, expected, refused = None, "ok", None, "ok"
        try:
            answer = core()
        except Refusal as its:
            refusal = its.code
        told, self._told = self._told, record(self.core)
        tape = tape_of(told)
        self._answer = answer
        self._triggers = {event.trigger.id: event.trigger for event in told if isinstance(event, TriggerEvent)}
        self._last[-1] += f" -> {refusal}, {[*map(_told, tape)]}"
        self.model.take_tape(tape)
        try:
            expected = model()
        except Refused as its_own:
            refused = its_own.code
        same(f"refusal of {name}", refusal, refused)
        self.model.used_up()
        self.given[f"{name}: {refusal}"] += 1
        if name in OF_SCHEDULES:
            self._fired = None
        for entry in tape:
            if isinstance(entry, OfTrigger):
                self.given[f"trigger {entry.kind}"] += 1
                self._fired = entry.trigger if entry.kind == "claimed" else None
                if entry.kind == "claimed":
                    self._check_task(entry.trigger)
        self.ledger.see(self.core, self.now, tape, self._triggers)
        if isinstance(expected, Shot):
            same(f"answer of {name}", of_trigger(answer), of_shot(expected))
        elif expected is not None:
            same(f"answer of {name}", of_schedule(answer), of_plan(expected, self.model))
        return answer

    def _check_task(self, trigger_id: str) -> None:
        """The task is as the template says, unless it is gone, or came from a template that has changed."""
        trigger, shot = self._triggers[trigger_id], self.model.firing.shots.get(trigger_id)
        if shot is None or shot.state != "executing" or shot.fired_at != self.now:
            return
        task, wish = self.core.get(trigger.task_id or ""), shot.plan.wish
        found = (task.agent_id, task.action, task.priority, task.options.traceparent, task.deadline_secs)
        secs = None if wish.deadline_secs is None else self.now + wish.deadline_secs - self.now
        same("task", found, (wish.agent, wish.action, wish.priority, trigger.traceparent, secs))

    def _check(self) -> None:
        agree(self.core, self.model, self._is_thorough())
        if self.steps % 5 == 0:
            listings_agree(self.core, self.model, self.chances.schedule_id(), self.chances.below(100))
            self.ledger.tasks_agree([task.id for task in self.core.tasks_after(0) if task.options.key is not None])

    def _is_thorough(self) -> bool:
        """True if those are compared, too, that ended before this step: not each time where they are many."""
        return self.steps % 16 == 0 or len(self.model.firing.ended) <= 30

    def _log(self, name: str, *args: object) -> None:
        self._last.append(f"{self.steps} at {self.now - START!r}: {name} {', '.join(map(repr, args))}")

    # Commands to schedules

    def _create(self) -> None:
        now, wish = self.now, self.chances.wish(self._wall)
        schedule_id = None if self.chances.under(0.03) else self.chances.schedule_id()
        paused = self.chances.under(0.1)
        plan = self.model.plans.get(schedule_id or "")
        if plan is not None and self.chances.under(0.5):
            wish, paused = plan.wish, plan.paused
        known = set(self.model.plans)
        self._both(
            "create",
            (schedule_id, wish, paused),
            lambda: self._begin(self.core.schedules.create(now, schedule_id, spec_of(wish), paused).id, known),
            lambda: self.model.create(now, schedule_id, wish, paused, self._answer) and None,
        )

    def _begin(self, schedule_id: str, known: set[str]) -> str:
        if schedule_id not in known:
            self.ledger.began(schedule_id)
        return schedule_id

    def _update(self) -> None:
        now, schedule_id = self.now, self._some_schedule()
        plan = self.model.plans.get(schedule_id)
        wish = self.chances.wish(self._wall) if plan is None else self.chances.changed(plan.wish, self._wall)
        is_new = plan is not None and plan.wish.cadence != wish.cadence

        def core() -> object:
            schedule = self.core.schedules.update(now, schedule_id, spec_of(wish))
            if is_new:
                self.ledger.began(schedule_id)
            return schedule

        self._both("update", (schedule_id, wish), core, lambda: self.model.update(now, schedule_id, wish))

    def _delete(self) -> None:
        schedule_id = self._some_schedule()
        self._both(
            "delete",
            (schedule_id,),
            lambda: self.core.schedules.delete(schedule_id),
            lambda: self.model.delete(schedule_id),
        )

    def _pause(self) -> None:
        now, schedule_id = self.now, self._some_schedule()
        self._both(
            "pause",
            (schedule_id,),
            lambda: self.core.schedules.pause(now, schedule_id),
            lambda: self.model.pause(now, schedule_id),
        )

    def _resume(self) -> None:
        now, schedule_id = self.now, self._some_schedule()
        paused = [plan.id for plan in self.model.plans.values() if plan.paused]
        if paused and self.chances.under(0.8):
            schedule_id = self.chances.one_of(paused)
        catch_up = self.chances.one_of(["none", "last", "all"])
        self._both(
            "resume",
            (schedule_id, catch_up),
            lambda: self.core.schedules.resume(now, schedule_id, CatchUp(catch_up)),
            lambda: self.model.resume(now, schedule_id, catch_up),
        )

    def _trigger(self) -> None:
        """Some have the key that a due time to come will have."""
        now, schedule_id = self.now, self._some_schedule()
        plan = self.model.plans.get(schedule_id)
        keys = [None, None, f"key-{self.chances.below(6)}"]
        if plan is not None and plan.cursor is not None:
            keys.append(f"{plan.cursor * 1000:.0f}")
        key = self.chances.one_of(keys)
        self._both(
            "trigger",
            (schedule_id, key),
            lambda: self.core.schedules.trigger(now, schedule_id, key),
            lambda: self.model.trigger(now, schedule_id, key),
        )

    def _some_schedule(self) -> str:
        plans = list(self.model.plans)
        return self.chances.one_of(plans) if plans and self.chances.under(0.95) else self.chances.schedule_id()

    # The operator, and time

    @property
    def _wall(self) -> float:
        return self.now + self._skew

    def _note_wall(self) -> None:
        self.core.schedules.note_wall(self.now, self._wall)
        self.model.note_wall(self.now, self._wall)

    def _reconfigure(self) -> None:
        changed = self.chances.new_limits()
        self._limits.update(changed)
        self._both(
            "reconfigure", tuple(changed.items()), lambda: self.core.reconfigure(Limits(**self._limits)), lambda: None
        )

    def _jump(self) -> None:
        """Of the wall clock, of which the core learns at its next look."""
        far = self.chances.one_of([0.5, 20, 500, 10_000, 10**8])
        self._skew += self.chances.one_of([-1, 1]) * self.chances.secs(far)
        if self.chances.under(0.3):
            self._skew = 0.0
        self._log("jump to", self._skew)

    def _pass_time(self) -> None:
        """A little, or to when something is due, to the instant."""
        due = self.core.next_due()
        if due is not None and self.chances.under(0.6):
            self.now = min(max(self.now, due), self.now + 3600)
        else:
            self.now += self.chances.secs(self.chances.one_of([0.1, 1, 10]))
        self._advance()

    def _stall(self) -> None:
        """Nobody looks for a while, or for weeks."""
        self.now += self.chances.secs(self.chances.one_of([20, 100, 5000, 10**6]))
        if self.chances.under(0.8):
            self._advance()

    def _advance(self) -> None:
        """Do what is due; sometimes only a part of it, as a loop that takes turns does."""
        noted = self.chances.under(0.9)
        if noted:
            self._note_wall()
        most = self.chances.one_of([1, 2, 7, 1000])
        turns = self.chances.one_of([1, 3, MOST_TURNS, MOST_TURNS])
        for turn in range(turns):
            ticks = Ticks(self.core._life)
            more = self._both(
                "advance",
                (most,),
                lambda: self.core.advance(self.now, most),
                lambda ticks=ticks: self.model.advance(self.now, most, ticks, self._answer),
            )
            if not more:
                due = self.core.next_due()
                if noted and due is not None and due <= self.now - 1e-5:
                    raise AssertionError(f"nothing is due, but something was at {due - START}")
                return
            if turns == MOST_TURNS and turn == turns - 1:
                raise AssertionError("advance comes to no end")
            if self.steps % 7 == 0:
                agree(self.core, self.model, self._is_thorough())


def _told(entry: OfTask | OfTrigger) -> str:
    if isinstance(entry, OfTask):
        return f"{entry.task[-14:]} {entry.before}>{entry.state}"
    return f"{entry.trigger[4:16]}..{entry.trigger[22:26]} {entry.kind}"
