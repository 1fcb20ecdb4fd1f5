"""After a restart schedules and triggers go on from what was kept (docs/rules.md, Recovery)."""

from copy import copy

import pytest

from taskyard_server.core.errors import AlreadyExists
from taskyard_server.core.schedules.schedule import CatchUp, Overlap, TriggerState
from taskyard_server.core.task import Submission, TaskState
from tests.core.records import copy_of

from .clockwork import Clockwork, Once, Steady, Wall

SELDOM = Steady(1_000_000)


@pytest.fixture
def restart(make_clockwork):
    """`restart(clockwork, at)` makes a clockwork that begins at `at` with the schedules and triggers of the first."""

    def restart(before: Clockwork, at: float | None = None, lost_tasks: bool = False, **limits) -> Clockwork:
        after = make_clockwork(**limits)
        after.skew = before.skew
        after.yard.now = before.yard.now
        ids = {} if lost_tasks else {task.id: submitted_again(after, task) for task in before.tasks()}
        if at is not None:
            after.yard.now = after.at(at)
        after.schedules.note_wall(after.yard.now, after.yard.now + after.skew)
        there = {each.id: copy_of(each) for each in before.schedules.after(0)}
        for schedule in there.values():
            after.schedules.restore(schedule)
        for trigger in sorted(before.triggers(), key=lambda each: each.ended_at or 0.0):
            kept = copy(trigger)
            kept.schedule = there.get(trigger.schedule.id) or copy_of(trigger.schedule)
            kept.task_id = ids.get(trigger.task_id, trigger.task_id)
            after.schedules.restore_trigger(kept)
        after.yard.scheduler.recover(after.yard.now)
        after.advance()
        return after

    return restart


def submitted_again(after: Clockwork, task) -> str:
    """The same task, in the same state, under a new id."""
    again = after.yard.scheduler.submit(
        after.yard.now, Submission(task.agent_id, task.action, deadline=after.at(1e7), options=task.options)
    )
    match task.state:
        case TaskState.CANCELLED:
            after.yard.cancel(again)
        case TaskState.DONE | TaskState.FAILED:
            lease = after.lease_of(again.id)
            if task.state is TaskState.DONE:
                after.yard.complete(lease)
            else:
                after.yard.fail(lease, task.error)
    return again.id


# Schedules


@pytest.mark.parametrize("cadence", [Steady(70), Wall(100), Once(1_700_000_400.0)], ids=repr)
@pytest.mark.parametrize("paused", [False, True])
def test_schedules_are_as_they_were(clockwork, restart, cadence, paused):
    clockwork.skip_to(37)
    first, second = (clockwork.create(cadence, name, overlap=Overlap.ALLOW) for name in "ab")
    clockwork.run_to(250)
    if paused:
        clockwork.pause(first)
    after = restart(clockwork)
    again = after.schedules.get("a")
    assert again is not first
    for name in ("id", "number", "spec", "created_at", "since", "next_due", "paused", "last_fired_at", "last_task_id"):
        assert getattr(again, name) == getattr(first, name)
    assert [each.id for each in after.schedules.after(0)] == ["a", "b"]
    assert [each.id for each in after.schedules.after(first.number)] == ["b"]
    assert after.outcomes() == clockwork.outcomes()
    for each in (clockwork, after):
        each.run_to(500)
    assert after.outcomes() == clockwork.outcomes()
    assert after.schedules.get("b").next_due == second.next_due


def test_what_is_made_after_a_restart_is_younger_than_what_was_there(clockwork, restart):
    schedule = clockwork.create(SELDOM, "a", overlap=Overlap.ALLOW)
    for _ in range(3):
        clockwork.trigger(schedule)
    after = restart(clockwork)
    assert after.create(SELDOM, "b").number > schedule.number
    new = after.trigger(after.schedules.get("a"))
    assert new.number > max(each.number for each in clockwork.triggers())
    assert after.triggers()[-1] is new


