"""Triggers whose time has come: overlap policies, their tasks, and their ends (docs/rules.md, Overlap, Triggers)."""

import pytest

from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.schedules.schedule import CatchUp, Overlap
from taskyard_server.core.task import TaskState
from taskyard_server.core.task_options import IdempotencyKey

from .clockwork import Steady, live

SELDOM = Steady(1_000_000)
"""For schedules that are triggered by calls."""


def states(*triggers):
    return [str(each.state) for each in triggers]


def schedules(clockwork, count, cadence):
    return [clockwork.create(cadence) for _ in range(count)]


# Overlap


@pytest.mark.parametrize(
    ("policy", "while_one_executes", "when_it_has_ended"),
    [
        (Overlap.SKIP, ["executing", "skipped", "skipped"], ["completed", "skipped", "skipped"]),
        (Overlap.WAIT, ["executing", "pending", "skipped"], ["completed", "executing", "skipped"]),
        (Overlap.ALLOW, ["executing", "executing", "executing"], ["completed", "executing", "executing"]),
    ],
)
@pytest.mark.parametrize("made", ["by their time", "by a call"])
def test_what_becomes_of_a_trigger_while_one_before_it_executes(
    clockwork, policy, while_one_executes, when_it_has_ended, made
):
    schedule = clockwork.create(Steady(100), overlap=policy)
    if made == "by a call":
        for _ in range(3):
            clockwork.trigger(schedule)
    else:
        clockwork.run_to(350)
    triggers = clockwork.triggers()
    assert states(*triggers) == while_one_executes
    clockwork.complete(triggers[0])
    assert states(*triggers) == when_it_has_ended
    assert all(each.reason for each in triggers if each.state == "skipped")


@pytest.mark.parametrize(
    ("policy", "others"),
    [
        (Overlap.SKIP, ["pending", "skipped", "skipped"]),
        (Overlap.WAIT, ["pending", "pending", "skipped"]),
        (Overlap.ALLOW, ["pending", "pending", "pending"]),
        (Overlap.REPLACE, ["skipped", "skipped", "pending"]),
    ],
)
def test_one_that_has_not_fired_yet_is_in_the_way_as_well(make_clockwork, policy, others):
    clockwork = make_clockwork(max_queued_triggers=0)
    schedule = clockwork.create(Steady(100), overlap=policy)
    clockwork.run_to(350)
    assert states(*clockwork.triggers(schedule)) == others
    assert clockwork.tasks() == []


def test_replacing_cancels_the_task_and_fires(make_clockwork):
    clockwork = make_clockwork(max_queued_triggers=1)
    schedule = clockwork.create(Steady(100), overlap=Overlap.REPLACE)
    clockwork.run_to(110)
    (first,) = clockwork.triggers()
    clockwork.run_to(210)
    second = clockwork.triggers()[1]
    assert states(first, second) == ["failed", "executing"]
    assert first.reason
    assert clockwork.task(first).state is TaskState.CANCELLED
    assert (schedule.last_task_id, clockwork.task(second).state) == (second.task_id, TaskState.QUEUED)


def test_the_host_of_a_replaced_task_is_told_to_stop(clockwork):
    schedule = clockwork.create(SELDOM, overlap=Overlap.REPLACE)
    first = clockwork.trigger(schedule)
    clockwork.yard.stream()
    lease = clockwork.yard.dispatch_one()
    clockwork.trigger(schedule)
    assert [stopped for stopped, *_ in clockwork.yard.stops()] == [lease]
    assert first.state == "failed"


def test_replacing_reaches_all_that_run_side_by_side(clockwork):
    schedule = clockwork.create(SELDOM, overlap=Overlap.ALLOW)
    before = [clockwork.trigger(schedule) for _ in range(5)]
    clockwork.update(schedule, overlap=Overlap.REPLACE)
    last = clockwork.trigger(schedule)
    assert states(*before, last) == ["failed"] * 5 + ["executing"]
    assert [task.id for task in live(clockwork.tasks())] == [last.task_id]


