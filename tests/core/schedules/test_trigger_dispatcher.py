"""What becomes of triggers whose time has come: places, overlaps, and how each end of a task ends them."""

import pytest

from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.schedules.schedule import CatchUp, Overlap
from taskyard_server.core.task import IdempotencyKey, TaskState

from .clockwork import Once, Steady, live

SELDOM = Steady(1_000_000)
"""For schedules that are triggered by calls."""


def states(*triggers):
    return [str(each.state) for each in triggers]


def schedules(clockwork, count, cadence):
    return [clockwork.create(cadence) for _ in range(count)]


# Places and order


def test_no_more_triggers_execute_at_once_than_there_are_places(make_clockwork):
    clockwork = make_clockwork(max_concurrent=5)
    triggers = [clockwork.trigger(each) for each in schedules(clockwork, 8, SELDOM)]
    assert states(*triggers) == ["executing"] * 5 + ["pending"] * 3
    assert clockwork.counts() == (3, 5)
    clockwork.complete(triggers[2])
    assert states(*triggers[5:]) == ["executing", "pending", "pending"]
    clockwork.fail(triggers[0])
    clockwork.yard.cancel(clockwork.task(triggers[1]))
    clockwork.look()
    assert states(*triggers[5:]) == ["executing"] * 3


def test_more_places_are_taken_at_once_and_fewer_end_nothing(make_clockwork):
    clockwork = make_clockwork(max_concurrent=2)
    triggers = [clockwork.trigger(each) for each in schedules(clockwork, 5, SELDOM)]
    clockwork.yard.reconfigure(max_concurrent=4)
    clockwork.look()
    assert states(*triggers) == ["executing"] * 4 + ["pending"]
    clockwork.yard.reconfigure(max_concurrent=3)
    clockwork.complete(triggers[0])
    assert states(*triggers) == ["completed"] + ["executing"] * 3 + ["pending"]
    clockwork.complete(triggers[1])
    assert states(*triggers)[3:] == ["executing", "executing"]


def test_the_schedule_of_which_the_fewest_execute_is_next(make_clockwork):
    clockwork = make_clockwork(max_concurrent=3)
    greedy = clockwork.create(SELDOM, overlap=Overlap.ALLOW)
    of_greedy = [clockwork.trigger(greedy) for _ in range(10)]
    clockwork.wake_at(1)
    modest = [clockwork.create(SELDOM, overlap=Overlap.ALLOW) for _ in range(2)]
    of_modest = [clockwork.trigger(each) for each in modest for _ in range(2)]
    assert states(*of_greedy[:4], *of_modest) == ["executing"] * 3 + ["pending"] * 5
    clockwork.complete(of_greedy[0])
    assert states(of_greedy[3], *of_modest) == ["pending", "executing", "pending", "pending", "pending"]
    clockwork.complete(of_greedy[1])
    assert states(of_greedy[3], *of_modest) == ["pending", "executing", "pending", "executing", "pending"]
    # All three execute one: what was due first.
    clockwork.complete(of_modest[0])
    assert states(of_greedy[3], *of_modest) == ["pending", "completed", "executing", "executing", "pending"]


def test_no_schedule_waits_for_more_than_one_end_of_another_ones_task(make_clockwork):
    clockwork = make_clockwork(max_concurrent=5)
    greedy = clockwork.create(Steady(1), overlap=Overlap.ALLOW, deadline_secs=60.0)
    clockwork.run_to(400)
    modest = clockwork.create(Steady(100), overlap=Overlap.WAIT)
    for _ in range(5):
        clockwork.run_to(modest.next_due - clockwork.start + 65)
        (last,) = clockwork.triggers(modest)[-1:]
        assert 0 <= last.fired_at - last.due_at <= 60 + 0.25
        clockwork.complete(last)
    assert greedy.executing == 5


def test_what_was_due_first_fires_first_then_what_is_older(make_clockwork):
    clockwork = make_clockwork(max_concurrent=1)
    blocker = clockwork.trigger(clockwork.create(SELDOM))
    for secs in (300, 200, 300, 250, 300):
        clockwork.create(Steady(secs))
    clockwork.yard.now = clockwork.at(310)
    by_call = clockwork.schedules.trigger(clockwork.yard.now, clockwork.create(SELDOM).id)
    clockwork.look()
    clockwork.complete(blocker)
    waiting = [each for each in clockwork.triggers() if each is not blocker]
    assert sorted(states(*waiting)) == ["executing"] + ["pending"] * 5
    order = []
    while executing := [each for each in waiting if each.state == "executing"]:
        order += executing
        clockwork.complete(*executing)
    assert order == sorted(waiting, key=lambda each: (each.due_at, each.number))
    assert by_call is order[-1]