def test_a_create_may_be_repeated_over_a_restart(clockwork, restart):
    clockwork.create(SELDOM, "a")
    after = restart(clockwork)
    assert after.create(SELDOM, "a") is after.schedules.get("a")
    with pytest.raises(AlreadyExists):
        after.create(Steady(1), "a")


@pytest.mark.parametrize("cadence", [Steady(100), Wall(100)], ids=repr)
@pytest.mark.parametrize(
    ("policy", "outcomes"),
    [
        (CatchUp.ALL, [(100, "executing"), (200, "executing"), (300, "executing")]),
        (CatchUp.LAST, [(100, "skipped"), (300, "executing")]),
        (CatchUp.NONE, [(100, "skipped")]),
    ],
)
def test_what_was_missed_while_it_was_down_goes_by_the_policy(clockwork, restart, cadence, policy, outcomes):
    clockwork.create(cadence, catch_up=policy, overlap=Overlap.ALLOW)
    clockwork.run_to(50)
    after = restart(clockwork, at=350)
    assert after.outcomes() == outcomes


TEN_YEARS = 315_360_000.0


def test_a_process_that_ran_under_a_clock_years_ahead_delays_nothing_after_a_restart(clockwork, restart):
    clockwork.skip_to(TEN_YEARS)
    interval, wall = clockwork.create(Steady(100), "interval"), clockwork.create(Wall(100), "wall")
    clockwork.run_to(TEN_YEARS + 250)
    after = restart(clockwork, at=50, lost_tasks=True)
    assert after.schedules.get(interval.id).next_due == after.at(150)
    assert after.schedules.get(wall.id).next_due == after.at(100)
    dues = [due for due, _ in after.outcomes() if due > TEN_YEARS]
    after.run_to(260)
    assert [due for due, _ in after.outcomes(after.schedules.get(interval.id)) if due < TEN_YEARS] == [150, 250]
    assert [due for due, _ in after.outcomes(after.schedules.get(wall.id)) if due < TEN_YEARS] == [100, 200]
    assert [due for due, _ in after.outcomes() if due > TEN_YEARS] == dues


def test_what_has_come_before_a_restart_does_not_come_again_after_the_clock_was_set_back(clockwork, restart):
    clockwork.create(Wall(100), "a")
    clockwork.run_to(550)
    clockwork.skew = -500
    after = restart(clockwork)
    assert after.schedules.get("a").next_due == after.at(600)


def test_a_short_restart_misses_nothing(clockwork, restart):
    clockwork.create(Steady(100), catch_up=CatchUp.NONE)
    clockwork.run_to(99)
    assert restart(clockwork, at=120).outcomes() == [(100, "executing")]


def test_a_schedule_that_was_paused_when_it_went_down_stays_paused(clockwork, restart):
    clockwork.create(Steady(100), "a", paused=True, catch_up=CatchUp.ALL)
    after = restart(clockwork, at=550)
    assert after.triggers() == []
    after.resume(after.schedules.get("a"), CatchUp.LAST)
    assert after.outcomes() == [(100, "skipped"), (500, "executing")]


def test_the_catch_up_of_a_resume_outlives_a_restart(clockwork, restart):
    schedule = clockwork.create(Steady(100), paused=True, overlap=Overlap.ALLOW, catch_up=CatchUp.NONE)
    clockwork.skip_to(250)
    clockwork.schedules.resume(clockwork.yard.now, schedule.id, CatchUp.ALL)
    after = restart(clockwork, at=450)
    assert after.outcomes() == [(100, "executing"), (200, "executing"), (300, "skipped")]


def test_a_due_time_that_has_its_trigger_gets_no_second_one(clockwork, restart):
    schedule = clockwork.create(Steady(100), overlap=Overlap.ALLOW)
    clockwork.run_to(210)
    schedule.next_due = clockwork.at(100)
    after = restart(clockwork)
    assert after.outcomes() == [(100, "executing"), (200, "executing")]
    assert len(after.tasks()) == 2


