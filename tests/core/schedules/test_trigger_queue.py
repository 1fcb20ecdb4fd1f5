"""Which trigger fires next, and how many tasks of a schedule wait to be handed out (docs/rules.md, Trigger places)."""

from random import Random

import pytest

from taskyard_server.core.schedules.schedule import CatchUp, Overlap, Schedule, Trigger
from taskyard_server.core.schedules.trigger_queue import TriggerQueue
from tests.cases import every_case

from .clockwork import Steady, spec_of

SELDOM = Steady(1_000_000)
"""For schedules that are triggered by calls."""


def states(*triggers):
    return [str(each.state) for each in triggers]


def schedules(clockwork, count, **options):
    return [clockwork.create(SELDOM, overlap=Overlap.ALLOW, **options) for _ in range(count)]


# The bound


def test_a_schedule_has_no_more_queued_tasks_than_it_may(make_clockwork):
    clockwork = make_clockwork(max_queued_triggers=2)
    (schedule,) = schedules(clockwork, 1)
    triggers = [clockwork.trigger(schedule) for _ in range(4)]
    assert states(*triggers) == ["executing"] * 2 + ["pending"] * 2
    assert clockwork.counts() == (2, 2)


@pytest.mark.parametrize("leave", ["hand out", "cancel", "deadline"])
def test_the_next_one_fires_when_a_task_is_queued_no_longer(make_clockwork, leave):
    clockwork = make_clockwork(max_queued_triggers=1)
    (schedule,) = schedules(clockwork, 1)
    clockwork.update(schedule, deadline_secs=60.0)
    first = clockwork.trigger(schedule)
    clockwork.update(schedule, deadline_secs=1e6)
    second = clockwork.trigger(schedule)
    assert states(first, second) == ["executing", "pending"]
    match leave:
        case "hand out":
            clockwork.lease(first)
        case "cancel":
            clockwork.yard.cancel(clockwork.task(first))
        case "deadline":
            clockwork.run_to(60)
    clockwork.run_to(61)
    assert second.state == "executing"


@pytest.mark.parametrize("back", ["release", "resume"])
def test_a_task_that_comes_back_to_the_queue_counts_again(make_clockwork, back):
    clockwork = make_clockwork(max_queued_triggers=1)
    (schedule,) = schedules(clockwork, 1)
    first = clockwork.trigger(schedule)
    lease = clockwork.lease(first)
    clockwork.yard.start(lease)
    if back == "release":
        clockwork.yard.release(lease)
    else:
        clockwork.yard.resume(clockwork.yard.pause(lease.task))
    assert clockwork.trigger(schedule).state == "pending"


def test_a_failed_task_that_is_resumed_after_its_trigger_has_ended_does_not_count(make_clockwork):
    clockwork = make_clockwork(max_queued_triggers=1)
    (schedule,) = schedules(clockwork, 1)
    first = clockwork.trigger(schedule)
    clockwork.fail(first)
    clockwork.yard.resume(clockwork.task(first))
    second, third = clockwork.trigger(schedule), clockwork.trigger(schedule)
    assert states(second, third) == ["executing", "pending"]


def test_a_schedule_whose_tasks_nobody_takes_does_not_hold_up_the_others(make_clockwork):
    clockwork = make_clockwork(max_queued_triggers=5)
    greedy = clockwork.create(Steady(1), overlap=Overlap.ALLOW)
    clockwork.run_to(400)
    assert (greedy.queued, greedy.executing) == (5, 5)
    modest = clockwork.create(Steady(100), overlap=Overlap.WAIT)
    for _ in range(5):
        clockwork.run_to(modest.next_due - clockwork.start + 65)
        (last,) = clockwork.triggers(modest)[-1:]
        assert last.fired_at - last.due_at <= 0.25
        clockwork.complete(last)
    assert (greedy.queued, greedy.executing) == (5, 5)


def test_more_may_be_queued_as_soon_as_the_limit_is_raised_and_a_lowered_one_ends_none(make_clockwork):
    clockwork = make_clockwork(max_queued_triggers=2)
    (schedule,) = schedules(clockwork, 1)
    triggers = [clockwork.trigger(schedule) for _ in range(5)]
    clockwork.reconfigure(max_queued_triggers=4)
    assert states(*triggers) == ["executing"] * 4 + ["pending"]
    clockwork.reconfigure(max_queued_triggers=2)
    assert states(*triggers) == ["executing"] * 4 + ["pending"]
    clockwork.complete(*triggers[:2])
    assert triggers[4].state == "pending"
    clockwork.complete(triggers[2])
    assert triggers[4].state == "executing"


def test_one_that_waits_for_an_earlier_one_does_not_count(make_clockwork):
    clockwork = make_clockwork(max_queued_triggers=1)
    schedule = clockwork.create(SELDOM, overlap=Overlap.WAIT)
    first, second = clockwork.trigger(schedule), clockwork.trigger(schedule)
    assert states(first, second) == ["executing", "pending"]
    assert clockwork.schedules.limited_by is None


# The order


