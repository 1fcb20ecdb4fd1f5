"""Triggers that are deferred by a full queue, and triggers in a drain (docs/rules.md, Triggers)."""

import pytest

from taskyard_server.core.errors import QueueFull
from taskyard_server.core.figures.figures import stats_of
from taskyard_server.core.schedules.schedule import Overlap
from taskyard_server.core.task import TaskState

from .clockwork import Once, Steady

SELDOM = Steady(1_000_000)

no_room = pytest.mark.parametrize("limits", [{"max_queue_size": 1}, {"max_per_agent": 1}], ids=str)


def blocked(make_clockwork, limits, **fields):
    """A trigger without room for its task, and the task that takes it."""
    clockwork = make_clockwork(**limits)
    blocker = clockwork.yard.submit(deadline=clockwork.at(1e6))
    return clockwork, clockwork.trigger(clockwork.create(SELDOM, **fields)), blocker


@no_room
def test_a_full_queue_defers_a_trigger_and_keeps_no_rejected_task(make_clockwork, limits):
    clockwork, trigger, blocker = blocked(make_clockwork, limits)
    assert (trigger.state, trigger.fire_at) == ("pending", clockwork.at(1))
    assert clockwork.tasks() == [blocker]
    assert stats_of(clockwork.yard.scheduler).counters.rejected == 0
    assert clockwork.counts() == (1, 0)


@no_room
def test_it_is_tried_again_after_a_second_then_after_twice_as_long_up_to_half_a_minute(make_clockwork, limits):
    clockwork, trigger, _ = blocked(make_clockwork, limits)
    delays = []
    for _ in range(8):
        before, tried_at = trigger.fire_at, clockwork.yard.now
        delays.append(before - tried_at)
        clockwork.run_to(before - clockwork.start + 0.125)
    assert delays == pytest.approx([1, 2, 4, 8, 16, 30, 30, 30], abs=0.13)
    assert trigger.state == "pending"
    assert len(clockwork.tasks()) == 1


@no_room
def test_a_deferred_trigger_fires_when_there_is_room(make_clockwork, limits):
    clockwork, trigger, blocker = blocked(make_clockwork, limits)
    clockwork.run_to(5)
    clockwork.yard.cancel(blocker)
    clockwork.run_to(10)
    assert (trigger.state, trigger.fire_at, trigger.due_at) == ("executing", None, clockwork.at(0))
    assert clockwork.task(trigger).state is TaskState.QUEUED
    assert clockwork.task(trigger).deadline == trigger.fired_at + 1e7


def test_a_deferred_trigger_does_not_count_as_queued_and_is_in_no_other_agents_way(make_clockwork):
    clockwork, deferred, _ = blocked(make_clockwork, {"max_per_agent": 1, "max_queued_triggers": 1})
    other = clockwork.trigger(clockwork.create(SELDOM, agent="bob"))
    assert (str(deferred.state), str(other.state)) == ("pending", "executing")


@pytest.mark.parametrize(
    ("policy", "both"),
    [
        (Overlap.SKIP, ["pending", "skipped"]),
        (Overlap.WAIT, ["pending", "pending"]),
        (Overlap.ALLOW, ["pending", "pending"]),
        (Overlap.REPLACE, ["skipped", "pending"]),
    ],
)
def test_a_deferred_trigger_has_not_ended(make_clockwork, policy, both):
    clockwork, first, blocker = blocked(make_clockwork, {"max_queue_size": 1}, overlap=policy)
    second = clockwork.trigger(first.schedule)
    assert [first.state, second.state] == both
    clockwork.yard.cancel(blocker)
    clockwork.run_to(10)
    assert [task.id for task in clockwork.tasks()[1:]] == [
        (second if policy is Overlap.REPLACE else first).task_id,
    ]


@pytest.mark.parametrize("how", ["pause", "delete", "update"])
def test_a_deferred_trigger_that_is_withdrawn_never_fires(make_clockwork, how):
    clockwork = make_clockwork(max_queue_size=1)
    blocker = clockwork.yard.submit(deadline=clockwork.at(1e6))
    schedule = clockwork.create(Once(clockwork.at(100)))
    clockwork.run_to(101)
    (trigger,) = clockwork.triggers()
    assert trigger.fire_at is not None
    match how:
        case "pause":
            clockwork.pause(schedule)
        case "delete":
            clockwork.delete(schedule)
        case "update":
            clockwork.update(schedule, cadence=SELDOM)
    clockwork.yard.cancel(blocker)
    clockwork.run_to(200)
    assert clockwork.tasks() == [blocker]
    assert clockwork.outcomes() == ([] if how == "delete" else [(100, "skipped")])
    assert clockwork.counts() == (0, 0)


def test_a_full_queue_still_refuses_other_submitters(make_clockwork):
    clockwork, *_ = blocked(make_clockwork, {"max_queue_size": 1})
    with pytest.raises(QueueFull):
        clockwork.yard.submit()


# Drain


def test_nothing_fires_while_the_scheduler_drains(make_clockwork):
    clockwork = make_clockwork(max_queued_triggers=1)
    schedule = clockwork.create(SELDOM, overlap=Overlap.ALLOW)
    executing, waiting = clockwork.trigger(schedule), clockwork.trigger(schedule)
    clockwork.create(Steady(100))
    lease = clockwork.lease(executing)
    clockwork.yard.scheduler.drain()
    clockwork.run_to(20)
    clockwork.yard.complete(lease)
    clockwork.run_to(250)
    assert (str(executing.state), str(waiting.state)) == ("completed", "pending")
    assert len(clockwork.tasks()) == 1
    assert not any(each.state in ("executing", "failed") for each in clockwork.triggers())


def test_a_deferred_trigger_does_not_fire_in_a_drain(make_clockwork):
    clockwork, trigger, blocker = blocked(make_clockwork, {"max_queue_size": 1})
    clockwork.yard.cancel(blocker)
    clockwork.yard.scheduler.drain()
    clockwork.run_to(100)
    assert trigger.state == "pending"


def test_nothing_is_due_at_once_during_a_drain(make_clockwork):
    clockwork = make_clockwork(max_queued_triggers=1)
    clockwork.create(Steady(10), overlap=Overlap.ALLOW)
    schedule = clockwork.create(SELDOM, overlap=Overlap.ALLOW)
    clockwork.trigger(schedule)
    clockwork.trigger(schedule)
    clockwork.yard.scheduler.drain()
    clockwork.run_to(100)
    due = clockwork.yard.scheduler.next_due()
    assert due is None or due > clockwork.yard.now