# Executing triggers


@pytest.mark.parametrize("end", ["complete", "fail"])
def test_an_executing_trigger_ends_with_its_task_over_a_restart(clockwork, restart, end):
    clockwork.trigger(clockwork.create(SELDOM))
    after = restart(clockwork, at=10)
    (trigger,) = after.triggers()
    assert (trigger.state, after.counts(), len(after.tasks())) == ("executing", (0, 1), 1)
    getattr(after, end)(trigger)
    assert (trigger.state, trigger.ended_at) == ("completed" if end == "complete" else "failed", after.yard.now)
    assert after.trigger(trigger.schedule).state == "executing"


@pytest.mark.parametrize(("end", "state"), [("done", "completed"), ("failed", "failed"), ("cancelled", "failed")])
def test_a_trigger_whose_task_ended_unnoticed_ends_as_it_did(clockwork, restart, end, state):
    trigger = clockwork.trigger(clockwork.create(SELDOM))
    unnoticed = copy(trigger)
    match end:
        case "done":
            clockwork.complete(trigger)
        case "failed":
            clockwork.fail(trigger, "no such page")
        case "cancelled":
            clockwork.yard.cancel(clockwork.task(trigger))
    for name in ("state", "ended_at", "reason"):
        setattr(trigger, name, getattr(unnoticed, name))
    after = restart(clockwork)
    (again,) = after.triggers()
    assert again.state == state
    assert again.ended_at is not None
    assert (again.reason is None) == (state == "completed")
    assert end != "failed" or again.reason == "no such page"
    assert after.counts() == (0, 0)
    assert after.trigger(again.schedule).state == "executing"


def test_a_trigger_whose_task_is_gone_has_failed(clockwork, restart):
    clockwork.trigger(clockwork.create(SELDOM))
    after = restart(clockwork, lost_tasks=True)
    (trigger,) = after.triggers()
    assert (trigger.state, trigger.reason) == ("failed", "its task is gone")
    assert (after.tasks(), after.counts()) == ([], (0, 0))
    assert [kind for _, kind in after.trigger_events()] == ["failed"]


def test_tasks_that_are_queued_still_count_after_a_restart(make_clockwork, restart):
    clockwork = make_clockwork(max_queued_triggers=2)
    schedule = clockwork.create(SELDOM, "a", overlap=Overlap.ALLOW)
    for _ in range(2):
        clockwork.trigger(schedule)
    after = restart(clockwork, max_queued_triggers=2)
    new = after.trigger(after.schedules.get("a"))
    assert new.state == "pending"
    after.complete(after.triggers()[0])
    assert new.state == "executing"


def test_an_executing_trigger_of_a_deleted_schedule_ends_by_itself_over_a_restart(clockwork, restart):
    schedule = clockwork.create(SELDOM)
    clockwork.trigger(schedule)
    clockwork.delete(schedule)
    after = restart(clockwork)
    assert len(after.schedules) == 0
    after.complete_all()
    assert after.outcomes() == [(0, "completed")]


# Pending triggers


def test_a_pending_trigger_whose_task_exists_is_executing(clockwork, restart):
    trigger = clockwork.trigger(clockwork.create(SELDOM))
    trigger.state, trigger.task_id, trigger.fired_at = TriggerState.PENDING, None, None
    after = restart(clockwork)
    (again,) = after.triggers()
    (task,) = after.tasks()
    assert (again.state, again.task_id, after.counts()) == ("executing", task.id, (0, 1))
    assert again.fired_at is not None
    after.complete(again)
    assert again.state == "completed"


@pytest.mark.parametrize("end", ["complete", "fail"])
def test_a_pending_trigger_whose_task_has_ended_ends_as_it_did(clockwork, restart, end):
    trigger = clockwork.trigger(clockwork.create(SELDOM))
    getattr(clockwork, end)(trigger)
    trigger.task_id = trigger.fired_at = trigger.ended_at = trigger.reason = None
    trigger.state = TriggerState.PENDING
    after = restart(clockwork)
    (again,) = after.triggers()
    assert again.state == ("completed" if end == "complete" else "failed")
    assert len(after.tasks()) == 1