def test_schedules_do_not_overlap_with_one_another(clockwork):
    triggers = [clockwork.trigger(each) for each in schedules(clockwork, 5, SELDOM)]
    assert states(*triggers) == ["executing"] * 5


@pytest.mark.parametrize("policy", Overlap)
def test_the_policy_applies_to_each_that_is_caught_up(clockwork, policy):
    clockwork.create(Steady(100), overlap=policy, catch_up=CatchUp.ALL)
    clockwork.skip_to(310)
    expected = {
        Overlap.SKIP: ["executing", "skipped", "skipped"],
        Overlap.WAIT: ["executing", "pending", "skipped"],
        Overlap.ALLOW: ["executing"] * 3,
        Overlap.REPLACE: ["skipped", "skipped", "executing"],
    }
    assert states(*clockwork.triggers()) == expected[policy]


def test_a_trigger_after_the_end_of_the_one_before_fires(clockwork):
    clockwork.create(Steady(100))
    for _ in range(3):
        clockwork.run_to(clockwork.yard.now - clockwork.start + 100)
        clockwork.complete_all()
    assert states(*clockwork.triggers())[:2] == ["completed"] * 2


@pytest.mark.parametrize("how", ["pause", "update"])
def test_when_the_one_that_waits_is_withdrawn_the_next_may_wait(clockwork, how):
    schedule = clockwork.create(Steady(100), overlap=Overlap.WAIT)
    clockwork.run_to(210)
    if how == "pause":
        clockwork.pause(schedule)
    else:
        clockwork.update(schedule, cadence=Steady(1_000))
    clockwork.advance()
    third = clockwork.trigger(schedule)
    first, second = clockwork.triggers()[:2]
    assert states(first, second, third) == ["executing", "skipped", "pending"]
    clockwork.complete(first)
    assert third.state == "executing"


def test_a_waiting_trigger_goes_on_when_none_is_open_also_under_a_new_policy(clockwork):
    schedule = clockwork.create(SELDOM, overlap=Overlap.ALLOW)
    first, second = clockwork.trigger(schedule), clockwork.trigger(schedule)
    clockwork.update(schedule, overlap=Overlap.WAIT)
    waiting = clockwork.trigger(schedule)
    clockwork.update(schedule, overlap=Overlap.SKIP)
    clockwork.complete(first)
    assert waiting.state == "pending"
    clockwork.complete(second)
    assert waiting.state == "executing"


def test_a_schedule_has_at_most_a_thousand_open_triggers(clockwork):
    schedule = clockwork.create(SELDOM, overlap=Overlap.ALLOW)
    for _ in range(1_001):
        clockwork.schedules.trigger(clockwork.yard.now, schedule.id)
    clockwork.advance()
    triggers = clockwork.triggers()
    assert states(*triggers) == ["executing"] * 1_000 + ["skipped"]
    clockwork.complete(triggers[0])
    assert clockwork.trigger(schedule).state == "executing"


# The task


def test_a_trigger_fires_the_template_under_its_own_id_and_trace(clockwork):
    schedule = clockwork.create(Steady(100), agent="bob", action="type", labels=(("k", "v"),), deadline_secs=77.0)
    clockwork.run_to(150)
    (trigger,) = clockwork.triggers()
    task = clockwork.task(trigger)
    assert (task.agent_id, task.action, task.options.labels) == ("bob", "type", (("k", "v"),))
    assert task.options.key.key == trigger.id
    assert task.options.traceparent == trigger.traceparent
    assert task.deadline == trigger.fired_at + 77
    assert schedule.last_fired_at == trigger.fired_at
    assert schedule.last_task_id == trigger.task_id == task.id


def test_without_a_deadline_of_its_own_a_task_has_the_default_one(make_clockwork):
    clockwork = make_clockwork(default_deadline_secs=44.0)
    trigger = clockwork.trigger(clockwork.create(SELDOM, deadline_secs=None))
    assert clockwork.task(trigger).deadline == clockwork.at(44)


