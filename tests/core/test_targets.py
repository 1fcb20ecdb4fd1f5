"""Targets: the tasks of one target run one at a time, in order of submission (docs/rules.md, Serial queues)."""

import pytest

from taskyard_server.core.figures.figures import stats_of
from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.targets import TargetStatus
from tests.core.target_yard import TargetYard


@pytest.fixture
def yard():
    return TargetYard()


# One at a time


def test_of_a_target_one_task_is_in_flight_at_a_time_and_others_are_not_held_up(yard):
    first, _, elsewhere, plain = yard.serial(), yard.serial(), yard.submit(target="u"), yard.submit()
    assert yard.claimed() == [first, elsewhere, plain]
    assert yard.claimed() == []


def test_the_next_one_follows_when_the_one_before_has_ended(yard):
    tasks = [yard.serial() for _ in range(3)]
    for task in tasks:
        lease = yard.start_one()
        assert lease.task is task
        assert yard.claimed() == []
        yard.complete(lease)
    assert yard.standing() is None


def test_what_a_target_guards_sees_growing_fencing_tokens_over_its_tasks(yard):
    seen = []
    for _ in range(4):
        yard.serial()
        yard.submit()
        lease, elsewhere = yard.claim(count=2)
        seen.append(lease.token)
        yard.complete(lease)
        yard.release(elsewhere)
    assert seen == sorted(set(seen))


def test_within_a_target_age_beats_priority_and_fairness(yard):
    first = yard.serial("ann", priority=9)
    yard.serial("bob", priority=-9)
    yard.complete(yard.start_one())
    third = yard.serial("ann", priority=9)
    assert yard.start_one().task.agent_id == "bob"
    assert (first.state, third.state) == ("done", "queued")


def test_a_head_that_no_host_may_run_holds_up_those_behind_it(yard):
    yard.serial(requires=frozenset({"gpu"}))
    second = yard.serial()
    assert yard.claimed() == []
    yard.cancel(yard.tasks()[0])
    assert yard.claimed() == [second]


def test_only_the_head_counts_as_claimable_but_all_count_as_queued(yard):
    for _ in range(3):
        yard.serial()
    assert stats_of(yard.scheduler).queued == 3
    assert yard.claim_one().task is yard.tasks()[0]
    assert stats_of(yard.scheduler).queued == 2


def test_a_released_task_is_the_head_again(yard):
    first, _ = yard.serial(), yard.serial()
    yard.release(yard.start_one())
    assert yard.claimed() == [first]


def test_a_task_behind_the_head_can_be_cancelled_without_a_trace(yard):
    first, second, third = (yard.serial() for _ in range(3))
    yard.cancel(second)
    for task in (first, third):
        lease = yard.start_one()
        assert lease.task is task
        yard.complete(lease)


# Order


def test_a_resumed_older_task_takes_the_place_of_a_younger_head_that_is_not_yet_claimed(yard):
    older = yard.serial(deadline=yard.now + 5)
    yard.pass_time(6)
    younger = yard.serial()
    assert yard.standing() == (TargetStatus.READY, younger)
    yard.resume(older)
    assert yard.standing() == (TargetStatus.READY, older)
    assert yard.claimed() == [older]


def test_a_resumed_older_task_waits_for_a_younger_one_that_is_under_way_and_goes_before_the_rest(yard):
    older = yard.serial(deadline=yard.now + 5)
    yard.pass_time(6)
    yard.serial()
    lease = yard.start_one()
    yard.serial()
    yard.resume(older)
    assert yard.claimed() == []
    yard.complete(lease)
    assert yard.claimed() == [older]


def test_a_head_that_waits_for_its_next_attempt_keeps_its_place(yard):
    head = yard.serial(retry=RetryPolicy(max_attempts=2, first_delay_secs=50))
    behind = yard.serial()
    yard.fail(yard.start_one())
    assert head.state == "pending"
    assert yard.claimed() == []
    assert yard.standing() == (TargetStatus.WAITING, head)
    yard.pass_time(51)
    assert yard.claimed() == [head]
    assert behind.state == "queued"


def test_a_held_task_and_one_that_is_not_due_have_no_place(yard):
    held, later = yard.serial(hold=True), yard.serial(not_before=yard.now + 50)
    third, fourth = yard.serial(), yard.serial()
    lease = yard.start_one()
    assert lease.task is third
    yard.resume(held)
    yard.pass_time(51)
    yard.complete(lease)
    for task in (held, later, fourth):
        lease = yard.start_one()
        assert lease.task is task, "by the order of submission, once they have a place"
        yard.complete(lease)