def test_pending_triggers_fire_after_a_restart_in_their_order(make_clockwork, restart):
    clockwork = make_clockwork(max_queued_triggers=0)
    for secs in (300, 100, 200, 300):
        clockwork.create(Steady(secs))
    clockwork.skip_to(310)
    waiting = [each.id for each in clockwork.triggers() if each.state == "pending"]
    assert len(waiting) == 4
    after = restart(clockwork)
    assert [task.id for task in after.tasks()] == [after.schedules.get_trigger(each).task_id for each in waiting]


def test_triggers_that_jitter_put_off_fire_after_a_restart(make_clockwork, restart):
    clockwork = make_clockwork(jitter_threshold=3)
    for _ in range(10):
        clockwork.create(Steady(100))
    clockwork.run_to(100.125)
    assert clockwork.counts()[0] > 5
    after = restart(clockwork, at=140)
    after.run_to(190)
    assert after.outcomes() == [(100, "executing")] * 10


def test_one_that_waits_for_another_waits_on_over_a_restart(clockwork, restart):
    clockwork.create(Steady(100), overlap=Overlap.WAIT)
    clockwork.run_to(210)
    after = restart(clockwork)
    assert after.outcomes() == [(100, "executing"), (200, "pending")]
    assert len(after.tasks()) == 1
    after.complete_all()
    assert after.outcomes() == [(100, "completed"), (200, "executing")]


@pytest.mark.parametrize("policy", [Overlap.SKIP, Overlap.WAIT])
def test_what_executes_is_in_the_way_over_a_restart(clockwork, restart, policy):
    clockwork.create(Steady(100), overlap=policy)
    clockwork.run_to(110)
    after = restart(clockwork)
    after.run_to(210)
    assert after.outcomes() == [(100, "executing"), (200, "skipped" if policy is Overlap.SKIP else "pending")]


def test_triggers_that_had_not_arrived_arrive_in_the_order_of_their_due_times(make_clockwork, restart):
    clockwork = make_clockwork(jitter_threshold=0, max_jitter_secs=1e5)
    clockwork.create(Steady(100), catch_up=CatchUp.ALL)
    clockwork.skip_to(310)
    assert [state for _, state in clockwork.outcomes()] == ["pending"] * 3
    after = restart(clockwork)
    assert after.outcomes() == [(100, "executing"), (200, "skipped"), (300, "skipped")]


def test_one_that_the_full_queue_put_off_fires_after_a_restart(make_clockwork, restart):
    clockwork = make_clockwork(max_queue_size=1)
    clockwork.yard.submit(deadline=clockwork.at(1e6))
    clockwork.trigger(clockwork.create(SELDOM))
    after = restart(clockwork)
    assert after.outcomes() == [(0, "executing")]


# Ended triggers


def test_ended_triggers_are_kept_with_their_keys(clockwork, restart):
    schedule = clockwork.create(SELDOM, "a")
    trigger = clockwork.trigger(schedule, "k")
    clockwork.fail(trigger, "no such page")
    after = restart(clockwork)
    again = after.trigger(after.schedules.get("a"), "k")
    assert (again.id, again.state, again.reason) == (trigger.id, "failed", "no such page")
    assert (len(after.triggers()), after.trigger_events()) == (1, [])


def test_the_bounds_hold_over_a_restart(clockwork, restart):
    schedule = clockwork.create(SELDOM, "a")
    ended = []
    for _ in range(100):
        ended.append(clockwork.trigger(schedule))
        clockwork.yard.cancel(clockwork.task(ended[-1]))
        clockwork.yard.now += 1
    after = restart(clockwork)
    again = after.trigger(after.schedules.get("a"))
    after.complete(again)
    assert [each.id for each in after.triggers()] == [*(each.id for each in ended[1:]), again.id]