def test_a_trigger_whose_task_cannot_be_submitted_fails(make_clockwork):
    clockwork = make_clockwork(max_queued_triggers=0)
    trigger = clockwork.trigger(clockwork.create(SELDOM))
    clockwork.yard.submit(key=IdempotencyKey(trigger.id, b"another body"))
    clockwork.reconfigure(max_queued_triggers=1)
    assert trigger.state == "failed"
    assert trigger.reason
    assert (trigger.task_id, clockwork.counts()) == (None, (0, 0))


TRY_AGAIN = RetryPolicy(max_attempts=2, first_delay_secs=1.0)


@pytest.mark.parametrize("end", ["complete", "fail", "cancel", "deadline", "deadline while it runs"])
def test_a_trigger_ends_as_its_task_does(clockwork, end):
    schedule = clockwork.create(SELDOM, deadline_secs=50.0)
    trigger = clockwork.trigger(schedule)
    task = clockwork.task(trigger)
    clockwork.run_to(10)
    match end:
        case "complete":
            clockwork.complete(trigger)
        case "fail":
            clockwork.fail(trigger, "no such page")
        case "cancel":
            clockwork.yard.cancel(task)
        case "deadline while it runs":
            clockwork.yard.start(clockwork.lease(trigger))
    clockwork.run_to(60)
    done = end == "complete"
    assert trigger.state == ("completed" if done else "failed")
    assert trigger.reason == (None if done else task.error or "its task was cancelled")
    assert trigger.ended_at == task.completed_at
    assert clockwork.trigger(schedule).state == "executing"


@pytest.mark.parametrize("pause", ["a pause", "a retry"])
def test_a_trigger_executes_until_the_first_end_of_its_task(clockwork, pause):
    trigger = clockwork.trigger(clockwork.create(SELDOM, retry=TRY_AGAIN))
    lease = clockwork.lease(trigger)
    clockwork.yard.start(lease)
    if pause == "a pause":
        clockwork.yard.resume(clockwork.yard.pause(lease.task))
    else:
        clockwork.yard.fail(lease)
    assert trigger.state == "executing"
    clockwork.run_to(10)
    clockwork.complete(trigger)
    assert trigger.state == "completed"


def test_a_task_that_is_resumed_does_not_reopen_its_trigger(clockwork):
    schedule = clockwork.create(SELDOM)
    trigger = clockwork.trigger(schedule)
    clockwork.fail(trigger)
    clockwork.yard.resume(clockwork.task(trigger))
    assert (trigger.state, clockwork.counts()) == ("failed", (0, 0))
    assert clockwork.trigger(schedule).state == "executing"
    clockwork.complete(trigger)
    assert (trigger.state, trigger.reason) == ("failed", "broken")
    assert clockwork.counts() == (0, 1)


def test_other_tasks_end_no_trigger(clockwork):
    trigger = clockwork.trigger(clockwork.create(SELDOM))
    clockwork.yard.cancel(clockwork.yard.submit(key=IdempotencyKey("mine", b"")))
    assert trigger.state == "executing"


# Many at once


def test_a_call_fires_no_more_triggers_at_once_than_a_step_of_time_does(make_clockwork):
    clockwork = make_clockwork()
    for _ in range(300):
        clockwork.create(Steady(100))
    clockwork.yard.now = clockwork.at(100.125)
    while not (fired := clockwork.tasks()):
        clockwork.yard.scheduler.advance(clockwork.yard.now)
    before = len(fired)
    called = clockwork.schedules.trigger(clockwork.yard.now, clockwork.create(SELDOM).id)
    assert before < len(clockwork.tasks()) <= before + 50
    assert called.state == "pending"
    assert clockwork.yard.scheduler.next_due() <= clockwork.yard.now
    clockwork.advance()
    assert called.state == "executing"
    assert len(clockwork.tasks()) == 301
