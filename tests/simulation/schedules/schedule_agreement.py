"""Where the core and the model of schedules must agree after a step."""

from __future__ import annotations

from math import inf

from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.schedules.schedule import CatchUp, Overlap, Schedule, ScheduleSpec, Trigger
from taskyard_server.core.stats import Totals
from taskyard_server.core.task import NO_OPTIONS, Submission
from tests.simulation.indexes import same

from .event_tape import tick_of
from .model_records import Plan, Shot, Wish, kind_of
from .model_schedules import Model

CLOSE = 1e-5
"""Times that are derived by way of the wall clock are rounded."""


def spec_of(wish: Wish) -> ScheduleSpec:
    """What a wish is for the core."""
    options = NO_OPTIONS
    if wish.attempts > 1:
        options = NO_OPTIONS._replace(retry=RetryPolicy(wish.attempts, 2.0))
    return ScheduleSpec(
        wish.cadence,
        "UTC",
        Submission(wish.agent, wish.action, priority=wish.priority, options=options),
        wish.deadline_secs,
        overlap=Overlap(wish.overlap),
        catch_up=CatchUp(wish.catch_up),
        catch_up_window_secs=wish.window,
    )


def of_schedule(its: Schedule) -> tuple[object, ...]:
    waiting = None if its.waiting is None else its.waiting.id
    return (
        (its.id, its.paused, its.created_at, its.updated_at, its.since, its.next_due),
        (its.last_fired_at, its.last_task_id, its.open, waiting),
    )


def of_trigger(its: Trigger) -> tuple[object, ...]:
    return (
        (its.id, its.number, its.schedule.id, its.due_at, its.key, its.by_call, str(its.state)),
        (its.fire_at, its.fired_at, its.ended_at, its.task_id, kind_of(its.reason)),
    )


def of_plan(its: Plan, model: Model) -> tuple[object, ...]:
    waiting = [shot.id for shot in model.firing.at("waiting", its)]
    return (
        (its.id, its.paused, its.created_at, its.updated_at, its.since, its.cursor),
        (its.last_fired_at, its.last_task, len(model.firing.opened(its)), waiting[0] if waiting else None),
    )


def of_shot(its: Shot) -> tuple[object, ...]:
    return (
        (its.id, its.number, its.plan.id, its.due_at, its.key, its.by_call, its.state),
        (its.fire_at, its.fired_at, its.ended_at, its.task, kind_of(its.reason)),
    )


def agree(core: Scheduler, model: Model, thorough: bool) -> None:
    """Raise AssertionError, naming what differs; of triggers that ended only the newest are compared, or all."""
    schedules, firing = core.schedules, model.firing
    same("schedules", [*map(of_schedule, schedules.after(0))], [of_plan(plan, model) for plan in model.plans.values()])
    numbers = [schedule.number for schedule in schedules.after(0)]
    same("order of schedules", numbers, sorted(set(numbers)))
    same("templates", [its.spec for its in schedules.after(0)], [spec_of(its.wish) for its in model.plans.values()])
    for shot in [*firing.live(), *(firing.ended if thorough else firing.ended[-3:])]:
        same("trigger", of_trigger(schedules.get_trigger(shot.id)), of_shot(shot))
    if thorough:
        listed = sorted(firing.shots.values(), key=lambda shot: shot.order, reverse=True)
        same("triggers", [its.id for its in schedules.triggers_before(None)], [shot.id for shot in listed])
    same("number of triggers", sum(1 for _ in schedules.triggers_before(None)), len(firing.shots))
    totals = Totals()
    schedules.add_to(totals)
    same("number of schedules", totals.schedules, len(model.plans))
    same("triggers that are pending", totals.triggers_pending, len(firing.live()) - len(firing.executing()))
    same("triggers that execute", totals.triggers_executing, len(firing.executing()))
    for name in ("fired", "completed", "failed", "skipped", "deferred"):
        same(f"counter {name}", getattr(schedules.counters, name), firing.counts[name])
    _due_agrees(core, model)


def listings_agree(core: Scheduler, model: Model, schedule_id: str, place: int) -> None:
    """The listing of one schedule, also from a place in it, and each trigger by its id."""
    shots = [shot for shot in model.firing.shots.values() if shot.plan.id == schedule_id]
    listed = sorted(shots, key=lambda shot: shot.order, reverse=True)
    found = list(core.schedules.triggers_before(None, schedule_id))
    same(f"triggers of {schedule_id}", [its.id for its in found], [shot.id for shot in listed])
    if found:
        place %= len(found)
        before = (found[place].due_at, found[place].number)
        rest = core.schedules.triggers_before(before, schedule_id)
        same("what comes after a place", [its.id for its in rest], [shot.id for shot in listed[place + 1 :]])
        all_before = [each.id for each in core.schedules.triggers_before(before)]
        expected = sorted(model.firing.shots.values(), key=lambda shot: shot.order, reverse=True)
        same("of all", all_before, [shot.id for shot in expected if shot.order < before])
        same("trigger by id", core.schedules.get_trigger(found[place].id) is found[place], True)


def _due_agrees(core: Scheduler, model: Model) -> None:
    due, expected = core.schedules.next_due(), model.next_due()
    if due == 0.0 and model.firing.left_over:
        return
    same("whether schedules are due", due is None, expected is None)
    if due is not None and expected is not None and abs(due - expected) > CLOSE:
        same("when schedules are due", due, expected)
    delays = [tick_of(shot.fire_at) / 8 for shot in model.firing.live() if shot.fire_at is not None]
    first = min([*delays, *([] if expected is None else [expected])], default=inf)
    whole = core.next_due()
    if first != inf and (whole is None or whole > first + CLOSE):
        same("when the scheduler is due", whole, first)