def test_what_was_due_first_fires_first_then_what_is_older(make_clockwork):
    clockwork = make_clockwork(max_queued_triggers=0)
    for secs in (300, 200, 300, 250, 300):
        clockwork.create(Steady(secs))
    clockwork.skip_to(310)
    clockwork.trigger(clockwork.create(SELDOM))
    assert clockwork.tasks() == []
    clockwork.reconfigure(max_queued_triggers=1)
    assert [task.id for task in clockwork.tasks()] == [each.task_id for each in clockwork.triggers()]


def test_the_schedule_of_which_the_fewest_execute_is_next(make_clockwork):
    clockwork = make_clockwork(max_queued_triggers=0)
    greedy, modest, other = schedules(clockwork, 3)
    of_greedy = [clockwork.trigger(greedy) for _ in range(3)]
    clockwork.skip_to(1)
    of_modest, of_other = clockwork.trigger(modest), clockwork.trigger(other)
    clockwork.reconfigure(max_queued_triggers=9)
    order = [of_greedy[0], of_modest, of_other, *of_greedy[1:]]
    assert [task.id for task in clockwork.tasks()] == [each.task_id for each in order]


def test_tasks_that_were_handed_out_count_in_the_order_though_not_in_the_bound(make_clockwork):
    clockwork = make_clockwork(max_queued_triggers=1)
    busy, idle = schedules(clockwork, 2)
    clockwork.lease(clockwork.trigger(busy))
    clockwork.reconfigure(max_queued_triggers=0)
    first = clockwork.trigger(busy)
    clockwork.skip_to(1)
    second = clockwork.trigger(idle)
    clockwork.reconfigure(max_queued_triggers=1)
    assert [task.id for task in clockwork.tasks()[1:]] == [second.task_id, first.task_id]


@every_case("seed", range(10))
def test_the_queue_chooses_as_a_search_of_all_that_waits_does(seed):
    """Random arrivals, withdrawals, counts and limits, beside a plain list."""
    random = Random(seed)
    most = 2
    queue = TriggerQueue(most)
    made = [Schedule(f"s{number}", spec_of(SELDOM), 0.0, 0.0, None, False) for number in range(8)]
    waiting: list[Trigger] = []

    def may_fire():
        return [each for each in waiting if each.schedule.queued < most]

    def rank(each):
        oldest = min((other.due_at, other.number) for other in waiting if other.schedule is each.schedule)
        return each.schedule.executing, oldest, (each.due_at, each.number)

    for number in range(1_000):
        schedule = random.choice(made)
        match random.randrange(6):
            case 0 | 1 | 2:
                due_at = float(random.randrange(20))
                trigger = Trigger(f"t{number}", number, schedule, due_at, str(number), "", by_call=False)
                waiting.append(trigger)
                queue.add(trigger)
            case 3 if waiting:
                queue.remove(waiting.pop(random.randrange(len(waiting))))
            case 4:
                executing = random.randint(-schedule.executing, 2)
                queued = random.randint(-schedule.queued, schedule.executing + executing - schedule.queued)
                queue.adjust_counts(schedule, executing, queued)
            case 5:
                most = random.randrange(5)
                queue.set_max_queued(most)
        assert bool(queue) == bool(may_fire())
        assert queue.is_limited == (len({each.schedule for each in waiting}) > len({x.schedule for x in may_fire()}))
        if queue:
            assert queue.next() is min(may_fire(), key=rank)
            if random.random() < 0.3:
                waiting.remove(fired := queue.next())
                queue.remove(fired)
                queue.adjust_counts(fired.schedule, 1, 1)


# What the figures name


def test_the_limit_that_triggers_wait_for_is_named(make_clockwork):
    clockwork = make_clockwork(max_queued_triggers=1)
    (schedule,) = schedules(clockwork, 1)
    first = clockwork.trigger(schedule)
    assert clockwork.schedules.limited_by is None
    second = clockwork.trigger(schedule)
    assert clockwork.schedules.limited_by == "maxQueuedTriggers"
    clockwork.complete(first)
    assert clockwork.schedules.limited_by is None
    assert second.state == "executing"


def test_no_limit_is_named_while_the_scheduler_drains(make_clockwork):
    clockwork = make_clockwork(max_queued_triggers=1)
    (schedule,) = schedules(clockwork, 1)
    for _ in range(2):
        clockwork.trigger(schedule)
    clockwork.yard.scheduler.drain()
    assert clockwork.schedules.limited_by is None


@pytest.mark.parametrize("how", ["pause", "delete", "update"])
def test_a_schedule_whose_waiting_triggers_were_withdrawn_holds_nothing_up(make_clockwork, how):
    clockwork = make_clockwork(max_queued_triggers=1)
    schedule = clockwork.create(Steady(100), overlap=Overlap.ALLOW, catch_up=CatchUp.ALL)
    clockwork.skip_to(310)
    assert clockwork.schedules.limited_by == "maxQueuedTriggers"
    match how:
        case "pause":
            clockwork.pause(schedule)
        case "delete":
            clockwork.delete(schedule)
        case "update":
            clockwork.update(schedule, cadence=SELDOM)
    assert clockwork.schedules.limited_by is None