def test_a_target_of_held_tasks_only_waits_for_them(yard):
    held = yard.serial(hold=True)
    (target,) = yard.scheduler.targets.after("")
    assert target.standing == (TargetStatus.WAITING, held)
    assert target.waits_for == f"{held.id} to come due or to be released"
    assert target.held_back == 0


# Deadlines


def test_a_default_deadline_counts_only_from_when_the_task_is_the_head_that_may_be_claimed(make_yard):
    yard = make_yard(default_deadline_secs=60.0, lease_secs=1_000.0, heartbeat_timeout_secs=10_000.0)
    yard.register()
    first, second = yard.submit(target="t", deadline=yard.now + 5_000), yard.submit(target="t")
    assert (first.deadline, second.deadline) == (yard.now + 5_000, None)
    lease = yard.start_one()
    yard.pass_time(900)
    yard.complete(lease)
    assert second.deadline == yard.now + 60
    yard.pass_time(60.2)
    assert (second.state, second.error) == ("failed", "deadline exceeded while queued")


def test_a_default_deadline_does_not_count_while_an_older_task_goes_first(make_yard):
    yard = make_yard(default_deadline_secs=60.0, lease_secs=1_000.0, heartbeat_timeout_secs=10_000.0)
    yard.register()
    older = yard.submit(target="t", hold=True)
    younger = yard.submit(target="t")
    assert younger.deadline == yard.now + 60
    yard.resume(older)
    assert younger.deadline is None
    lease = yard.start_one()
    yard.pass_time(59)
    yard.complete(lease)
    assert younger.deadline == yard.now + 60


def test_a_deadline_that_the_submitter_set_counts_while_the_task_waits_for_its_target(yard):
    yard.serial()
    waiting = yard.serial(deadline=yard.now + 10)
    yard.start_one()
    yard.pass_time(10.2)
    assert (waiting.state, waiting.error) == ("failed", "deadline exceeded while queued")


# Listing, cost and memory


def test_targets_are_listed_by_name_with_what_each_does(yard):
    ready, running, waiting = yard.submit(target="a"), yard.submit(target="c"), yard.submit(target="b", hold=True)
    yard.claim("other", 1)
    yard.release(yard.claim("other", 1)[0])
    listed = [(target.name, *target.standing) for target in yard.scheduler.targets.after("")]
    assert listed == [
        ("a", TargetStatus.RUNNING, ready),
        ("b", TargetStatus.WAITING, waiting),
        ("c", TargetStatus.READY, running),
    ]
    assert [target.name for target in yard.scheduler.targets.after("a")] == ["b", "c"]


def cost_with(yard, targets, instructions):
    """The instructions of one task from submission to end, over a pause and a lost host, beside `targets` others."""
    for number in range(targets):
        yard.submit(f"agent {number % 100}", target=f"t{number}")
        if number % 3 == 0:
            yard.fail(yard.start_one())
        elif number % 3 == 1:
            yard.pause(yard.start_one().task)

    def live():
        task = yard.serial("zoe", "other action")
        host = yard.register("zoes", actions=frozenset({"other action"}))
        lease = yard.start_one("zoes")
        yard.pause(task)
        yard.report_stopped(lease)
        yard.resume(task)
        yard.deregister(host.id)
        yard.cancel(task)

    live()
    return instructions(live)


@pytest.mark.python_core
def test_ten_thousand_targets_cost_no_scan(instructions):
    assert cost_with(TargetYard(), 10_000, instructions) < 1.2 * cost_with(TargetYard(), 100, instructions)


def test_nothing_is_left_behind_when_all_is_over(yard, object_count):
    def live():
        yard.register()
        yard.register("other")
        for options in ({}, {}, {"retry": RetryPolicy(2, 0.5)}, {"hold": True}, {"not_before": yard.now + 3}):
            yard.serial(deadline=yard.now + 500, **options)
        for leave in ("cancel", "pause", "deregister"):
            lease = yard.start_one()
            match leave:
                case "deregister":
                    yard.deregister()
                case _:
                    getattr(yard, leave)(lease.task)
            if leave != "cancel":
                yard.cancel(lease.task)
            yard.pass_time(101)
            yard.register()
        while waiting := [task for task in yard.tasks() if task.state in ("pending", "failed")]:
            yard.resume(waiting[-1])
            yard.complete(yard.start_one())
        yard.deregister()
        yard.deregister("other")
        yard.pass_time(1_000)
        yard.pass_time(1_000)
        yard.scheduler.take_events()
        yard.scheduler.take_stops()

    live()
    before = object_count(yard.scheduler)
    for _ in range(20):
        live()
        assert yard.scheduler.next_due() is None
    assert yard.tasks() == []
    assert yard.scheduler.targets.after("") == []
    assert object_count(yard.scheduler) < before + 10, "figures that grow are other objects"