def test_those_that_are_skipped_while_they_wait_leave_the_order_of_the_others_as_it_is(make_clockwork):
    clockwork = make_clockwork(max_concurrent=1)
    clockwork.jump(-5_000)
    blocker = clockwork.trigger(clockwork.create(SELDOM))
    clockwork.create(Steady(1), overlap=Overlap.REPLACE)
    for secs in range(10, 300, 10):
        clockwork.create(Steady(secs))
        clockwork.create(Once(clockwork.at(secs - 5_000)))
    clockwork.run_to(400)
    waiting = [each for each in clockwork.triggers() if each.state == "pending"]
    assert len(waiting) == 2 * 29 + 1
    clockwork.complete(blocker)
    for each in waiting:
        clockwork.complete(each)


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
def test_one_that_waits_for_a_place_is_in_the_way_as_well(make_clockwork, policy, others):
    clockwork = make_clockwork(max_concurrent=1)
    clockwork.trigger(clockwork.create(SELDOM))
    schedule = clockwork.create(Steady(100), overlap=policy)
    clockwork.run_to(350)
    assert states(*clockwork.triggers(schedule)) == others
    assert len(clockwork.tasks()) == 1


def test_replacing_cancels_the_task_and_fires(make_clockwork):
    clockwork = make_clockwork(max_concurrent=1)
    schedule = clockwork.create(Steady(100), overlap=Overlap.REPLACE)
    clockwork.run_to(110)
    (first,) = clockwork.triggers()
    clockwork.run_to(210)
    second = clockwork.triggers()[1]
    assert states(first, second) == ["failed", "executing"]
    assert first.reason
    assert clockwork.task(first).state is TaskState.CANCELLED
    assert (schedule.last_task_id, clockwork.task(second).state) == (second.task_id, TaskState.QUEUED)


def test_replacing_tells_the_host_to_stop(clockwork):
    schedule = clockwork.create(SELDOM, overlap=Overlap.REPLACE)
    first = clockwork.trigger(schedule)
    clockwork.yard.stream()
    lease = clockwork.yard.hand_one()
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


def test_one_schedule_is_in_no_other_ones_way(clockwork):
    triggers = [clockwork.trigger(each) for each in schedules(clockwork, 5, SELDOM)]
    assert states(*triggers) == ["executing"] * 5


@pytest.mark.parametrize("policy", Overlap)
def test_the_policy_applies_to_each_that_is_caught_up(clockwork, policy):
    clockwork.create(Steady(100), overlap=policy, catch_up=CatchUp.ALL)
    clockwork.wake_at(310)
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
    clockwork.look()
    third = clockwork.trigger(schedule)
    first, second = clockwork.triggers()[:2]
    assert states(first, second, third) == ["executing", "skipped", "pending"]
    clockwork.complete(first)
    assert third.state == "executing"


def test_one_that_waits_goes_on_when_none_is_open_whatever_the_policy_is_by_then(clockwork):
    schedule = clockwork.create(SELDOM, overlap=Overlap.ALLOW)
    first, second = clockwork.trigger(schedule), clockwork.trigger(schedule)
    clockwork.update(schedule, overlap=Overlap.WAIT)
    waiting = clockwork.trigger(schedule)
    clockwork.update(schedule, overlap=Overlap.SKIP)
    clockwork.complete(first)
    assert waiting.state == "pending"
    clockwork.complete(second)
    assert waiting.state == "executing"


def test_one_that_waits_for_another_takes_no_place(make_clockwork):
    clockwork = make_clockwork(max_concurrent=2)
    schedule = clockwork.create(SELDOM, overlap=Overlap.WAIT)
    first, second = clockwork.trigger(schedule), clockwork.trigger(schedule)
    other = clockwork.trigger(clockwork.create(SELDOM))
    assert states(first, second, other) == ["executing", "pending", "executing"]


def test_a_schedule_has_at_most_a_thousand_open_triggers(clockwork):
    schedule = clockwork.create(SELDOM, overlap=Overlap.ALLOW)
    for _ in range(1_001):
        clockwork.schedules.trigger(clockwork.yard.now, schedule.id)
    clockwork.look()
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
    clockwork = make_clockwork(max_concurrent=1)
    blocker = clockwork.trigger(clockwork.create(SELDOM))
    trigger = clockwork.trigger(clockwork.create(SELDOM))
    clockwork.yard.submit(key=IdempotencyKey(trigger.id, b"another body"))
    clockwork.complete(blocker)
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
